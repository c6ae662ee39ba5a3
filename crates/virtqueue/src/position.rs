//! Positions in a packed ring (virtio 1.2 §2.8.1).

use std::hint::cold_path;

/// A position in the ring: a slot, and the wrap counter of the lap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) slot: u16,
    pub(crate) wrap: bool,
}

impl Position {
    /// Returns the position `slots` further on; `slots` must be at most `size`.
    #[inline(always)]
    pub(crate) fn advance(mut self, slots: u16, size: u16) -> Position {
        self.pass(slots, size);
        self
    }

    /// Moves on by `slots`, at most `size`. Reports whether another lap begins.
    #[inline(always)]
    pub(crate) fn pass(&mut self, slots: u16, size: u16) -> bool {
        self.slot += slots;
        if self.slot < size {
            return false;
        }
        // A branch that is predicted costs less on every slot than a choice without one.
        cold_path();
        self.slot -= size;
        self.wrap = !self.wrap;
        true
    }

    /// Returns the number of slots from here to `later`, which is at most one lap further on.
    #[inline(always)]
    pub(crate) fn distance(self, later: Position, size: u16) -> u16 {
        if self.wrap == later.wrap {
            later.slot.wrapping_sub(self.slot)
        } else {
            size.wrapping_sub(self.slot).wrapping_add(later.slot)
        }
    }

    /// Encodes it as in vhost-user and event suppression: slot in bits 0..=14, wrap counter in bit 15.
    pub(crate) fn bits(self) -> u16 {
        self.slot | u16::from(self.wrap) << 15
    }

    /// Returns the slot relative to the lap of `now`: a slot in the previous lap is smaller by `size`, modulo 2^16.
    pub(crate) fn in_lap_of(self, now: Position, size: u16) -> u16 {
        if self.wrap == now.wrap { self.slot } else { self.slot.wrapping_sub(size) }
    }

    pub(crate) fn from_bits(bits: u16) -> Position {
        Position { slot: bits & 0x7fff, wrap: bits >> 15 != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_wrap() {
        let p = Position { slot: 254, wrap: true };
        assert_eq!(p.advance(1, 256), Position { slot: 255, wrap: true });
        assert_eq!(p.advance(2, 256), Position { slot: 0, wrap: false });
        assert_eq!(p.advance(256, 256), Position { slot: 254, wrap: false });
        assert_eq!(Position::from_bits(p.bits()), p);
        let mut moving = p;
        assert_eq!((moving.pass(1, 256), moving.pass(1, 256), moving), (false, true, p.advance(2, 256)));
    }

    /// Tests every position and distance in some small rings, and the edges of the largest one.
    #[test]
    fn distance_is_what_it_was_advanced_by() {
        let largest = crate::MAX_QUEUE_SIZE;
        let edges = [0, 1, largest / 2, largest - 1];
        let small = [1, 2, 3, 8].map(|size| (size, (0..size).collect::<Vec<_>>(), (0..=size).collect::<Vec<_>>()));
        let all = small.into_iter().chain([(largest, edges.to_vec(), [&edges[..], &[largest]].concat())]);
        for (size, from, by) in all {
            for (&slot, wrap) in from.iter().flat_map(|slot| [(slot, false), (slot, true)]) {
                let start = Position { slot, wrap };
                assert_eq!(Position::from_bits(start.bits()), start);
                for &slots in &by {
                    let end = start.advance(slots, size);
                    assert!(end.slot < size);
                    assert_eq!(start.distance(end, size), slots, "{start:?} {slots} of {size}");
                }
            }
        }
    }
}
