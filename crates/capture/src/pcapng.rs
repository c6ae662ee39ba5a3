//! The format pcapng (draft-ietf-opsawg-pcapng), read as libpcap does.

use crate::captured::Captured;
use crate::error::{Error, LONGEST};
use crate::fields::{Fields, Order};
use crate::interface::Interface;
use crate::source::Source;
use std::time::Duration;

// Types of blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
/// The obsolete Packet Block, appendix A of the draft.
const PACKET: u32 = 2;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;

/// Byte-order magic of a section.
const MAGIC: u32 = 0x1a2b_3c4d;

/// Type and length of a block.
const BLOCK_HEADER: usize = 8;
/// The length is there once more at the end.
const BLOCK_TRAILER: usize = 4;
/// The fixed part of a section header, with all of the block.
const SECTION_HEADER: usize = BLOCK_HEADER + 16 + BLOCK_TRAILER;
/// libpcap takes no longer one for a section header.
const LONGEST_SECTION_HEADER: usize = 1 << 20;

/// A file of the format.
pub(crate) struct Pcapng {
    order: Order,
    /// Bytes of a packet that each interface captures at most.
    snapshot: u32,
    /// The interfaces that the section has described so far.
    interfaces: Vec<Interface>,
}

struct Block<'b> {
    kind: u32,
    body: Fields<'b>,
    offset: u64,
}

impl Pcapng {
    /// Reads to the first description of an interface, if the first bytes are those of the format.
    pub(crate) fn open(source: &mut Source) -> Result<Option<Pcapng>, Error> {
        // The type of a section header reads the same in either byte order.
        if Order::of(source.extend(4)?, SECTION).is_none() {
            return Ok(None);
        }
        let start = source.extend(BLOCK_HEADER + 4)?;
        let Some(order) = Order::of(&start[BLOCK_HEADER..], MAGIC) else { return Ok(None) };
        let length = kind_and_length(Fields::new(start, order)).1 as usize;
        if !(SECTION_HEADER..=LONGEST_SECTION_HEADER).contains(&length) {
            return Err(Error::Block(source.offset()));
        }
        let mut fields = Fields::new(&source.extend(length)?[BLOCK_HEADER + 4..], order);
        match (fields.half(), fields.half()) {
            (Some(1), Some(0 | 2)) => {}
            (major, minor) => return Err(unknown(major, minor)),
        }
        loop {
            match Block::next(source, order)?.ok_or(Error::NoInterface)? {
                Block { kind: PACKET | SIMPLE | ENHANCED, .. } => return Err(Error::NoInterface),
                Block { kind: INTERFACE, body, offset } => {
                    let first = Interface::new(body, offset)?;
                    return Ok(Some(Pcapng { order, snapshot: first.snapshot, interfaces: vec![first] }));
                }
                _ => {}
            }
        }
    }

    /// Returns the next frame, or `None` at the end of the file.
    pub(crate) fn frame(&mut self, source: &mut Source) -> Result<Option<Captured>, Error> {
        while let Some(block) = Block::next(source, self.order)? {
            match block.kind {
                SECTION => self.section(block)?,
                INTERFACE => self.interface(block)?,
                PACKET | SIMPLE | ENHANCED => return self.packet(block).map(Some),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Begins a section, which has interfaces of its own.
    fn section(&mut self, mut block: Block<'_>) -> Result<(), Error> {
        if block.body.word() != Some(MAGIC) {
            return Err(Error::Block(block.offset));
        }
        match (block.body.half(), block.body.half()) {
            (Some(1), Some(_)) => {}
            (major, minor) => return Err(unknown(major, minor)),
        }
        self.interfaces.clear();
        Ok(())
    }

    fn interface(&mut self, block: Block<'_>) -> Result<(), Error> {
        let interface = Interface::new(block.body, block.offset)?;
        if interface.snapshot != self.snapshot {
            return Err(Error::SnapshotLength(self.snapshot, interface.snapshot));
        }
        self.interfaces.push(interface);
        Ok(())
    }

    fn packet(&self, Block { kind, mut body, offset }: Block<'_>) -> Result<Captured, Error> {
        let head = match kind {
            SIMPLE => body.word().map(|length| (0, 0, length.min(self.snapshot), length)),
            _ => packet_head(kind, &mut body),
        };
        let (number, timestamp, captured, original) = head.ok_or(Error::Block(offset))?;
        let interface = self.interfaces.get(number as usize).ok_or(Error::Interface(number))?;
        if captured > self.snapshot {
            return Err(Error::Long { offset, length: captured });
        }
        let bytes = body.bytes(captured as usize).ok_or(Error::Block(offset))?;
        let time = if kind == SIMPLE { Duration::ZERO } else { interface.time(timestamp) };
        Ok(Captured { time, bytes: bytes.to_vec(), original })
    }
}

impl<'b> Block<'b> {
    /// Reads the next block, if there is one.
    fn next(source: &'b mut Source, order: Order) -> Result<Option<Block<'b>>, Error> {
        if !source.start(BLOCK_HEADER)? {
            return Ok(None);
        }
        let offset = source.offset();
        let header = Fields::new(source.extend(BLOCK_HEADER)?, order);
        let (kind, length) = kind_and_length(header);
        let whole = length as usize;
        if whole < BLOCK_HEADER + BLOCK_TRAILER || !whole.is_multiple_of(4) || whole > LONGEST {
            return Err(match source.extend(BLOCK_HEADER + 4) {
                // In the other byte order the length of a section header looks impossible.
                Ok(start) if kind == SECTION && Order::of(&start[BLOCK_HEADER..], MAGIC).is_some() => Error::ByteOrder,
                _ if whole > LONGEST => Error::Long { offset, length },
                _ => Error::Block(offset),
            });
        }
        let (body, trailer) = source.extend(whole)?[BLOCK_HEADER..].split_at(whole - BLOCK_HEADER - BLOCK_TRAILER);
        if Fields::new(trailer, order).word() != Some(length) {
            return Err(Error::Block(offset));
        }
        Ok(Some(Block { kind, body: Fields::new(body, order), offset }))
    }
}

/// Reads the head of an enhanced packet or an obsolete one: the number of its interface, its timestamp, and both lengths.
fn packet_head(kind: u32, body: &mut Fields<'_>) -> Option<(u32, u64, u32, u32)> {
    let interface = match kind {
        // Beside it is the number of packets that were lost.
        PACKET => (body.half()?.into(), body.half()?).0,
        _ => body.word()?,
    };
    Some((interface, body.high_and_low()?, body.word()?, body.word()?))
}

/// Returns the kind and length in the header of a block.
fn kind_and_length(mut header: Fields<'_>) -> (u32, u32) {
    (header.word().unwrap_or_default(), header.word().unwrap_or_default())
}

fn unknown(major: Option<u16>, minor: Option<u16>) -> Error {
    Error::Version { format: "pcapng", major: major.unwrap_or_default(), minor: minor.unwrap_or_default() }
}
