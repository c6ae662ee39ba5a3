//! Packet aggregation at a port of a network function: what crosses the link to the switch is aggregates, as in
//! `docs/aggregation.md`.
//!
//! - [`Placement::Nf`]: received aggregates are split, each packet into a buffer of its own; the network function notices
//!   nothing.
//! - [`Placement::Native`]: received aggregates are handed out as they are, and [`crate::Packet::embedded`] walks through
//!   the packets in them.
//!
//! Sending is the same with both: packets of a burst to one next hop are joined, in the buffer of the first of them, and
//! an aggregate that goes to one next hop as a whole gets new headers.

mod drops;
mod join;
mod split;

pub use drops::Drops;
pub(crate) use join::Join;
pub(crate) use split::{SPLIT_BUFFERS, Split};

use paflow::Rules;
use std::sync::Arc;

/// Who takes the packets out of received aggregates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// This library.
    #[default]
    Nf,
    /// The network function.
    Native,
}

/// That a port aggregates, and how.
#[derive(Clone, Debug)]
pub struct Aggregation {
    /// What it goes by.
    pub rules: Arc<Rules>,
    /// Who takes the packets out of received aggregates.
    pub placement: Placement,
}

impl Aggregation {
    /// Bytes of the longest frame that can be made.
    pub(crate) fn longest(&self) -> usize {
        let frame = |hop: &paflow::rules::Hop| hop.template.len() + hop.template.room() as usize;
        self.rules.hops.iter().map(frame).max().unwrap_or(0)
    }
}
