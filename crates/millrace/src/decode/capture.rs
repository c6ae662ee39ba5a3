//! Frames of a capture file, in either of the two formats.

use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

/// What a pcapng file begins with: the type of a section header block.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

/// A captured frame.
pub(super) struct Captured {
    /// Seconds since 1970.
    pub(super) time: f64,
    pub(super) bytes: Vec<u8>,
}

/// The frames of a file, in order.
pub(super) enum Frames {
    Pcap(PcapReader<BufReader<File>>),
    PcapNg(PcapNgReader<BufReader<File>>),
}

impl Frames {
    pub(super) fn open(path: &Path) -> Result<Frames, String> {
        let mut file = File::open(path).map_err(|error| error.to_string())?;
        let mut magic = [0; 4];
        file.read_exact(&mut magic).and_then(|()| file.rewind()).map_err(|error| error.to_string())?;
        let file = BufReader::new(file);
        if magic == PCAPNG {
            return PcapNgReader::new(file).map(Frames::PcapNg).map_err(|error| error.to_string());
        }
        let reader = PcapReader::new(file).map_err(|error| error.to_string())?;
        match reader.header().datalink {
            DataLink::ETHERNET => Ok(Frames::Pcap(reader)),
            other => Err(format!("its frames are of link type {other:?}")),
        }
    }

    pub(super) fn next_frame(&mut self) -> Result<Option<Captured>, String> {
        match self {
            Frames::Pcap(reader) => {
                let Some(packet) = reader.next_packet() else { return Ok(None) };
                let packet = packet.map_err(|error| error.to_string())?;
                Ok(Some(Captured { time: packet.timestamp.as_secs_f64(), bytes: packet.data.into_owned() }))
            }
            Frames::PcapNg(reader) => {
                while let Some(block) = reader.next_block() {
                    match block.map_err(|error| error.to_string())? {
                        Block::EnhancedPacket(packet) => {
                            let (time, bytes) = (packet.timestamp.as_secs_f64(), packet.data.into_owned());
                            return Ok(Some(Captured { time, bytes }));
                        }
                        Block::InterfaceDescription(interface) if interface.linktype != DataLink::ETHERNET => {
                            return Err(format!("it has an interface of link type {:?}", interface.linktype));
                        }
                        _ => {}
                    }
                }
                Ok(None)
            }
        }
    }
}
