//! Packet aggregation: packets that leave for one next hop travel as one frame, and frames that hold several are split
//! when they arrive. The wire format is paflow's, in `docs/aggregation-format.md`; here is what joins it with bursts.
//!
//! - [`Join`] wraps the transmit half of a port that aggregates;
//! - [`Split`] is what a worker does with a burst of such a port between receiving and look-up;
//! - [`Rules`] are what both go by, and [`Live`] is how they are changed while workers run.

mod count;
mod counters;
mod gather;
mod held;
mod join;
mod live;
mod relay;
mod split;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use counters::Traffic;
pub(crate) use join::Join;
pub(crate) use live::{Live, Reader};
pub(crate) use relay::Relay;
pub(crate) use split::{Split, SplitScratch};

use crate::neighbour::Neighbours;
use crate::spec::AggregationSpec;
use crate::stats::AggregationFlow;
use paflow::Rules;
use std::sync::Arc;

/// The rules of `spec`, with flows laid over those that it has; none at all if there is no `spec`.
pub(crate) fn rules(spec: Option<&AggregationSpec>, laid: &[AggregationFlow]) -> Rules {
    spec.map_or_else(Rules::none, |spec| Rules::new(spec, laid.iter().map(|flow| (flow.sc, flow.nfi))))
}

/// What one port that aggregates has to know.
#[derive(Clone)]
pub(crate) struct Member {
    /// The port's name.
    pub(crate) port: Arc<str>,
    /// What is in force.
    pub(crate) rules: Arc<Live<Rules>>,
    /// What is counted, by queue.
    pub(crate) traffic: Arc<[Traffic]>,
    /// What takes flows that other switches relay.
    pub(crate) relay: Arc<Relay>,
    /// What answers who asks for the switch's addresses.
    pub(crate) neighbours: Arc<Neighbours>,
}
