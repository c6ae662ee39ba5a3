//! The cost of one packet: lookup, grouping, framing, and decoding. `cargo bench -p millrace-paflow`
#![allow(missing_docs)]

use packet::MacAddr;
use paflow::decode::{Tail, locate};
use paflow::outer::{Addresses, Carrier, Checksum, Route, Tunnel};
use paflow::table::{VlanTable, VniTable, key};
use paflow::vxlan::{Endpoints, TunnelEnd};
use paflow::{Nfi, Piece, Planner, Receiver, Template, encode};
use std::hint::black_box;
use std::time::Instant;

const BURST: usize = 32;
const ROUNDS: usize = 200_000;

/// Runs `burst` five times and prints the best time in nanoseconds per packet.
fn measure(name: &str, packets: usize, mut burst: impl FnMut()) {
    let best = (0..5).map(|_| {
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| burst());
        start.elapsed().as_nanos() as f64 / (ROUNDS * packets) as f64
    });
    println!("{name:44} {:6.2} ns per packet", best.fold(f64::INFINITY, f64::min));
}

fn main() {
    let addresses = Addresses::V4 { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into() };
    let tunnel =
        Tunnel { addresses, source_port: 50_000, destination_port: 50_261, hop_limit: 64, checksum: Checksum::Zero };
    let route = Route {
        source: MacAddr([2; 6]),
        destination: MacAddr([4; 6]),
        vlan: None,
        routed: false,
        carrier: Carrier::Udp(tunnel),
    };
    let template = Template::new(&route, 1500).unwrap();

    let mut vlans = Box::new(VlanTable::new());
    let mut vnis = VniTable::new(4096);
    for vid in 1..4095 {
        vlans.set(vid, Nfi::new(vid));
        vnis.insert(u32::from(vid), Nfi::new(vid).unwrap()).unwrap();
    }
    let packets: Vec<Vec<u8>> = (0..4096u16)
        .map(|id| {
            let mut packet = vec![0x55; 64];
            packet[12..14].copy_from_slice(&[0x81, 0x00]);
            packet[14..16].copy_from_slice(&(1 + id.wrapping_mul(1657) % 4094).to_be_bytes());
            packet
        })
        .collect();
    let slices: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let mut at = 0;
    measure("VLAN look-up, all keys differ", BURST, || {
        at = (at + BURST) % 4096;
        for packet in &slices[at..at + BURST] {
            black_box(key::vid(*packet).and_then(|vid| vlans.get(vid)));
        }
    });
    measure("VLAN look-up, one key", BURST, || {
        for packet in &slices[..BURST] {
            black_box(key::vid(black_box(&packet[..])).and_then(|vid| vlans.get(vid & 1)));
        }
    });
    measure("VNI look-up, all keys differ", BURST, || {
        at = (at + BURST) % 4094;
        (at as u32..(at + BURST) as u32).for_each(|vni| {
            black_box(vnis.get(black_box(vni)));
        });
    });

    let lengths = [64; BURST];
    let mut planner = Planner::new();
    for (name, hops) in [("group, one next hop", 1), ("group, 4 next hops", 4), ("group, 32 next hops", 32)] {
        let hops: Vec<_> = (0..BURST as u16).map(|index| Nfi::new(1 + index % hops)).collect();
        measure(name, BURST, || {
            black_box(planner.plan(black_box(&lengths), &hops, |_| template.room()).groups().len());
        });
    }

    let hops = [Nfi::new(1); BURST];
    let mut out = [0; 2048];
    measure("group, copy and frame, one next hop", BURST, || {
        let plan = planner.plan(&lengths, &hops, |_| template.room());
        for group in plan.groups() {
            black_box(encode::write(&plan, group, &template, black_box(&slices[..BURST]), &mut out));
        }
    });
    let plan = planner.plan(&lengths, &hops, |_| template.room());
    let len = encode::write(&plan, &plan.groups()[0], &template, &slices, &mut out).unwrap();
    let receiver = Receiver::default();
    let mut pieces = [Piece::default(); 256];
    let number = plan.groups()[0].count() as usize;
    measure("find and locate, 22 packets", number, || {
        let frame = black_box(&out[..len]);
        let found = receiver.find(frame).unwrap().unwrap();
        assert_eq!(found.tail, Tail::Exact);
        black_box(locate(frame, found.range, found.tail, &mut pieces).unwrap());
    });

    // The work of a network function's library per packet: out of one aggregate into buffers, and into the next.
    let mut buffers = vec![[0; 2048]; BURST];
    for size in [64u16, 128, 256, 384, 512, 702] {
        let count = (template.room() / (2 + u32::from(size))) as usize;
        let packets: Vec<Vec<u8>> =
            slices.iter().take(count).map(|packet| [packet, &[0x55; 640][..]].concat()).collect();
        let slices: Vec<&[u8]> = packets.iter().map(|packet| &packet[..usize::from(size)]).collect();
        let lengths = vec![size; count];
        measure(&format!("join, {count} packets of {size} bytes"), count, || {
            let mut next_hops = [None; BURST];
            for (hop, packet) in next_hops.iter_mut().zip(&slices) {
                *hop = key::vid(black_box(*packet)).and_then(|vid| vlans.get(vid)).and(Nfi::new(1));
            }
            let plan = planner.plan(&lengths, &next_hops[..count], |_| template.room());
            for group in plan.groups() {
                black_box(encode::write(&plan, group, &template, black_box(&slices[..]), &mut out));
            }
        });
        let len = template.len() + count * (2 + usize::from(size));
        measure(&format!("split, {count} packets of {size} bytes"), count, || {
            let frame = black_box(&out[..len]);
            let found = receiver.find(frame).unwrap().unwrap();
            let number = locate(frame, found.range, found.tail, &mut pieces).unwrap();
            for (piece, buffer) in pieces[..number].iter().zip(&mut buffers) {
                let (start, len) = (piece.start as usize, usize::from(piece.len));
                buffer[..len].copy_from_slice(&frame[start..start + len]);
            }
            black_box(&mut buffers);
        });
    }
    for (name, ends) in [("VXLAN over IPv4", tunnel_ends(addresses)), ("VXLAN over IPv6", tunnel_ends(v6()))] {
        let [here, there] = ends;
        let mut packet = packets[0].clone();
        packet[12..18].copy_from_slice(&[8, 0, 0x45, 0, 0, 50]);
        packet[23] = 17;
        let mut headers = [here.headers(); BURST];
        measure(&format!("{name}, headers of a packet"), BURST, || {
            headers.iter_mut().for_each(|headers| here.complete(headers, black_box(&packet[..])));
        });
        let wire = [&headers[0][..], &packet].concat();
        measure(&format!("{name}, find what is inside"), BURST, || {
            (0..BURST).for_each(|_| {
                black_box(there.inside(black_box(&wire[..])).unwrap());
            });
        });
    }
}

fn v6() -> Addresses {
    Addresses::V6 { source: [1; 8].into(), destination: [2; 8].into() }
}

fn tunnel_ends(addresses: Addresses) -> [TunnelEnd; 2] {
    let back = match addresses {
        Addresses::V4 { source, destination } => Addresses::V4 { source: destination, destination: source },
        Addresses::V6 { source, destination } => Addresses::V6 { source: destination, destination: source },
    };
    let (source, destination, checksum) = (MacAddr([2; 6]), MacAddr([4; 6]), Checksum::Zero);
    [addresses, back].map(|addresses| {
        let endpoints = Endpoints { source, destination, addresses, port: 4789, vni: 7, hop_limit: 64, checksum };
        TunnelEnd::new(&endpoints, 1500).unwrap()
    })
}
