//! The length from which frames are forwarded without a copy, found from timed bursts while frames flow.
//!
//! Without a copy, a frame is exchanged for a buffer of its receiver, or lies in that buffer from the start, or is sent from where its
//! sender wrote it. That is no gain for all frames: it costs work for each, and may cost the functions more than it saves the switch.
//!
//! - [`Trials`]: the length found so far, and the trial that is under way;
//! - [`Measured`]: one queue, whose bursts are timed during trials.
#![forbid(unsafe_code)]

mod measured;
mod trial;
mod trials;
mod verdict;

pub use measured::Measured;
pub use trials::{SETTLE, Trials};
