//! testpmd's forwarding modes. Left out are `ieee1588`, which takes time stamps of a NIC, and `shared-rxq`, which takes receive
//! queues that ports share.

use super::rig::{LEFT, PORT_MACS, RIGHT, Rig, VIDS};
use e2e::stream::{IN_FLIGHT, exchange_through, joined_both_ways, packet};
use e2e::virtio::Guest;
use e2e::wait_for;
use lab::Result;

const PACKETS: u64 = 3000;

/// Peers that testpmd writes to, by port.
const PEERS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0x40, 0], [2, 0, 0, 0, 0x40, 1]];

/// Checks the addresses that testpmd wrote to a packet of the end `way`, and writes those back that it came with.
fn readdressed(way: usize, bytes: &mut [u8]) {
    // Packets from near leave by the right port, the second one.
    let by = 1 - way;
    assert_eq!((&bytes[..6], &bytes[6..12]), (&PEERS[by][..], &PORT_MACS[by][..]));
    let own = packet(way as u64, 0, &VIDS);
    bytes[..12].copy_from_slice(&own[..12]);
}

fn swapped(_: usize, bytes: &mut [u8]) {
    let (to, from) = bytes[..12].split_at_mut(6);
    to.swap_with_slice(from);
}

type Undo = fn(usize, &mut [u8]);

#[test]
fn modes_that_pass_packets_on() -> Result<()> {
    let mut rig = Rig::start(1)?;
    let mut ends = rig.ends()?;
    for (port, peer) in [(LEFT, PEERS[0]), (RIGHT, PEERS[1])] {
        let peer = peer.map(|byte| format!("{byte:02x}")).join(":");
        rig.testpmd.command(&format!("set eth-peer {port} {peer}"))?;
    }
    let modes: [(&str, Undo); 6] = [
        ("io", |_, _| {}),
        ("noisy", |_, _| {}),
        ("mac", readdressed),
        ("macswap", swapped),
        ("5tswap", swapped),
        ("csum", readdressed),
    ];
    for (mode, undo) in modes {
        rig.forwarding(mode, |_| exchange_through(&mut ends, PACKETS, &VIDS, IN_FLIGHT, undo))?;
    }
    let packets = PACKETS * modes.len() as u64;
    let [received, sent] = rig.millrace.sides("wan");
    joined_both_ways(&received, &sent, packets);
    rig.millrace.none_dropped();
    rig.millrace.counted("out", packets, packets);
    let stats = rig.testpmd.stats()?;
    assert!(stats.iter().all(|port| (port.rx_packets, port.tx_packets) == (packets, packets)), "{stats:?}");
    assert!(stats.iter().all(|port| (port.rx_errors, port.tx_errors, port.rx_nombuf) == (0, 0, 0)), "{stats:?}");
    // The driver's counters are the switch's, from the other end.
    let named = rig.testpmd.named_stats()?;
    let left = |name: &str| named[0][name];
    assert_eq!([left("rx_frames"), left("rx_aggregates")], [sent.frames, sent.aggregates], "{named:?}");
    assert_eq!([left("tx_frames"), left("tx_aggregates")], [received.frames, received.aggregates], "{named:?}");
    assert_eq!(left("rx_split") + sent.frames - sent.aggregates, packets, "{named:?}");
    assert_eq!(left("tx_joined") + received.frames - received.aggregates, packets, "{named:?}");
    // No next hop is behind the other port.
    assert_eq!([named[1]["tx_frames"], named[1]["tx_aggregates"]], [packets, 0], "{named:?}");
    rig.stop()
}

/// Sends packets in one burst, and waits for as many from `to`, whatever their order.
fn ask(ends: &mut [Guest; 2], to: usize, packets: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    for packet in packets {
        assert!(ends[0].send(&[packet], 1)?);
    }
    ends[0].flush();
    let mut answers = Vec::new();
    wait_for("answers", || {
        ends[0].reap().unwrap();
        let take = |bytes: &[u8]| {
            answers.push(bytes.to_vec());
            Ok(())
        };
        ends[to].receive(64, take).unwrap();
        (answers.len() == packets.len()).then_some(())
    });
    answers.sort();
    Ok(answers)
}

/// Returns the Internet checksum of these bytes.
pub fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// Offset of the IP header, and of the payload.
const IP: usize = 18;
const INSIDE: usize = IP + 20;

/// Returns an IPv4 packet in the first VLAN, from 10.0.0.1 to 10.0.0.2.
fn ipv4(protocol: u8, inside: &[u8]) -> Vec<u8> {
    let mut bytes = packet(0, 0, &VIDS[..1]);
    bytes.truncate(IP);
    bytes[16..18].copy_from_slice(&[8, 0]);
    let len = (20 + inside.len() as u16).to_be_bytes();
    bytes.extend([0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = checksum(&bytes[IP..]).to_be_bytes();
    bytes[IP + 10..IP + 12].copy_from_slice(&sum);
    bytes.extend(inside);
    bytes
}

/// Returns the payload of a packet with this number, which comes in front.
fn payload(number: u8) -> Vec<u8> {
    std::iter::once(number).chain((0..20 + number).map(|at| at.wrapping_mul(number))).collect()
}

/// Returns a UDP packet of this number, with these ports and checksum.
fn udp(number: u8, ports: [u16; 2], sum: u16) -> Vec<u8> {
    let payload = payload(number);
    let head = [ports[0], ports[1], 8 + payload.len() as u16, sum].map(u16::to_be_bytes).concat();
    ipv4(17, &[head, payload].concat())
}

/// Returns the checksum that a UDP packet should have.
fn udp_checksum(bytes: &[u8]) -> u16 {
    let mut all = bytes[IP + 12..INSIDE].to_vec();
    all.extend([0, 17]);
    all.extend((bytes.len() as u16 - INSIDE as u16).to_be_bytes());
    all.extend(&bytes[INSIDE..INSIDE + 6]);
    all.extend([0, 0]);
    all.extend(&bytes[INSIDE + 8..]);
    checksum(&all)
}

#[test]
fn modes_that_look_into_packets() -> Result<()> {
    let mut rig = Rig::start(1)?;
    let mut ends = rig.ends()?;
    let numbers = 0..24;
    let questions: Vec<_> = numbers.clone().map(|number| udp(number, [7, 9], 1)).collect();
    rig.forwarding("csum", |_| {
        for (bytes, number) in ask(&mut ends, 1, &questions)?.iter().zip(numbers.clone()) {
            assert_eq!(bytes[12..INSIDE + 6], questions[usize::from(number)][12..INSIDE + 6]);
            assert_eq!(bytes[INSIDE + 6..INSIDE + 8], udp_checksum(bytes).to_be_bytes());
            assert_eq!(bytes[INSIDE + 8..], payload(number));
        }
        Ok(())
    })?;
    rig.forwarding("5tswap", |_| {
        for (bytes, number) in ask(&mut ends, 1, &questions)?.iter().zip(numbers.clone()) {
            let question = &questions[usize::from(number)];
            assert_eq!([&bytes[6..12], &bytes[..6]].concat(), question[..12]);
            assert_eq!(bytes[IP + 12..INSIDE], [10, 0, 0, 2, 10, 0, 0, 1]);
            assert_eq!(bytes[INSIDE..INSIDE + 4], [0, 9, 0, 7]);
            assert_eq!(bytes[INSIDE + 8..], payload(number));
        }
        Ok(())
    })?;
    let echo = |kind: u8, number: u8| {
        let mut inside = [&[kind, 0, 0, 0, 0, 1, 0, number][..], &payload(number)].concat();
        let sum = checksum(&inside).to_be_bytes();
        inside[2..4].copy_from_slice(&sum);
        inside
    };
    let requests: Vec<_> = numbers.clone().map(|number| ipv4(1, &echo(8, number))).collect();
    rig.forwarding("icmpecho", |_| {
        for (bytes, number) in ask(&mut ends, 0, &requests)?.iter().zip(numbers.clone()) {
            assert_eq!(bytes[IP + 12..INSIDE], [10, 0, 0, 2, 10, 0, 0, 1]);
            assert_eq!(bytes[INSIDE..], echo(0, number));
        }
        Ok(())
    })?;
    let [received, sent] = rig.millrace.sides("wan");
    assert!(received.aggregates > 0 && sent.aggregates > 0, "{received:?} {sent:?}");
    rig.millrace.none_dropped();
    rig.stop()
}

/// Modes that send packets of their own, and the lengths of these.
const SIZES: [(&str, usize); 2] = [("flowgen", 60), ("txonly", 64)];

#[test]
fn modes_of_one_direction() -> Result<()> {
    let mut rig = Rig::start(1)?;
    let mut ends = rig.ends()?;
    rig.forwarding("rxonly", |rig| {
        for round in 1..=10 {
            let mut number = 0;
            wait_for("packets to be sent", || {
                ends[0].reap().unwrap();
                while number < 100 && ends[0].send(&[&packet(0, number, &VIDS)], 1).unwrap() {
                    number += 1;
                }
                ends[0].flush();
                (number == 100).then_some(())
            });
            let taken = |rig: &mut Rig| rig.testpmd.stats().unwrap()[0].rx_packets;
            wait_for("packets to be taken", || (taken(rig) == round * 100).then_some(()));
        }
        Ok(())
    })?;
    rig.millrace.none_dropped();
    assert!(rig.millrace.sides("wan")[1].aggregates > 0);
    for (mode, size) in SIZES {
        rig.forwarding(mode, |_| {
            for end in &mut ends {
                let mut taken = 0;
                wait_for("packets to arrive", || {
                    let take = |bytes: &[u8]| {
                        // They have no tag, so none is joined.
                        assert_eq!(bytes[12..14], [8, 0]);
                        assert_eq!(checksum(&bytes[14..34]), 0, "the IP header");
                        // Those of the other mode may still be on their way.
                        assert!(SIZES.iter().any(|(_, size)| *size == bytes.len()), "{bytes:?}");
                        taken += u32::from(bytes.len() == size);
                        Ok(())
                    };
                    end.receive(64, take).unwrap();
                    (taken > 2000).then_some(())
                });
            }
            Ok(())
        })?;
    }
    rig.stop()
}
