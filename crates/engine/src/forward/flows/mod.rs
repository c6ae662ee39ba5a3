//! The flows of a bridge that forwards by OpenFlow: those of table 0, which a controller sets.
//!
//! - [`Datapath`] is shared by the control side and all workers;
//! - [`Flows`] is one version of the table, which workers read;
//! - [`Emission`] is a packet that a controller sends.
//!
//! A worker's [`FlowPlan`](super::flow_plan::FlowPlan) sends frames by them. Packets for controllers go through a
//! [`Ring`](crate::punt::Ring).

mod datapath;
mod packet_out;
mod table;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use datapath::{Datapath, Numbered};
pub(crate) use packet_out::Emission;
pub(super) use table::{Flows, Lookups};
