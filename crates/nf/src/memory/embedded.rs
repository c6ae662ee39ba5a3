//! Packets within a packet: an aggregate that is not split.

use super::{Packet, Pool};
use paflow::decode::PacketsMut;
use paflow::octets::Octets;
use std::rc::Rc;

/// The packets embedded in a frame, in place; see [`Packet::embedded`].
#[derive(Debug)]
pub struct Embedded<'a> {
    whole: Option<&'a mut [u8]>,
    rest: PacketsMut<'a>,
}

impl<'a> Iterator for Embedded<'a> {
    type Item = &'a mut [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a mut [u8]> {
        self.whole.take().or_else(|| self.rest.next())
    }
}

impl Packet {
    /// Returns the packets embedded in a frame, in order and in place: those of an aggregate, which was checked as a whole on
    /// receipt; or the frame itself (the bytes of its first buffer), if it is not an aggregate.
    #[inline]
    pub fn embedded(&mut self) -> Embedded<'_> {
        let none = PacketsMut::new(&mut [], 0);
        match self.inside() {
            None => Embedded { whole: Some(self), rest: none },
            Some(inside) => Embedded {
                whole: None,
                rest: self.get_mut(inside.at..).map_or(none, |entries| PacketsMut::new(entries, inside.number)),
            },
        }
    }

    /// Copies `len` bytes from `at` into a new packet, or returns the reason for a drop.
    #[inline]
    pub(crate) fn extract(&self, pool: &Rc<Pool>, at: usize, len: usize) -> Result<Packet, &'static str> {
        if len > pool.longest() {
            return Err("too-long");
        }
        let mut packet = Packet::allocate(pool, len).ok_or("no-buffers")?;
        packet.set_queue(self.queue());
        self.copy_to(at, &mut packet);
        Ok(packet)
    }

    /// Fills `to` with the frame's bytes from `at`, up to its end.
    #[inline]
    pub(crate) fn copy_to(&self, mut at: usize, to: &mut [u8]) {
        let len = to.len();
        if let Some(from) = self.get(at..).and_then(|rest| rest.get(..len)) {
            return to.copy_from_slice(from);
        }
        let mut filled = 0;
        for chunk in self.chunks() {
            let from = chunk.get(at..).unwrap_or_default();
            at = at.saturating_sub(chunk.len());
            let part = from.len().min(len - filled);
            to[filled..filled + part].copy_from_slice(&from[..part]);
            filled += part;
        }
    }
}

impl Octets for Packet {
    #[inline(always)]
    fn size(&self) -> usize {
        self.total_len()
    }

    #[inline(always)]
    fn read<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.get(at..).and_then(|rest| rest.first_chunk()).copied().or_else(|| {
            let across = self.segments().len() > 1 && at.checked_add(N)? <= self.total_len();
            across.then(|| {
                let mut bytes = [0; N];
                self.copy_to(at, &mut bytes);
                bytes
            })
        })
    }
}
