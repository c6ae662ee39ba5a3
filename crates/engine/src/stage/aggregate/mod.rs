//! Packet aggregation: packets to one next hop leave as one frame, and frames that hold several packets are split on
//! arrival. paflow defines the wire format (`docs/aggregation-format.md`); this module applies it to bursts.
//!
//! - [`Split`] is a stage of the ingress of a port that aggregates;
//! - [`Join`] is a stage of its egress;
//! - [`AggregationRules`] control both; [`Live`] passes a change on to workers.

mod count;
mod counters;
mod gather;
mod held;
mod join;
mod relay;
mod split;
#[cfg(test)]
mod tests;
mod too_long;

pub(crate) use counters::PortTraffic;
pub(crate) use join::Join;
pub(crate) use relay::Relay;
pub(crate) use split::Split;
pub(crate) use too_long::REFUSALS;

use crate::answers::Answers;
use crate::live::Live;
use crate::spec::AggregationSpec;
use crate::stats::AggregationFlow;
use paflow::AggregationRules;
use std::sync::Arc;

/// Returns the rules of `spec`, with the flows `laid` over its own; empty rules if there is no `spec`.
pub(crate) fn rules(spec: Option<&AggregationSpec>, laid: &[AggregationFlow]) -> AggregationRules {
    spec.map_or_else(AggregationRules::none, |spec| {
        AggregationRules::new(spec, laid.iter().map(|flow| (flow.sc, flow.nfi)))
    })
}

/// State of one port that aggregates.
#[derive(Clone)]
pub(crate) struct Member {
    /// The port's name.
    pub(crate) port: Arc<str>,
    /// Rules in force.
    pub(crate) rules: Arc<Live<AggregationRules>>,
    /// Counters, by queue.
    pub(crate) traffic: Arc<PortTraffic>,
    /// Queues for flows relayed by other switches.
    pub(crate) relay: Arc<Relay>,
    /// Answers to requests for the switch's addresses.
    pub(crate) neighbours: Arc<Answers>,
    /// Answers to packets that are too long for their next hop, by the queue that they would have left by.
    pub(crate) refusals: Arc<Answers>,
}
