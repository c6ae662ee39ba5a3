//! Forwarding: along a patch, or through a bridge, which may use a controller's flows.

pub(crate) mod bridge;
mod bridge_plan;
mod flow_plan;
pub(crate) mod flows;
mod learning;
pub mod mac_table;
mod output;
#[cfg(test)]
mod tests;
mod transmit_queue;
mod vlan;

pub(crate) use bridge_plan::BridgePlan;
pub(crate) use flow_plan::Injection;
pub(crate) use learning::{Arrival, NO_OUTPUT, Scratch};
pub(crate) use output::{Output, OutputTerms};
pub(crate) use transmit_queue::{Half, HalfStep, TransmitQueue};

/// Destination of an input's frames.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// To this output.
    Patch(usize),
    /// Through this bridge, from this one of its ports.
    Bridge { bridge: usize, from: usize },
    /// Nowhere.
    Nowhere,
}
