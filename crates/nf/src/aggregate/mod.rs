//! Packet aggregation at a port of a network function: aggregates cross the link to the switch, see
//! `docs/aggregation.md`.
//!
//! - [`Splitter::Nf`]: received aggregates are split, each packet into a separate buffer; the network function sees no
//!   aggregates.
//! - [`Splitter::Native`]: received aggregates are delivered as they are, and [`crate::Packet::embedded`] iterates over
//!   the packets in them.
//!
//! Sending is the same with both: packets of a burst to one next hop are joined, in the buffer of the first one, and
//! an aggregate that goes to one next hop as a whole gets new headers.

mod drops;
mod join;
mod split;

pub use drops::Drops;
pub(crate) use join::Join;
pub(crate) use split::{SPLIT_BUFFERS, Split};

use paflow::AggregationRules;
use std::sync::Arc;

/// The component that splits received aggregates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Splitter {
    /// This library.
    #[default]
    Nf,
    /// The network function.
    Native,
}

/// The aggregation at a port.
#[derive(Clone, Debug)]
pub struct Aggregation {
    /// The rules in force.
    pub rules: Arc<AggregationRules>,
    /// The component that splits received aggregates.
    pub splitter: Splitter,
}

impl Aggregation {
    /// Returns the length of the longest frame that can be sent.
    pub(crate) fn longest(&self) -> usize {
        let frame = |hop: &paflow::rules::Hop| hop.template.len() + hop.template.room() as usize;
        self.rules.hops.iter().map(frame).max().unwrap_or(0)
    }
}
