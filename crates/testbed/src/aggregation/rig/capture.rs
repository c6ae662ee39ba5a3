//! Packets to replay.

use super::node::{CHAIN, Port};
use super::{Rig, RigError};
use capture::Writer;
use std::time::Duration;

/// Packets in the file: as many as are received at once.
const PACKETS: u32 = 32;

/// A port `name` that replays packets of `size` bytes of [`CHAIN`] over and over, at so many a second, 32 at once; or as fast
/// as they are taken.
pub fn replay(rig: &Rig, name: &str, size: u16, rate: Option<u64>) -> Result<Port, RigError> {
    let path = rig.file(&format!("{size}.pcap"));
    if !path.exists() {
        let failed = |source| RigError::System { action: "packets can't be written to a file", source };
        file(size).and_then(|file| std::fs::write(&path, file)).map_err(failed)?;
    }
    let port = Port::new(name, "pcap").with_text("replay", path.display()).with("loop", true);
    Ok(match rate {
        Some(rate) => port.with("rate", rate).with("burst", PACKETS),
        None => port,
    })
}

/// A capture file of these packets.
fn file(size: u16) -> std::io::Result<Vec<u8>> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, size.into())?;
    for _ in 0..PACKETS {
        writer.write(Duration::ZERO, &packet(size))?;
    }
    Ok(file)
}

/// A tagged packet of an EtherType for experiments (IEEE 802), with nothing in it.
fn packet(size: u16) -> Vec<u8> {
    let mut packet = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x81, 0];
    packet.extend(CHAIN.to_be_bytes());
    packet.extend([0x88, 0xb5]);
    packet.resize(size.into(), 0);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_whole_packets() {
        let bytes = file(64).unwrap();
        assert_eq!(bytes.len(), 24 + 32 * (16 + 64));
        assert_eq!(packet(64)[12..18], [0x81, 0, 0, 100, 0x88, 0xb5]);
    }
}
