//! Forwarding by OpenFlow: frames of a bridge go by the flows of table 0, which a controller sets.
//!
//! - [`Datapath`] is shared by the control side and all workers;
//! - [`table::Flows`] is one version of the table, which workers read, and the cells that they count in;
//! - [`FlowPlan`] forwards a burst for one worker: keys, a cache, and the steps of the flows that it finds.
//!
//! Packets for controllers go through a [`Ring`](crate::punt::Ring).

mod datapath;
mod head;
mod ledger;
mod packet_out;
mod plan;
mod program;
mod table;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use datapath::{Datapath, Numbered};
pub(crate) use packet_out::Emission;
pub(crate) use plan::{FlowPlan, Injection};
