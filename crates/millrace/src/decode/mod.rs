//! `millrace decode`: lists the aggregates in a capture file and their packets.

mod decoded;
mod show;

use crate::cli::DecodeOptions;
use capture::Reader;
use decoded::{Decoded, Packet, Rejected, Sum};
use packet::{MacAddr, ethertype, header_len};
use paflow::decode::{Piece, locate};
use paflow::receive::Found;
use paflow::{Receiver, Reject};
use std::io::{self, Write};
use std::path::PathBuf;

/// Maximum number of packets in an aggregate.
const MOST: usize = u16::MAX as usize;

/// Error that keeps a file from being decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The file could not be opened or is no capture file.
    #[error("cannot read {}: {problem}; give a pcap or pcapng file of Ethernet frames", path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        problem: capture::Error,
    },
    /// The result could not be written.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
}

/// Prints the aggregates of a file to `out`, as text or as one line of JSON each. Returns remarks on the file, a sentence
/// each.
pub fn run(options: &DecodeOptions, out: &mut dyn Write) -> Result<Vec<String>, DecodeError> {
    match decode(options, out) {
        // The reader of the output (a pager, `head`) has closed it.
        Err(DecodeError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Vec::new()),
        other => other,
    }
}

fn decode(options: &DecodeOptions, out: &mut dyn Write) -> Result<Vec<String>, DecodeError> {
    let failed = |problem| DecodeError::Capture { path: options.file.clone(), problem };
    let receiver = Receiver {
        udp_port: Some(options.udp_port),
        vxlan_port: Some(options.vxlan_port),
        ethernet: true,
        zero_checksum_over_ipv6: true,
        verify: true,
    };
    let (mut sum, mut snapped, mut cut) = (Sum::default(), 0, None);
    for frame in Reader::open(&options.file).map_err(failed)? {
        let frame = match frame {
            Ok(frame) => frame,
            Err(capture::Error::Cut(at)) => {
                cut = Some(at);
                break;
            }
            Err(error) => return Err(failed(error)),
        };
        sum.frames += 1;
        snapped += u64::from(frame.is_snapped());
        let time = frame.time.as_secs_f64();
        let Some(decoded) = look(&receiver, sum.frames, time, &frame.bytes) else { continue };
        sum.aggregates += 1;
        sum.packets += decoded.packets.len() as u64;
        sum.rejected += u64::from(decoded.rejected.is_some());
        if options.json {
            let line = serde_json::to_string(&decoded).map_err(io::Error::from)?;
            writeln!(out, "{line}")?;
        } else {
            show::aggregate(&decoded, out)?;
        }
    }
    if !options.json {
        show::sum(&sum, out)?;
    }
    out.flush()?;
    let snapped =
        (snapped > 0).then(|| format!("frames that were longer when they were captured (snapped): {snapped}"));
    Ok(snapped.into_iter().chain(cut.map(|cut| cut.to_string())).collect())
}

/// Decodes a frame if it looks like an aggregate.
fn look(receiver: &Receiver, frame: u64, time: f64, bytes: &[u8]) -> Option<Decoded> {
    let (found, packets) = match receiver.find(bytes) {
        Ok(None) => return None,
        Ok(Some(found)) => (Some(found), packets(bytes, &found)),
        Err(reject) => (None, Err(reject)),
    };
    let carrier = found.map(|found| match (found.addresses, found.vni) {
        (None, _) => "ethernet",
        (_, Some(_)) => "vxlan",
        _ => "udp",
    });
    let addresses = found.and_then(|found| found.addresses);
    let rejected = packets.as_ref().err();
    Some(Decoded {
        frame,
        time,
        length: bytes.len(),
        carrier,
        source: addresses.map(|(source, _)| source.to_string()),
        destination: addresses.map(|(_, destination)| destination.to_string()),
        vni: found.and_then(|found| found.vni),
        rejected: rejected.map(|reject| Rejected { reason: reject.name(), message: reject.to_string() }),
        packets: packets.unwrap_or_default(),
    })
}

fn packets(bytes: &[u8], found: &Found) -> Result<Vec<Packet>, Reject> {
    let mut pieces = vec![Piece::default(); MOST];
    let number = locate(bytes, found.range, found.tail, &mut pieces)?;
    let packet = |piece: &Piece| {
        let (offset, length) = (piece.start as usize, usize::from(piece.len));
        let packet = &bytes[offset..offset + length];
        // No packet in an aggregate is shorter than an Ethernet header.
        let mac = |at: usize| packet[at..].first_chunk().copied().map_or_else(MacAddr::default, MacAddr).to_string();
        let word = |at: usize| packet.get(at..)?.first_chunk().copied().map(u16::from_be_bytes);
        let tagged = word(header_len::MAC_ADDRESSES).is_some_and(ethertype::is_vlan);
        Packet {
            offset,
            length,
            destination: mac(0),
            source: mac(6),
            vlan: word(14).filter(|_| tagged).map(|tag| tag & 0xfff),
            ethertype: format!(
                "0x{:04x}",
                word(if tagged { 16 } else { header_len::MAC_ADDRESSES }).unwrap_or_default()
            ),
        }
    };
    Ok(pieces[..number].iter().map(packet).collect())
}

#[cfg(test)]
mod tests;
