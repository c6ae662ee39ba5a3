//! Frames that change hands instead of being copied: by their buffers, within a group of functions that trust each other, or by
//! their pages, between functions that don't.
//!
//! All functions of a [`Group`] take their buffers from one memory. If one of them sends a frame in such a buffer, and another
//! has posted one, then the two buffers are exchanged: each gets the other's instead of its own. docs/exchange.md specifies how
//! rings say so ([`crate::features::EXCHANGE`]), and the harm that a member that lies can do.
//!
//! - [`Geometry`]: where the buffers lie; [`Group`]: the memory, and the owner of each buffer;
//! - [`Seat`]: one function; [`Grant`]: the file that tells it of its buffers;
//! - [`Joined`]: a queue of a member, as the device exchanges through it;
//! - [`UNTRIED`]: the length from which frames are exchanged before the first trial;
//! - [`PageMember`]: a function with packet buffers in pages that can be exchanged ([`Pages`]);
//! - [`Grid`], [`Counts`]: frames that were exchanged and copied, and why.

mod counts;
mod geometry;
mod grant;
mod grid;
mod group;
mod instead;
mod joined;
mod pages;

pub(crate) use counts::Tally;
pub use counts::{Copied, Counts};
pub use geometry::{Geometry, HEADROOM, MAX_BUFFERS};
pub use grant::Grant;
pub use grid::Grid;
pub use group::{Group, GroupOptions, Seat, TooFewBuffers, UNTRIED};
pub(crate) use instead::Instead;
pub use joined::Joined;
pub(crate) use joined::{CopyAll, Handover};
pub use pages::{MAX_PAIRS, PageMember, PagePair, PagePlace, Pages, Skipped};
pub(crate) use pages::{PIECES, Passing};

/// Bits of a used descriptor's length on packed rings that are the length; those above are the number of another buffer that comes
/// back, plus one, or zero (docs/exchange.md).
pub const PACKED_LEN_BITS: u32 = 17;

const _: () = assert!((MAX_BUFFERS as u32 + 1) < 1 << (32 - PACKED_LEN_BITS), "numbers fit above the length");
const _: () = assert!(packet::MAX_FRAME + crate::layout::NET_HEADER < 1 << PACKED_LEN_BITS, "so does the length");
