//! The classic format, and its variants that libpcap reads.

use crate::captured::Captured;
use crate::error::Error;
use crate::fields::{Fields, Order};
use crate::link_type;
use crate::snapshot::{self, MOST};
use crate::source::Source;
use std::cmp::Ordering;
use std::time::Duration;

/// Magic number of a file with timestamps in microseconds.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
/// Magic number of a file with timestamps in nanoseconds.
pub(crate) const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Magic number of Alexey Kuznetzov's format, in which each packet has eight more bytes of header.
const KUZNETZOV: u32 = 0xa1b2_cd34;

/// Length of the file header, in bytes.
pub const FILE_HEADER: usize = 24;
/// Length of the header of a packet, in bytes.
pub const PACKET_HEADER: usize = 16;

/// Bits of the link type that must be zero. Those above say how long the checksums at the end of frames are.
const RESERVED: u32 = 0x03ff_0000;

/// The first fields of a packet's header.
#[derive(Clone, Copy)]
enum Lengths {
    Captured,
    Original,
    /// Some writers of version 2.3 had it one way, some the other: the captured length is the smaller one.
    Either,
}

/// A file of the classic format.
pub(crate) struct Pcap {
    order: Order,
    /// Nanoseconds of a timestamp's fraction.
    fraction: u64,
    header: usize,
    lengths: Lengths,
    /// Bytes of a packet that are read at most.
    snapshot: u32,
}

impl Pcap {
    /// Reads the rest of the file header, if the first four bytes are a magic number of the format.
    pub(crate) fn open(source: &mut Source) -> Result<Option<Pcap>, Error> {
        let magic = source.extend(4)?;
        let is = |number| Order::of(magic, number).map(|order| (number, order));
        let Some((magic, order)) = [MICROSECONDS, NANOSECONDS, KUZNETZOV].into_iter().find_map(is) else {
            return Ok(None);
        };
        let header = source.extend(FILE_HEADER)?;
        let mut fields = Fields::new(&header[4..], order);
        let mut read = || Some((fields.half()?, fields.half()?, fields.bytes(8)?, fields.word()?, fields.word()?));
        let (major, minor, _zone_and_accuracy, snapshot, link) = read().expect("the header has them");
        let lengths = match (major, minor) {
            // DG/UX calls its version so.
            (2, 0..=2) | (543, 0) => Lengths::Original,
            (2, 3) => Lengths::Either,
            (2, 4) => Lengths::Captured,
            _ => return Err(Error::Version { format: "pcap", major, minor }),
        };
        if link & RESERVED != 0 {
            return Err(Error::Reserved(link));
        }
        link_type::require_ethernet(link as u16)?;
        let (header, more) = match magic {
            // Frames that were captured without a link-layer header got one that was made up.
            KUZNETZOV => (PACKET_HEADER + 8, 14),
            _ => (PACKET_HEADER, 0),
        };
        let fraction = if magic == NANOSECONDS { 1 } else { 1000 };
        Ok(Some(Pcap { order, fraction, header, lengths, snapshot: snapshot::most(snapshot).saturating_add(more) }))
    }

    /// Returns the next frame, or `None` at the end of the file.
    pub(crate) fn frame(&self, source: &mut Source) -> Result<Option<Captured>, Error> {
        if !source.start(self.header)? {
            return Ok(None);
        }
        let mut fields = Fields::new(source.extend(self.header)?, self.order);
        let mut word = || fields.word().expect("the header has them");
        let (seconds, fraction, first, second) = (word(), word(), word(), word());
        let (captured, original) = match (self.lengths, first.cmp(&second)) {
            (Lengths::Captured, _) | (Lengths::Either, Ordering::Less | Ordering::Equal) => (first, second),
            (Lengths::Original, _) | (Lengths::Either, Ordering::Greater) => (second, first),
        };
        if captured > MOST {
            return Err(Error::Long { offset: source.offset(), length: captured });
        }
        let packet = source.extend(self.header + captured as usize)?;
        let bytes = &packet[self.header..][..captured.min(self.snapshot) as usize];
        let time = Duration::from_secs(seconds.into()) + Duration::from_nanos(u64::from(fraction) * self.fraction);
        Ok(Some(Captured { time, bytes: bytes.to_vec(), original }))
    }
}
