//! Packets of one service chain, too long to be joined.

use engine::port::{RxQueue, Wait};
use engine::spec::{AggregationSpec, Chains, NextHopSpec};
use packet::{Burst, MAX_BURST, Segment, ethertype, ip_protocol};
use paflow::Receiver;
use paflow::outer::{Addresses, Carrier, Checksum, Route, Tunnel};

/// Bytes of a packet: no two of them fit into a frame.
const LEN: usize = 1024;
const MTU: u16 = 1500;
/// The chain's VLAN.
const VLAN: u16 = 10;

/// A queue that always has a burst of UDP over IPv4.
pub struct Packets {
    packet: [u8; LEN],
}

impl Default for Packets {
    fn default() -> Packets {
        let mut packet = [0; LEN];
        packet[12..14].copy_from_slice(&ethertype::VLAN.to_be_bytes());
        packet[14..16].copy_from_slice(&VLAN.to_be_bytes());
        packet[16..18].copy_from_slice(&ethertype::IPV4.to_be_bytes());
        packet[18] = 0x45;
        packet[27] = ip_protocol::UDP;
        Packets { packet }
    }
}

impl RxQueue for Packets {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        (0..MAX_BURST).for_each(|_| burst.push(Segment::from(&self.packet[..])));
        true
    }

    fn recycle(&self) {}

    fn arm(&self) -> Wait {
        Wait::Event
    }
}

/// Returns rules by which they all go to one next hop.
pub fn rules() -> AggregationSpec {
    let (source, destination) = ([2, 0, 0, 0, 1, 1].into(), [2, 0, 0, 0, 1, 2].into());
    let addresses = Addresses::V4 { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into() };
    let tunnel =
        Tunnel { addresses, source_port: 50_000, destination_port: 50_261, hop_limit: 64, checksum: Checksum::Zero };
    let route = Route { source, destination, vlan: None, routed: false, carrier: Carrier::Udp(tunnel) };
    AggregationSpec {
        mtu: MTU,
        chains: Chains::Vlan,
        receiver: Receiver::default(),
        mac: source,
        addresses: vec![[192, 0, 2, 1].into()],
        drop_unknown: false,
        relay: None,
        next_hops: vec![NextHopSpec { nfi: 1, route, port: None }],
        flows: vec![(VLAN.into(), 1)],
    }
}
