//! Aggregates made by hand, right and wrong ones.

/// Builds an aggregate of `packets` to node 0 over UDP, as specified in docs/aggregation-format.md.
pub fn by_hand(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut inside = vec![1, 1];
    inside.extend((packets.len() as u16).to_be_bytes());
    for packet in packets {
        inside.extend((packet.len() as u16).to_be_bytes());
        inside.extend(packet);
        inside.extend(vec![0; packet.len() % 2]);
    }
    let udp = inside.len() as u16 + 8;
    let mut ip = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 9, 192, 0, 2, 1];
    ip[2..4].copy_from_slice(&(udp + 20).to_be_bytes());
    let sum: u32 = ip.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    ip[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    let mut frame = vec![2, 0, 0, 0, 1, 0, 2, 0, 0, 0, 1, 9, 8, 0];
    frame.extend(ip);
    frame.extend([0xc0, 0, 0xc4, 0x55]);
    frame.extend(udp.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(inside);
    frame
}

/// Returns wrong copies of an aggregate, each with the reason to drop it.
pub fn malformed(good: &[u8]) -> [(&'static str, Vec<u8>); 9] {
    let spoil = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.to_vec();
        change(&mut bytes);
        bytes
    };
    [
        ("unknown-version", spoil(&|bytes| bytes[42] = 7)),
        ("unknown-type", spoil(&|bytes| bytes[43] = 7)),
        ("empty", spoil(&|bytes| bytes[45] = 0)),
        ("too-many", spoil(&|bytes| bytes[44] = 0xff)),
        ("truncated", spoil(&|bytes| bytes[45] += 1)),
        ("embedded-runt", spoil(&|bytes| bytes[46..48].copy_from_slice(&[0, 1]))),
        ("length-mismatch", spoil(&|bytes| bytes[45] -= 1)),
        ("bad-ip-checksum", spoil(&|bytes| bytes[22] -= 1)),
        ("bad-udp-checksum", spoil(&|bytes| bytes[40] = 1)),
    ]
}
