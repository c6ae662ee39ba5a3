//! Where the buffers of a group lie in its memory.

use crate::layout::NET_HEADER;

/// Bytes of a cache line.
const LINE: u64 = 64;

/// Most buffers of a group: their numbers, plus one, have 15 bits (docs/exchange.md).
pub const MAX_BUFFERS: u16 = (1 << 15) - 2;

/// Bytes in front of each buffer that are its owner's own, for headers: a whole number of lines.
pub const HEADROOM: u32 = 128;

/// Buffers of equal size in one run of memory, numbered from zero.
///
/// Each begins 12 bytes before a cache line, so that a frame behind its virtio header begins on a line, and they lie an odd
/// number of lines apart: a power of two would put all of them into a few sets of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    count: u16,
    size: u32,
    room: u32,
    stride: u64,
    /// 2³² divided by the stride in lines, rounded up.
    inverse: u64,
}

/// Longest frame that a buffer of a group may be for, in bytes: longer ones are only messages that others have to cut, which are copied.
const LONGEST: u32 = 65_535;

impl Geometry {
    /// Returns the geometry of `count` buffers, each with room for a frame of `size` bytes. `None` if there are no buffers or
    /// more than [`MAX_BUFFERS`], or if a frame is longer than 65,535 bytes.
    pub fn new(count: u16, size: u32) -> Option<Geometry> {
        if !(1..=MAX_BUFFERS).contains(&count) || size > LONGEST {
            return None;
        }
        let lines = (u64::from(HEADROOM + size).div_ceil(LINE) + 1) | 1;
        let stride = lines * LINE;
        // From the virtio header to the line that the next one begins in.
        let room = (stride - LINE) as u32 - HEADROOM + NET_HEADER;
        Some(Geometry { count, size, room, stride, inverse: (1u64 << 32).div_ceil(lines) })
    }

    /// Returns the number of buffers.
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Returns the length in bytes of the longest frame for which each buffer was asked to have room.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Returns the length of a buffer in bytes, from its virtio header on.
    pub fn room(&self) -> u32 {
        self.room
    }

    /// Returns the number of bytes in front of each buffer that are its owner's own.
    pub fn headroom(&self) -> u32 {
        HEADROOM
    }

    /// Returns the distance between two buffers in bytes.
    pub fn stride(&self) -> u64 {
        self.stride
    }

    /// Returns the bytes of memory that all buffers take.
    pub fn bytes(&self) -> u64 {
        self.stride * u64::from(self.count)
    }

    /// Returns the distance from the start of the memory to the virtio header of a buffer.
    #[inline(always)]
    pub fn offset(&self, number: u16) -> u64 {
        u64::from(HEADROOM) + LINE - u64::from(NET_HEADER) + u64::from(number) * self.stride
    }

    /// Returns the number of the buffer whose virtio header lies at this distance from the start of the memory.
    #[inline(always)]
    pub(super) fn number(&self, offset: u64) -> Option<u16> {
        let from_first = offset.wrapping_sub(self.offset(0));
        // With less than 2¹⁵ buffers of at most 2¹¹ lines, the product is exact for all that are one of them.
        let number = ((from_first >> 6) & 0xffff_ffff).wrapping_mul(self.inverse) >> 32;
        (number < self.count.into() && number * self.stride == from_first).then_some(number as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits() {
        assert!(Geometry::new(0, 2048).is_none() && Geometry::new(MAX_BUFFERS + 1, 2048).is_none());
        assert!(Geometry::new(1, 65_536).is_none());
        let all = Geometry::new(MAX_BUFFERS, 65_535).unwrap();
        assert_eq!(all.number(all.offset(MAX_BUFFERS - 1)), Some(MAX_BUFFERS - 1));
        assert_eq!(all.number(all.offset(MAX_BUFFERS - 1) + all.stride()), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 5 } else { 500 }, failure_persistence: None, ..Default::default() })]

        #[test]
        fn numbers_are_found_by_offsets(count in 1..=MAX_BUFFERS, size in 0..=65_535u32, which: u16, near in -3i64..=3, any: u64) {
            let geometry = Geometry::new(count, size).unwrap();
            let number = which % count;
            let at = geometry.offset(number);
            prop_assert_eq!(geometry.number(at), Some(number));
            prop_assert_eq!(geometry.number(at.wrapping_add_signed(near)), (near == 0).then_some(number));
            prop_assert!(geometry.number(any).is_none_or(|number| geometry.offset(number) == any));
            // A frame begins on a line, fits, and does not reach into the next buffer's headroom.
            prop_assert!((at + u64::from(NET_HEADER)).is_multiple_of(LINE));
            prop_assert!(geometry.room() >= size + NET_HEADER);
            prop_assert!(at + u64::from(geometry.room()) <= geometry.offset(number + 1) - u64::from(HEADROOM));
            prop_assert!(geometry.offset(count - 1) + u64::from(geometry.room()) <= geometry.bytes());
            prop_assert!((geometry.stride() / LINE) % 2 == 1);
        }
    }
}
