//! Packets to replay.

use super::node::Port;
use super::{Rig, RigError};
use capture::Writer;
use loadgen::traffic::CHAIN;
use std::time::Duration;

/// Packets in the file: as many as are received in a burst.
const PACKETS: u32 = 32;

/// Returns a port `name` that replays packets of `size` bytes of [`CHAIN`] endlessly, at `rate` per second in bursts of 32, or
/// as fast as they are accepted.
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

/// Builds a capture file of these packets.
fn file(size: u16) -> std::io::Result<Vec<u8>> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, size.into())?;
    for _ in 0..PACKETS {
        writer.write(Duration::ZERO, &packet(size))?;
    }
    Ok(file)
}

/// Builds a tagged packet with an experimental EtherType (IEEE 802) and an empty payload.
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
