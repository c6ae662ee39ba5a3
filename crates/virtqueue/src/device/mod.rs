//! The device side of a queue, used by a switch: [`Dequeue`] takes frames out of a guest's transmit queue, and
//! [`Enqueue`] puts frames into a guest's receive queue.
//!
//! One thread at a time drives a queue, hence `&self` and cells: the frames of a burst borrow the queue that they came
//! from, so the queue cannot be changed or dropped while any of its frames is in use.

mod aside;
mod budget;
mod chain;
mod dequeue;
mod enqueue;
mod fixup;
mod header;
mod held;
mod keep;
mod left;
mod lend;
mod loans;
mod packed;
mod posted;
mod receive;
mod ring;
#[cfg(test)]
mod rogue;
mod splice;
mod split;
mod taken;
mod transmit;

use crate::error::Dropped;
use std::cell::Cell;

pub use aside::Aside;
pub use dequeue::{Dequeue, SendTerms};
pub use enqueue::{Delivered, Enqueue, ReceiveTerms};
pub use lend::{Borrower, FilledLoans, Landing, Loan, Terms, Told};
pub use loans::{Chains, Loans};
pub use receive::Prefetch;
pub use splice::{Pass, Seen, Spliced, Unseen};

/// Chains returned without a frame, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts {
    /// [`Dropped::BadBuffer`].
    pub bad_buffer: u64,
    /// [`Dropped::Short`].
    pub short: u64,
    /// [`Dropped::TooLong`].
    pub too_long: u64,
    /// [`Dropped::BadOffload`].
    pub bad_offload: u64,
}

impl DropCounts {
    fn count(cell: &Cell<DropCounts>, reason: Dropped) {
        let mut counts = cell.get();
        match reason {
            Dropped::BadBuffer => counts.bad_buffer += 1,
            Dropped::Short => counts.short += 1,
            Dropped::TooLong => counts.too_long += 1,
            Dropped::BadOffload => counts.bad_offload += 1,
        }
        cell.set(counts);
    }
}
