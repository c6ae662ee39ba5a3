//! Frames whose checksums their sender left to others: a port without offloads finishes them as it receives them.

use packet::Segment;
use packet::unfinished::Patch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use virtqueue::memory::Arena;

/// Whether checksums had to be finished, for all queues of a port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unfinished(Arc<AtomicBool>);

impl Unfinished {
    /// Notes that one had to be finished.
    pub(crate) fn note(&self) {
        if !self.is_seen() {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Reports whether one had to be finished.
    pub(crate) fn is_seen(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Writes `patch` to a frame in `parts` of `arena`, as (address, length).
pub(crate) fn write(patch: &Patch, arena: &Arena, parts: impl Iterator<Item = (u64, u32)>) {
    let mut field = Segment::from(patch.bytes());
    let mut skip = patch.at;
    for (at, len) in parts {
        if skip < len {
            let (here, rest) = field.split_at(len - skip);
            arena.gather(at + u64::from(skip), std::iter::once(here));
            (field, skip) = (rest, 0);
        } else {
            skip -= len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::unfinished;

    #[test]
    fn a_field_may_lie_in_two_parts() {
        let mut arena = Arena::new(4096, false).unwrap();
        let at = arena.allocate(2048, 64).unwrap();
        let bytes: Vec<u8> = (0..100).collect();
        let mut expected = bytes.clone();
        let patch = unfinished::as_asked(std::iter::once(Segment::from(&bytes[..])), 20, 16).unwrap();
        patch.apply(&mut expected);
        for first in 30..45 {
            let parts = [(at, first), (at + 1000, 100 - first)];
            let (front, back) = Segment::from(&bytes[..]).split_at(first);
            arena.gather(parts[0].0, std::iter::once(front));
            arena.gather(parts[1].0, std::iter::once(back));
            write(&patch, &arena, parts.into_iter());
            let mut read = vec![0; 100];
            for ((at, len), out) in parts.into_iter().zip([0, first as usize]) {
                arena.segment(at, len).unwrap().copy_to(&mut read[out..]);
            }
            assert_eq!(read, expected, "{first}");
        }
    }
}
