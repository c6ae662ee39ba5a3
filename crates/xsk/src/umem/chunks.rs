//! The arithmetic of chunks: fill addresses to frame addresses, and back.

/// `XDP_PACKET_HEADROOM` of linux/bpf.h: bytes that the kernel keeps free before a frame, for the program to grow it.
const PACKET_HEADROOM: u32 = 256;

/// Shift of the offset in the address of an unaligned chunk (`XSK_UNALIGNED_BUF_OFFSET_SHIFT`).
const OFFSET_SHIFT: u32 = 48;
const ADDRESS_MASK: u64 = (1 << OFFSET_SHIFT) - 1;

/// Smallest chunk (`XDP_UMEM_MIN_CHUNK_SIZE`); the largest is a page.
const MIN_CHUNK: u32 = 2048;

/// Step of frame limits for hardware, which knows buffer lengths only in multiples of this.
const HARDWARE_STEP: u32 = 128;

/// Division of memory into chunks.
///
/// The kernel knows no length of an individual chunk: it writes frames of up to [`Self::frame_limit`] to each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// Bytes per chunk.
    pub size: u32,
    /// Bytes that stay free in a chunk, in addition to those that the kernel reserves.
    pub headroom: u32,
    /// Chunks start at any filled address (`XDP_UMEM_UNALIGNED_CHUNK_FLAG`), not only at multiples of their size.
    pub unaligned: bool,
}

impl Chunks {
    /// Returns chunks at multiples of their size, a power of two: for memory that is only a pool of chunks.
    pub const fn aligned(size: u32) -> Self {
        Self { size, headroom: 0, unaligned: false }
    }

    /// Returns chunks at any address: for memory whose owner lays out the buffers.
    pub const fn unaligned(size: u32) -> Self {
        Self { size, headroom: 0, unaligned: true }
    }

    /// Returns chunks of `size` at any address that hold frames of up to `frame_limit` bytes. In copy mode the kernel
    /// drops longer frames, so that nothing is written past the end of a buffer of this length; instead a chunk starts before
    /// its buffer, where nothing is written. `None` if chunks of this size cannot have that limit.
    pub const fn limited(size: u32, frame_limit: u32) -> Option<Self> {
        match size.checked_sub(PACKET_HEADROOM) {
            // The kernel refuses a headroom that leaves no room (`xdp_umem_reg`).
            Some(room) if 0 < frame_limit && frame_limit <= room => {
                Some(Self { size, headroom: room - frame_limit, unaligned: true })
            }
            _ => None,
        }
    }

    /// Returns an error in the chunks, for pages of this size.
    pub(super) fn problem(&self, page: u64) -> Option<String> {
        let Self { size, headroom, unaligned } = *self;
        if size < MIN_CHUNK || u64::from(size) > page {
            Some(format!("chunks have {MIN_CHUNK} to {page} bytes, not {size}"))
        } else if !unaligned && !size.is_power_of_two() {
            Some(format!("aligned chunks have a power of two of bytes, not {size}; make them unaligned"))
        } else if headroom >= size - PACKET_HEADROOM {
            let most = size - PACKET_HEADROOM - 1;
            Some(format!("chunks of {size} bytes have a headroom of {most} bytes at most, not {headroom}"))
        } else {
            None
        }
    }

    /// Returns the offset of the frame in a chunk.
    #[inline]
    pub const fn frame_offset(&self) -> u32 {
        PACKET_HEADROOM + self.headroom
    }

    /// Returns the longest frame that fits, or the longest part of one if frames may have several. In zero-copy mode it
    /// is rounded down to the 128-byte steps of network cards.
    pub const fn frame_limit(&self, zero_copy: bool) -> u32 {
        let limit = self.size - self.frame_offset();
        if zero_copy { limit - limit % HARDWARE_STEP } else { limit }
    }

    /// Returns the address to fill so that a frame lands at `frame`, or `None` if no chunk can lie so.
    #[inline(always)]
    pub const fn fill_address(&self, frame: u64) -> Option<u64> {
        match frame.checked_sub(self.frame_offset() as u64) {
            Some(address) if self.unaligned || address & self.mask() == 0 => Some(address),
            _ => None,
        }
    }

    /// Returns the first byte of a received descriptor's frame.
    #[inline]
    pub const fn frame_address(&self, address: u64) -> u64 {
        if self.unaligned { (address & ADDRESS_MASK) + (address >> OFFSET_SHIFT) } else { address }
    }

    /// Returns the filled address that led to the descriptor with this address.
    #[inline(always)]
    pub const fn filled_address(&self, address: u64) -> u64 {
        if self.unaligned { address & ADDRESS_MASK } else { address & !self.mask() }
    }

    /// Encodes an address for sending so that it comes back unchanged.
    ///
    /// Since Linux 6.18, copy mode loses the lowest bit of addresses on their way to the completion ring
    /// (`xsk_skb_destructor_set_addr` tags pointers with it). An odd address is therefore encoded as the byte before,
    /// with an offset of one more.
    #[inline(always)]
    pub(crate) const fn sent_address(&self, address: u64) -> u64 {
        let odd = if self.unaligned { address & 1 } else { 0 };
        address - odd + (odd << OFFSET_SHIFT)
    }

    /// Returns a mask of the address bits within an aligned chunk.
    const fn mask(&self) -> u64 {
        self.size as u64 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 4096;

    #[test]
    fn measured_limits() {
        // Accepted and refused by a 6.18 kernel.
        assert_eq!(Chunks { headroom: 1344, ..Chunks::unaligned(2048) }.frame_limit(false), 448);
        assert_eq!(Chunks::limited(2048, 1524).unwrap().headroom, 268);
        assert_eq!(Chunks::limited(2048, 1524).unwrap().frame_limit(true), 1408);
        assert_eq!(Chunks::limited(2048, 1793), None);
        assert_eq!(Chunks::limited(2048, 0), None);
        assert_eq!(Chunks::limited(200, 100), None);
    }

    #[test]
    fn refused_chunks() {
        for good in [Chunks::aligned(2048), Chunks::aligned(4096), Chunks::unaligned(2049), Chunks::unaligned(4096)] {
            assert_eq!(good.problem(PAGE), None);
        }
        let headroom = Chunks { headroom: 1792, ..Chunks::aligned(2048) };
        for bad in [Chunks::aligned(1024), Chunks::aligned(3000), Chunks::aligned(8192), Chunks::unaligned(0), headroom]
        {
            bad.problem(PAGE).unwrap();
        }
    }

    #[test]
    fn addresses_of_aligned_chunks() {
        let chunks = Chunks { headroom: 20, ..Chunks::aligned(2048) };
        assert_eq!(chunks.fill_address(4096 + 276), Some(4096));
        assert_eq!(chunks.fill_address(4096 + 277), None);
        assert_eq!(chunks.fill_address(275), None);
        assert_eq!((chunks.frame_address(4372), chunks.filled_address(4372)), (4372, 4096));
        assert_eq!(chunks.sent_address(4373), 4373);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..<_>::default() })]
        /// The kernel's encoding of an unaligned fill address leads back to the wanted byte (`xp_get_handle`).
        #[test]
        fn a_frame_lands_where_it_was_wanted(
            size in 2048..=4096u32,
            limit in 1..=3840u32,
            frame in 0..1u64 << 47,
        ) {
            let Some(chunks) = Chunks::limited(size, limit) else {
                prop_assert!(limit > size - 256);
                return Ok(());
            };
            prop_assert_eq!(chunks.problem(PAGE), None);
            prop_assert_eq!(chunks.frame_limit(false), limit);
            prop_assert!(chunks.frame_limit(true) <= limit);
            let Some(filled) = chunks.fill_address(frame) else {
                prop_assert!(frame < chunks.frame_offset().into());
                return Ok(());
            };
            let received = filled | u64::from(chunks.frame_offset()) << 48;
            prop_assert_eq!(chunks.frame_address(received), frame);
            prop_assert_eq!(chunks.filled_address(received), filled);
            // The same holds when it is sent on from there, without an odd address in between.
            prop_assert_eq!(chunks.frame_address(chunks.sent_address(received)), frame);
            prop_assert_eq!(chunks.sent_address(received) & 1, 0);
            prop_assert_eq!(chunks.frame_address(chunks.sent_address(frame)), frame);
            prop_assert_eq!(chunks.sent_address(frame) & 1, 0);
            // The chunk ends where the longest frame does.
            prop_assert_eq!(filled + u64::from(size), frame + u64::from(limit));
        }
    }
}
