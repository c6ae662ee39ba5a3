//! The flows of a bridge that forwards by OpenFlow, which a controller sets.
//!
//! - [`Datapath`] is shared by the control side and all workers;
//! - [`Flows`] is one version of the tables, which workers read; [`Path`] is the path of a packet through them;
//! - [`Walk`] is the progress of a packet along its path;
//! - [`Emission`] is a packet that a controller sends.
//!
//! A worker's [`FlowPlan`](super::flow_plan::FlowPlan) sends frames by them. Packets for controllers go through a
//! [`Ring`](handover::Ring).

mod datapath;
mod packet_out;
mod path;
mod port_config;
mod table;
#[cfg(test)]
mod tests;
mod walk;
mod wanted;

pub(crate) use datapath::{Datapath, Numbered};
pub(crate) use packet_out::Emission;
pub(super) use packet_out::Way;
pub(super) use path::Path;
pub(crate) use port_config::LivePortConfig;
pub(super) use table::{Flows, Lookups};
pub(super) use walk::{Next, Walk};
pub(super) use wanted::LiveWanted;
