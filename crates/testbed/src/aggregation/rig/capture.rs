//! Packets to replay.

use super::{Rig, RigError};
use capture::Writer;
use lab::millrace::config::{Pcap, RawPort, port, socket};
use loadgen::load::Shape;
use loadgen::traffic::CHAIN;
use packet::{ethertype, header_len};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Packets in a burst.
const BURST: usize = 32;

/// The longest packet of a mix.
const LONG: u16 = 1498;

/// Sizes of the packets that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub enum Packets {
    /// All of one size, in bytes.
    Size(u16),
    /// Of twelve packets seven of 64 bytes, four of 590 and one of 1498.
    Imix,
    /// 16 packets of 64 bytes, and 16 of 1498.
    Half,
}

impl Packets {
    /// Returns the sizes of the packets in a file, in order.
    fn sizes(self) -> Vec<u16> {
        match self {
            Packets::Size(size) => vec![size; BURST],
            Packets::Imix => [64, 590, 64, 590, 64, 64, 590, 64, 590, 64, 64, LONG].repeat(8),
            // In runs, as packets to one next hop stay in order: a short one between two long ones travels alone.
            Packets::Half => [[64; BURST / 2], [LONG; BURST / 2]].concat(),
        }
    }
}

impl fmt::Display for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packets::Size(size) => write!(f, "{size}"),
            Packets::Imix => f.write_str("imix"),
            Packets::Half => f.write_str("half"),
        }
    }
}

impl From<Packets> for String {
    fn from(packets: Packets) -> String {
        packets.to_string()
    }
}

impl FromStr for Packets {
    type Err = String;

    fn from_str(text: &str) -> Result<Packets, String> {
        match (text, text.parse()) {
            ("imix", _) => Ok(Packets::Imix),
            ("half", _) => Ok(Packets::Half),
            (_, Ok(size @ 60..=1514)) => Ok(Packets::Size(size)),
            _ => Err("give `imix`, `half`, or a number of bytes from 60 to 1514".to_owned()),
        }
    }
}

/// Returns a port `name` that replays these packets of [`CHAIN`] endlessly, at `rate` per second in bursts of 32, or as fast as
/// they are accepted.
pub fn replay(rig: &Rig, name: &str, packets: Packets, rate: Option<u64>) -> Result<RawPort, RigError> {
    let path = rig.file(&format!("{packets}.pcap"));
    if !path.exists() {
        let failed = |source| RigError::System { action: "packets can't be written to a file", source };
        file(packets).and_then(|file| std::fs::write(&path, file)).map_err(failed)?;
    }
    let keys = Pcap { replay: socket(&path), repeat: true.into(), ..Pcap::default() };
    Ok(match rate {
        Some(rate) => port(name, Pcap { rate: (rate as i64).into(), burst: (BURST as i64).into(), ..keys }),
        None => port(name, keys),
    })
}

fn file(packets: Packets) -> std::io::Result<Vec<u8>> {
    let (sizes, mut file) = (packets.sizes(), Vec::new());
    let longest = sizes.iter().copied().max().unwrap_or_default();
    let mut writer = Writer::new(&mut file, longest.into())?;
    for size in sizes {
        writer.write(Duration::ZERO, &packet(size))?;
    }
    Ok(file)
}

/// Builds a tagged packet: UDP over IPv4.
fn packet(size: u16) -> Vec<u8> {
    const TAG: usize = header_len::MAC_ADDRESSES;
    let mut untagged = vec![0; usize::from(size) - header_len::VLAN_TAG];
    Shape::new(1, 2, untagged.len() as u16).prepare(&mut untagged);
    let [tag, chain] = [ethertype::VLAN, CHAIN].map(u16::to_be_bytes);
    [&untagged[..TAG], &tag, &chain, &untagged[TAG..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_whole_packets() {
        let bytes = file(Packets::Size(64)).unwrap();
        assert_eq!(bytes.len(), 24 + 32 * (16 + 64));
        assert_eq!(packet(64)[12..22], [0x81, 0, 0, 100, 8, 0, 0x45, 0, 0, 46]);
    }

    #[test]
    fn a_mix_has_its_shares_in_whole_bursts() {
        let count = |packets: Packets, size| packets.sizes().iter().filter(|other| **other == size).count();
        assert_eq!([64, 590, 1498].map(|size| count(Packets::Imix, size)), [56, 32, 8]);
        assert_eq!([64, 1498].map(|size| count(Packets::Half, size)), [16, 16]);
        assert_eq!(Packets::Imix.sizes().len() % BURST, 0);
    }

    #[test]
    fn names_are_parsed() {
        for packets in [Packets::Size(64), Packets::Imix, Packets::Half] {
            assert_eq!(packets.to_string().parse(), Ok(packets));
        }
        assert!(["", "59", "1515", "mix"].iter().all(|text| text.parse::<Packets>().is_err()));
    }
}
