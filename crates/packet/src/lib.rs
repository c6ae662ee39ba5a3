//! Frames: the common vocabulary of all crates that move or inspect packets.
//!
//! - [`Burst`], [`Frames`], [`Frame`] and [`Segment`]: bytes borrowed from one queue on their way to another;
//! - [`LeasedFrames`]: frames that leave the worker of their queue, in [`MappedMemory`] memory or copied;
//! - [`FrameBlock`]: frames that never change;
//! - [`copy`]: the only copy of a frame;
//! - [`Buffers`]: memory of this process for frames that do not come from a ring;
//! - [`MacAddr`]: a MAC address;
//! - [`offload`]: work on a frame that its sender left to others;
//! - [`segmenter`]: such a message cut into frames;
//! - [`merge`]: segments that become such a message again;
//! - [`checksum`]: the Internet checksum, computed over parts or updated after a change;
//! - [`unfinished`]: checksums that a sender left to hardware;
//! - [`ethertype`], [`ip_protocol`] and [`header_len`]: numbers of the standards.
//!
//! The lowest layer: no dependencies, no I/O, and no allocation but for storage that is made once. Frames lie in memory that
//! others write to; the few files that follow their pointers say so at the top.
#![deny(unsafe_code)]
#![warn(unreachable_pub)]

mod buffers;
pub mod checksum;
pub mod copy;
pub mod crc32c;
pub mod ethertype;
mod frame;
mod frame_block;
pub mod header_len;
pub mod ip_protocol;
mod mac_addr;
pub mod merge;
pub mod offload;
pub mod segmenter;
mod transport;
pub mod unfinished;

pub use buffers::Buffers;
pub use frame::{
    Burst, BurstStorage, Cursor, Ethernet, Filling, Frame, Frames, HEAD, Head, Headers, Heads, Judged, Judging, Kind,
    LeasedFrames, MAX_BURST, MAX_BURST_BYTES, MAX_FRAME, MAX_SEGMENTS, MIN_FRAME, MappedMemory, Offer, Origin, Pieces,
    Segment, Selected, Taken, USUAL_FRAME, Unjudged,
};
pub use frame_block::FrameBlock;
pub use mac_addr::{MacAddr, ParseMacAddrError};
