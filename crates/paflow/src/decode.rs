//! Finds the packets in an aggregate. Returns none of them before the whole aggregate is checked.

use crate::header::{ETHERNET, HEADER_LEN, Header, LENGTH_LEN, MIN_PACKET, VERSION};
use crate::octets::{ByteRange, Octets};
use crate::reject::Reject;
use packet::header_len;

/// Maximum number of packets in an aggregate: the least that the format requires receivers to take.
pub const MOST: usize = 256;

/// The position of one embedded packet. Its layout is C's, as programs in C read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Piece {
    /// Offset of its first byte in the given bytes.
    pub start: u32,
    /// Its length.
    pub len: u16,
}

/// Bytes allowed after the last embedded packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// None: an enclosing length gives the aggregate's exact end (UDP).
    Exact,
    /// Zeros up to the shortest Ethernet payload, which senders and switches add.
    Padding,
}

impl Header {
    /// Reads the header at offset `at`. Checks the version first: another version may have changed everything else.
    #[inline(always)]
    pub fn read<S: Octets + ?Sized>(bytes: &S, at: usize) -> Result<Header, Reject> {
        let Some([version, kind, high, low]) = bytes.read::<HEADER_LEN>(at) else {
            if let Some(version) = bytes.byte(at).filter(|&version| version != VERSION) {
                return Err(Reject::UnknownVersion(version));
            }
            return Err(Reject::Truncated { needed: HEADER_LEN, there: bytes.size().saturating_sub(at) });
        };
        if version != VERSION {
            return Err(Reject::UnknownVersion(version));
        }
        if kind != ETHERNET {
            return Err(Reject::UnknownType(kind));
        }
        match u16::from_be_bytes([high, low]) {
            0 => Err(Reject::Empty),
            number => Ok(Header { number }),
        }
    }
}

/// Checks the aggregate in `range` of `bytes`, and passes the position of each embedded packet to `found`. The positions
/// are valid only if the result is `Ok`. Reads each byte of the framing once.
#[inline(always)]
fn walk<S: Octets + ?Sized>(
    bytes: &S,
    range: ByteRange,
    tail: Tail,
    room: usize,
    mut found: impl FnMut(usize, Piece),
) -> Result<usize, Reject> {
    let ByteRange { start, end } = range;
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
        Tail::Padding if end - start <= header_len::MIN_ETHERNET_PAYLOAD => {
            match (at..end).find(|&at| bytes.byte(at) != Some(0)) {
                Some(at) => Err(Reject::BadPadding(at)),
                None => Ok(number),
            }
        }
        _ => Err(Reject::LengthMismatch { expected: at, there: end }),
    }
}

/// Writes the position of each packet of the aggregate in `range` of `bytes` to the front of `out`, and returns their
/// number. Offsets count from the start of `bytes`. Reads each length once, so the pieces stay within bounds even if the
/// bytes change meanwhile.
#[inline]
pub fn locate<S: Octets + ?Sized>(bytes: &S, range: ByteRange, tail: Tail, out: &mut [Piece]) -> Result<usize, Reject> {
    walk(bytes, range, tail, out.len(), |index, piece| out[index] = piece)
}

/// A checked aggregate, in bytes that don't change.
#[derive(Clone, Copy, Debug)]
pub struct Aggregate<'a> {
    entries: &'a [u8],
    number: u16,
}

impl<'a> Aggregate<'a> {
    /// Checks all of `bytes`, which begin with the aggregate's header.
    pub fn parse(bytes: &'a [u8], tail: Tail) -> Result<Aggregate<'a>, Reject> {
        let number = walk(bytes, ByteRange { start: 0, end: bytes.len() }, tail, usize::MAX, |_, _| {})?;
        Ok(Aggregate { entries: &bytes[HEADER_LEN..], number: number as u16 })
    }

    /// Returns the number of embedded packets.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the packets, in the order in which they were embedded.
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

/// The packets of a checked aggregate, mutable in place.
#[derive(Debug)]
pub struct PacketsMut<'a> {
    entries: &'a mut [u8],
    left: u16,
}

impl<'a> PacketsMut<'a> {
    /// Returns the `number` packets that [`locate`] found, whose entries start at the front of `entries`. If the bytes have
    /// changed since, iteration stops at the first entry that does not fit.
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
