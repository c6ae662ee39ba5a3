//! Interfaces of a section of a pcapng file, which determine how its packets are read.

use crate::captured::Captured;
use crate::error::Error;
use crate::link_type;
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, InterfaceDescriptionBlock};
use std::time::Duration;

/// The interfaces described by the section so far.
#[derive(Default)]
pub(crate) struct Section(Vec<Interface>);

struct Interface {
    /// Captured bytes per packet at most; 0: unlimited.
    longest: u32,
    /// Timestamp units per second.
    resolution: u128,
    /// Seconds to add to timestamps.
    offset: i64,
}

impl Section {
    /// Processes a block; returns its frame if it is a packet.
    pub(crate) fn take(&mut self, block: &Block<'_>) -> Result<Option<Captured>, Error> {
        match block {
            Block::SectionHeader(_) => self.0.clear(),
            Block::InterfaceDescription(block) => self.0.push(Interface::new(block)?),
            Block::EnhancedPacket(packet) => {
                let interface = self.interface(packet.if_id)?;
                let time = interface.time(u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low));
                return Ok(Some(Captured { time, bytes: packet.packet_data().to_vec() }));
            }
            Block::SimplePacket(packet) => {
                let bytes = packet.packet_data();
                let longest = match self.interface(0)?.longest {
                    0 => bytes.len(),
                    longest => bytes.len().min(longest as usize),
                };
                return Ok(Some(Captured { time: Duration::ZERO, bytes: bytes[..longest].to_vec() }));
            }
            _ => {}
        }
        Ok(None)
    }

    fn interface(&self, number: u32) -> Result<&Interface, Error> {
        self.0.get(number as usize).ok_or(Error::Interface(number))
    }
}

impl Interface {
    fn new(block: &InterfaceDescriptionBlock<'_>) -> Result<Interface, Error> {
        link_type::require_ethernet(block.linktype.0)?;
        // draft-ietf-opsawg-pcapng, if_tsresol: a negative power of 2 if the highest bit is set, otherwise of 10.
        let exponent = u32::from(block.if_tsresol & 0x7f);
        let base: u128 = if block.if_tsresol & 0x80 == 0 { 10 } else { 2 };
        let resolution = base.checked_pow(exponent).ok_or(Error::Resolution(block.if_tsresol))?;
        Ok(Interface { longest: block.snaplen, resolution, offset: block.if_tsoffset })
    }

    fn time(&self, timestamp: u64) -> Duration {
        let timestamp = u128::from(timestamp);
        let seconds = (timestamp / self.resolution) as u64;
        // At a resolution finer than 10^-29 s, no timestamp of 64 bits reaches a nanosecond.
        let nanoseconds = (timestamp % self.resolution).saturating_mul(1_000_000_000) / self.resolution;
        Duration::new(seconds.saturating_add_signed(self.offset), nanoseconds as u32)
    }
}
