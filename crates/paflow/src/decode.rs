//! Finds the packets in an aggregate, and hands out none of them before the whole aggregate was checked.

use crate::header::{HEADER_LEN, Header, LENGTH_LEN, MIN_PACKET};
use crate::octets::Octets;
use crate::reject::Reject;

/// The shortest payload of an Ethernet frame (IEEE 802.3): what is shorter was padded with zeros on its way.
pub const MIN_ETHERNET_PAYLOAD: usize = 46;

/// Packets that an aggregate may hold: what the format asks receivers to take at least.
pub const MOST: usize = 256;

/// Where one embedded packet is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Offset of its first byte, from the start of the bytes that were given.
    pub start: u32,
    /// Its length.
    pub len: u16,
}

/// What the bytes after the last embedded packet may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// None: a length around the aggregate says exactly where it ends (UDP).
    Exact,
    /// Zeros up to the shortest Ethernet payload, which senders and switches add.
    Padding,
}

/// Checks the aggregate in `bytes[start..end]`, and tells `found` where each embedded packet is. What was found counts
/// only if the result is good. Each byte of the framing is read once.
#[inline(always)]
fn walk<S: Octets + ?Sized>(
    bytes: &S,
    (start, end): (usize, usize),
    tail: Tail,
    room: usize,
    mut found: impl FnMut(usize, Piece),
) -> Result<usize, Reject> {
    let there = bytes.size();
    if end > there || start > end {
        return Err(Reject::Truncated { needed: end, there });
    }
    let header = Header::read(bytes, start)?;
    let number = header.number as usize;
    if number > room {
        return Err(Reject::TooMany { number: header.number, room });
    }
    let mut at = start + HEADER_LEN;
    for index in 0..number {
        let from = at + LENGTH_LEN;
        let Some(len) = bytes.word(at).filter(|_| from <= end) else {
            return Err(Reject::Truncated { needed: from, there: end });
        };
        if len < MIN_PACKET {
            return Err(Reject::Runt(len));
        }
        let to = from + len as usize;
        at = to + (len & 1) as usize;
        if at > end {
            return Err(Reject::Truncated { needed: at, there: end });
        }
        if len & 1 == 1 && bytes.byte(to) != Some(0) {
            return Err(Reject::BadPadding(to));
        }
        found(index, Piece { start: from as u32, len });
    }
    match tail {
        _ if at == end => Ok(number),
        Tail::Padding if end - start <= MIN_ETHERNET_PAYLOAD => match (at..end).find(|&at| bytes.byte(at) != Some(0)) {
            Some(at) => Err(Reject::BadPadding(at)),
            None => Ok(number),
        },
        _ => Err(Reject::LengthMismatch { expected: at, there: end }),
    }
}

/// Writes where each packet of the aggregate in `bytes[start..end]` is to the front of `out`, and says how many there
/// are. Offsets count from the start of `bytes`. Each length is read once, so the pieces hold even if the bytes change
/// while they are looked at.
#[inline]
pub fn locate<S: Octets + ?Sized>(
    bytes: &S,
    (start, end): (usize, usize),
    tail: Tail,
    out: &mut [Piece],
) -> Result<usize, Reject> {
    walk(bytes, (start, end), tail, out.len(), |index, piece| out[index] = piece)
}

/// An aggregate that was checked, in bytes that don't change.
#[derive(Clone, Copy, Debug)]
pub struct Aggregate<'a> {
    entries: &'a [u8],
    number: u16,
}

impl<'a> Aggregate<'a> {
    /// Checks all of `bytes`, which begin with the aggregate's header.
    pub fn parse(bytes: &'a [u8], tail: Tail) -> Result<Aggregate<'a>, Reject> {
        let number = walk(bytes, (0, bytes.len()), tail, usize::MAX, |_, _| {})?;
        Ok(Aggregate { entries: &bytes[HEADER_LEN..], number: number as u16 })
    }

    /// How many packets are embedded.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The packets, in the order in which they were embedded.
    pub fn packets(&self) -> Packets<'a> {
        Packets { entries: self.entries, left: self.number }
    }
}

impl<'a> IntoIterator for &Aggregate<'a> {
    type Item = &'a [u8];
    type IntoIter = Packets<'a>;

    fn into_iter(self) -> Packets<'a> {
        self.packets()
    }
}

/// The packets of an [`Aggregate`].
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    entries: &'a [u8],
    left: u16,
}

impl<'a> Iterator for Packets<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let (length, rest) = self.entries.split_first_chunk()?;
        let len = u16::from_be_bytes(*length) as usize;
        let (packet, rest) = rest.split_at_checked(len)?;
        self.entries = rest.get(len & 1..)?;
        Some(packet)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Packets<'_> {}

/// The packets of an aggregate that was checked, to be changed in place.
#[derive(Debug)]
pub struct PacketsMut<'a> {
    entries: &'a mut [u8],
    left: u16,
}

impl<'a> PacketsMut<'a> {
    /// The `number` packets whose entries begin with `entries`: those that [`locate`] found. Should the bytes have changed
    /// since, they end where an entry would not fit.
    #[inline]
    pub fn new(entries: &'a mut [u8], number: u16) -> PacketsMut<'a> {
        PacketsMut { entries, left: number }
    }
}

impl<'a> Iterator for PacketsMut<'a> {
    type Item = &'a mut [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a mut [u8]> {
        self.left = self.left.checked_sub(1)?;
        let (length, rest) = std::mem::take(&mut self.entries).split_first_chunk_mut()?;
        let len = u16::from_be_bytes(*length) as usize;
        let (packet, rest) = rest.split_at_mut_checked(len)?;
        self.entries = rest.get_mut(len & 1..)?;
        Some(packet)
    }
}
