//! Streams of distinct packets through switches and network functions that aggregate.

use crate::virtio::Guest;
use crate::wait_for;
use engine::stats::AggregationSide;
use lab::Result;
use lab::millrace::config::{
    self, ChecksumMode, RawAggregation, RawNextHop, RawPort, Transport, flow, next_hop, vhost_user, virtio_user,
};
use std::collections::BTreeMap;
use std::path::Path;

/// Longest packet that a cable carries.
pub const MTU: u32 = 1500;

/// Bytes before the number of a packet: Ethernet header with tag.
pub const HEAD: usize = 18;

/// Returns the IP address of a switch.
pub fn ip(node: usize) -> String {
    format!("192.0.2.{}", node + 1)
}

/// Returns the MAC address of a switch.
pub fn mac(node: usize) -> String {
    format!("02:00:00:00:01:{node:02x}")
}

/// Returns `[aggregation]` of a switch. `flows` gives the next neighbour for the packets of each VLAN.
pub fn aggregation(node: usize, flows: &[(u16, usize)]) -> RawAggregation {
    let mut hops: Vec<usize> = flows.iter().map(|flow| flow.1).collect();
    hops.sort_unstable();
    hops.dedup();
    RawAggregation {
        mtu: i64::from(MTU).into(),
        next_hops: hops.into_iter().map(|hop| next_hop(hop as i64 + 1, &mac(hop), &ip(hop)).into()).collect(),
        flows: flows.iter().map(|&(vid, hop)| flow(vid.into(), hop as i64 + 1).into()).collect(),
        ..config::aggregation(&mac(node), &ip(node))
    }
}

/// Returns the rules with changed next hops; `change` gets each with its place in the list.
pub fn with_hops(rules: RawAggregation, change: impl Fn(usize, RawNextHop) -> RawNextHop) -> RawAggregation {
    let hops = rules.next_hops.iter().enumerate();
    let next_hops = hops.map(|(place, hop)| change(place, (***hop).clone()).into()).collect();
    RawAggregation { next_hops, ..rules }
}

/// Returns the rules with the next hops behind this port.
pub fn behind(rules: RawAggregation, port: &str) -> RawAggregation {
    with_hops(rules, |_, hop| RawNextHop { port: port.into(), ..hop })
}

/// Returns the rules with aggregates carried so, which in VXLAN are in a network and have a checksum.
pub fn carried(rules: RawAggregation, transport: Transport) -> RawAggregation {
    if transport == Transport::Udp {
        return rules;
    }
    let rules = with_hops(rules, |_, hop| RawNextHop { vni: 77.into(), ..hop });
    RawAggregation { transport: transport.into(), checksum: ChecksumMode::Computed.into(), ..rules }
}

/// Makes a port face the network: packets are joined before they leave here, and split when they arrive.
pub fn aggregating(port: RawPort) -> RawPort {
    RawPort { aggregate: true.into(), ..port }
}

/// Returns a vhost-user port for the next switch, or for hand-made aggregates.
pub fn network(name: &str) -> RawPort {
    aggregating(vhost_user(name))
}

/// Returns a virtio-user port for the socket of the previous switch.
pub fn uplink(name: &str, socket: &Path) -> RawPort {
    aggregating(virtio_user(name, socket))
}

/// Returns a repeatable random number (splitmix64).
pub fn mix(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Returns packet `number` of a stream: its size, VLAN and bytes are random but repeatable.
pub fn packet(stream: u64, number: u64, vids: &[u16]) -> Vec<u8> {
    let random = mix(stream << 40 ^ number);
    // Mostly short, as packets worth joining are; the longest are as long as a cable carries.
    let span = if random.is_multiple_of(4) { MTU as usize + HEAD - 60 + 1 } else { 140 };
    let len = 60 + (random >> 8) as usize % span;
    let vid = vids[(random >> 32) as usize % vids.len()];
    let mut bytes = vec![0; len];
    bytes[..6].copy_from_slice(&[2, 0, 0, 0, 2, 1 - stream as u8]);
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 2, stream as u8]);
    bytes[12..14].copy_from_slice(&[0x81, 0x00]);
    bytes[14..16].copy_from_slice(&vid.to_be_bytes());
    bytes[16..18].copy_from_slice(&[0x88, 0xb6]);
    bytes[HEAD..HEAD + 8].copy_from_slice(&number.to_be_bytes());
    for (at, byte) in bytes.iter_mut().enumerate().skip(HEAD + 8) {
        *byte = (mix(random ^ at as u64 >> 3) >> (8 * (at % 8))) as u8;
    }
    bytes
}

/// Checker of the packets from one end: each arrives once, whole, and in order in its VLAN.
#[derive(Default)]
pub struct Arrived {
    seen: Vec<bool>,
    last: BTreeMap<u16, u64>,
    count: u64,
}

impl Arrived {
    /// Returns how many have arrived.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Takes a packet and checks it.
    pub fn take(&mut self, stream: u64, vids: &[u16], bytes: &[u8]) {
        let number = u64::from_be_bytes(bytes[HEAD..HEAD + 8].try_into().unwrap());
        assert!(bytes == packet(stream, number, vids), "packet {number} of stream {stream} has changed");
        let index = number as usize;
        self.seen.resize(self.seen.len().max(index + 1), false);
        assert!(!std::mem::replace(&mut self.seen[index], true), "packet {number} came twice");
        let vid = u16::from_be_bytes([bytes[14], bytes[15]]);
        let before = self.last.insert(vid, number);
        assert!(before.is_none_or(|before| before < number), "packet {number} came after {before:?} of VLAN {vid}");
        self.count += 1;
    }
}

/// Maximum number of packets in flight: they fit in the receiver's ring.
pub const IN_FLIGHT: u64 = 96;

/// Sends `packets` each way, in bursts, at most [`IN_FLIGHT`] at a time.
pub fn exchange(ends: &mut [Guest; 2], packets: u64, vids: &[u16]) -> Result<()> {
    exchange_through(ends, packets, vids, IN_FLIGHT, |_, _| {})
}

/// Does the same with at most `in_flight` at a time, through a function that changes packets: `undo` checks a packet of an end,
/// and changes it back.
pub fn exchange_through(
    ends: &mut [Guest; 2],
    packets: u64,
    vids: &[u16],
    in_flight: u64,
    undo: impl Fn(usize, &mut [u8]),
) -> Result<()> {
    let mut sent = [0u64; 2];
    let mut arrived = [Arrived::default(), Arrived::default()];
    wait_for("all packets to arrive", || {
        for way in 0..2 {
            let [from, to] = if way == 0 { [0, 1] } else { [1, 0] };
            ends[from].reap().unwrap();
            let mut burst = 0;
            while burst < 32 && sent[way] < packets && sent[way] - arrived[way].count < in_flight {
                let bytes = packet(way as u64, sent[way], vids);
                if !ends[from].send(&[&bytes], 1 + (sent[way] % 3) as usize).unwrap() {
                    break;
                }
                sent[way] += 1;
                burst += 1;
            }
            ends[from].flush();
            ends[to]
                .receive(64, |bytes| {
                    let mut bytes = bytes.to_vec();
                    undo(way, &mut bytes);
                    arrived[way].take(way as u64, vids, &bytes);
                    Ok(())
                })
                .unwrap();
        }
        arrived.iter().all(|arrived| arrived.count == packets).then_some(())
    });
    Ok(())
}

/// Checks that no frame on the wire is longer than an Ethernet frame of the MTU with a tag.
pub fn within_mtu(side: &AggregationSide) {
    assert!(side.frames > 0 && side.sizes[6] == 0, "{side:?}");
}

/// Checks that this number of packets went each way, some of them joined, in frames that the wire carries.
pub fn joined_both_ways(received: &AggregationSide, sent: &AggregationSide, packets: u64) {
    assert_eq!((received.packets, sent.packets), (packets, packets));
    assert!(received.aggregates > 0 && sent.aggregates > 0, "{received:?} {sent:?}");
    within_mtu(received);
    within_mtu(sent);
}
