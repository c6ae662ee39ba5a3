//! Maps a ring of a socket, and locates its parts.

use super::mapping::RingMapping;
use super::parts::RingParts;
use rustix::net::xdp::XdpRingOffset;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU32;

/// Maps the ring of `size` entries, a power of two, that was set up on `socket`, and locates its parts.
pub(crate) fn map<T: Copy>(
    socket: BorrowedFd<'_>,
    at: u64,
    offsets: &XdpRingOffset,
    size: u32,
) -> io::Result<RingParts<T>> {
    let mapping = RingMapping::new(socket, at, offsets.desc as usize + size as usize * size_of::<T>())?;
    let word = |offset: u64| mapping.at::<AtomicU32>(offset, 1);
    let (producer, consumer) = (word(offsets.producer)?, word(offsets.consumer)?);
    let flags = offsets.flags.map(word).transpose()?;
    let entries = mapping.at(offsets.desc, size as usize)?;
    // SAFETY: all of these were checked to be aligned and to lie inside the mapping, and do not overlap, as the kernel
    // lays them out (`struct xdp_ring`). It is mapped once, and this process uses it as one of the sides.
    Ok(unsafe { RingParts::new(producer, consumer, flags, entries, size, Some(mapping)) })
}
