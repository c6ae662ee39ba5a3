//! Packet rings against each other, over a veth pair.

mod common;

use std::net::UdpSocket;

use common::{Netns, SIZES, frame, readable, tagged, udp_frame, wait_for};
use netdev::{Link, PacketRx, PacketTx, RawSegment, RxConfig, TxConfig, Vlan};
use packet::offload::Offload;

fn receiver(name: &str) -> PacketRx {
    PacketRx::open(&Link::named(name).unwrap(), 1, &RxConfig::default()).unwrap().remove(0)
}

/// Opens the smallest ring: 40 slots.
fn small_receiver(name: &str) -> PacketRx {
    let config = RxConfig { slots: 40, ..RxConfig::default() };
    let rx = PacketRx::open(&Link::named(name).unwrap(), 1, &config).unwrap().remove(0);
    assert_eq!(rx.slots(), 40);
    rx
}

fn sender(name: &str) -> PacketTx {
    PacketTx::open(&Link::named(name).unwrap(), &TxConfig::default()).unwrap()
}

/// Sends one frame and waits for it; reinserts the tag that the kernel removed.
fn exchange(tx: &PacketTx, rx: &mut PacketRx, sent: &[u8]) -> Vec<u8> {
    tx.push(&[sent]).unwrap();
    assert_eq!(tx.flush().unwrap().sent, 1);
    let received = wait_for("frame", || rx.next_frame());
    let bytes = match received.vlan() {
        Some(vlan) => tagged(received.bytes(), vlan.tpid, vlan.tci),
        None => received.bytes().to_vec(),
    };
    rx.release();
    bytes
}

#[test]
fn both_directions_all_sizes() {
    Netns::with_veth(9000).run(|| {
        for (from, to) in [("a", "b"), ("b", "a")] {
            let (tx, mut rx) = (sender(from), receiver(to));
            assert_eq!(tx.max_frame(), 9014);
            for (seed, size) in SIZES.into_iter().chain([14, 9014]).enumerate() {
                let sent = frame(size, seed);
                assert_eq!(exchange(&tx, &mut rx, &sent), sent);
            }
        }
    });
}

#[test]
fn vlan_tags_are_kept_apart() {
    Netns::with_veth(9000).run(|| {
        let (tx, mut rx) = (sender("a"), receiver("b"));
        for size in SIZES.into_iter().chain([9014]) {
            let sent = tagged(&frame(size, size), 0x8100, 0xe123);
            assert_eq!(exchange(&tx, &mut rx, &sent), sent);
        }
        // Of two tags, the outer one is removed.
        let inner = tagged(&frame(100, 0), 0x8100, 7);
        tx.push(&[&tagged(&inner, 0x88a8, 9)]).unwrap();
        assert_eq!(tx.flush().unwrap().sent, 1);
        let received = wait_for("frame", || rx.next_frame());
        assert_eq!(received.vlan(), Some(Vlan { tpid: 0x88a8, tci: 9 }));
        assert_eq!(received.bytes(), inner);
    });
}

#[test]
fn raw_segments_are_gathered() {
    Netns::with_veth(1500).run(|| {
        let (tx, rx) = (sender("a"), receiver("b"));
        let sent = frame(1514, 3);
        let segments = [0..1, 1..12, 12..12, 12..700, 700..1514].map(|range| RawSegment::from(&sent[range]));
        // SAFETY: the segments are slices that live until the call returns.
        unsafe { tx.push_raw(Offload::NONE, &segments) }.unwrap();
        assert_eq!(tx.flush().unwrap().sent, 1);
        assert_eq!(wait_for("frame", || rx.next_frame()).bytes(), sent);
    });
}

#[test]
fn both_rings_wrap_in_order() {
    Netns::with_veth(1500).run(|| {
        let config = TxConfig { slots: 70, frame_bytes: 1518, bypass_qdisc: true, ..TxConfig::default() };
        let tx = PacketTx::open(&Link::named("a").unwrap(), &config).unwrap();
        let mut rx = small_receiver("b");
        let slots = tx.space();
        assert!(slots >= 70);
        let (mut sent, mut received) = (0, 0);
        while received < 3000 {
            for _ in 0..32.min(3000 - sent) {
                tx.push(&[&frame(60 + sent % 1454, sent)]).unwrap();
                sent += 1;
            }
            let flushed = tx.flush().unwrap();
            assert_eq!((flushed.pending, flushed.refused, flushed.wrong_format), (0, 0, 0));
            while received < sent {
                // The next burst continues where one ends.
                wait_for("burst", || {
                    let before = received;
                    for lent in rx.burst(7) {
                        assert_eq!(lent.bytes(), frame(60 + received % 1454, received));
                        received += 1;
                    }
                    (received > before).then_some(())
                });
                rx.release();
            }
        }
        wait_for("free slots", || (tx.space() == slots).then_some(()));
        let counted = rx.monitor().take().unwrap().unwrap();
        assert_eq!((counted.packets, counted.drops), (3000, 0));
    });
}

#[test]
fn frames_on_loan_stay_as_they_are() {
    Netns::with_veth(1500).run(|| {
        let (tx, mut rx) = (sender("a"), small_receiver("b"));
        let send = |from: usize, to: usize| {
            for seed in from..to {
                tx.push(&[&frame(1514, seed)]).unwrap();
            }
            assert_eq!(tx.flush().unwrap().sent, to - from);
        };
        let monitor = rx.monitor();
        let wait_for_count = |count| {
            let mut drops = 0;
            let mut left = count;
            wait_for("all to be counted", || {
                let more = monitor.take().unwrap().unwrap();
                drops += more.drops;
                left -= more.packets;
                (left == 0).then_some(drops)
            })
        };
        send(0, 60);
        assert_eq!(wait_for_count(60), 20, "the ring has 40 slots");
        let lent: Vec<_> = rx.burst(100).collect();
        send(60, 70);
        assert_eq!(wait_for_count(10), 10, "all slots are on loan");
        assert!(rx.next_frame().is_none());
        assert_eq!(lent.len(), 40);
        for (seed, received) in lent.iter().enumerate() {
            assert_eq!(received.bytes(), frame(1514, seed));
        }
        rx.release();
        send(70, 71);
        assert_eq!(wait_for("frame", || rx.next_frame()).bytes(), frame(1514, 70));
        drop(rx);
        assert!(monitor.take().is_none(), "the ring is closed");
    });
}

/// Frames are longer than a slot: the MTU of the sender's end is larger. Or no slot holds any, as with older kernels.
#[test]
fn frames_longer_than_a_slot_come_whole_and_in_order() {
    for are_beside in [false, true] {
        long_frames(are_beside);
    }
}

fn long_frames(are_beside: bool) {
    let netns = Netns::with_veth(1500);
    let config = RxConfig { slots: 40, are_beside, ..RxConfig::default() };
    let mut rx = netns.run(|| PacketRx::open(&Link::named("b").unwrap(), 1, &config).unwrap().remove(0));
    for end in ["a", "b"] {
        netns.ip(&format!("link set dev {end} mtu 65535"));
    }
    let tx = netns.run(|| sender("a"));
    let bytes = |seed: usize| match seed % 3 {
        0 => tagged(&frame(60 + seed, seed), 0x8100, 5),
        1 => frame(1532 + seed * 643 % 64_000, seed),
        _ => frame(1514, seed),
    };
    let memories = rx.memories();
    for round in 0..100 {
        let seeds = round * 7..round * 7 + 7;
        for seed in seeds.clone() {
            tx.push(&[&bytes(seed)]).unwrap();
        }
        assert_eq!(tx.flush().unwrap().sent, 7);
        let mut slots = Vec::new();
        let lent: Vec<_> = seeds.clone().map(|_| wait_for("frame", || rx.next_frame())).collect();
        for (got, seed) in lent.iter().zip(seeds) {
            let got = got.vlan().map_or_else(|| got.bytes().to_vec(), |vlan| tagged(got.bytes(), vlan.tpid, vlan.tci));
            assert!(got == bytes(seed), "frame {seed}");
        }
        for got in lent {
            let range = memories.iter().find_map(|memory| memory.range_of(got.bytes().as_ptr())).unwrap();
            assert!(range.contains(&(got.bytes().as_ptr().addr() + got.bytes().len() - 1)));
        }
        // Held slots keep their long frames' room as well.
        rx.hold(&mut slots);
        rx.release();
        assert_eq!(slots.len(), 7);
        rx.give_back(&slots);
        rx.release();
    }
    assert_eq!(rx.monitor().take().unwrap().unwrap().drops, 0);
    // The error of an interface that went down is told before a frame that came earlier.
    tx.push(&[&frame(9000, 1)]).unwrap();
    assert_eq!(tx.flush().unwrap().sent, 1);
    wait_for("frame", || readable(&rx, 0).then_some(()));
    netns.ip("link set dev b down");
    assert_eq!(rx.next_frame().unwrap().bytes(), frame(9000, 1));
}

/// More long frames arrive than the kernel has memory for: they are lost, and counted. Those that arrived before and after come.
#[test]
fn long_frames_that_are_lost_are_counted() {
    let netns = Netns::with_veth(65_535);
    let (mut rx, tx) = netns.run(|| {
        let rx = PacketRx::open(&Link::named("b").unwrap(), 1, &RxConfig::default()).unwrap().remove(0);
        (rx, sender("a"))
    });
    for seed in 0..300 {
        tx.push(&[&frame(60_000, seed)]).unwrap();
    }
    assert_eq!(tx.flush().unwrap().sent, 300);
    let monitor = rx.monitor();
    let (mut came, mut seen, mut lost) = (0, 0, 0);
    // All have arrived before the first one is read.
    wait_for("all to arrive", || {
        seen += monitor.take().unwrap().unwrap().packets;
        (seen == 300).then_some(())
    });
    wait_for("the frames", || {
        while let Some(got) = rx.next_frame() {
            assert!(got.bytes() == frame(60_000, came), "frame {came}");
            came += 1;
        }
        rx.release();
        lost += monitor.take().unwrap().unwrap().drops as usize;
        (came + lost == 300).then_some(())
    });
    assert!(came > 50 && lost > 50, "{came} came, {lost} are lost");
    // Slots whose frames are lost go back.
    assert!(rx.next_frame().is_none() && !rx.has_recent() && !rx.is_ready() && !readable(&rx, 0));
    tx.push(&[&frame(60_000, 300)]).unwrap();
    assert_eq!(tx.flush().unwrap().sent, 1);
    assert!(wait_for("frame", || rx.next_frame()).bytes() == frame(60_000, 300));
}

/// Other threads read frames of held slots, which the kernel gets back in its order once they are given back, in any order.
#[test]
fn slots_that_are_held_stay() {
    Netns::with_veth(1500).run(|| {
        let (tx, mut rx) = (sender("a"), small_receiver("b"));
        let [memory, _] = rx.memories();
        let send = |seed| {
            tx.push(&[&frame(1514, seed)]).unwrap();
            assert_eq!(tx.flush().unwrap().sent, 1);
        };
        // More often than the ring has slots.
        for lap in 0..25 {
            let mut held = Vec::new();
            for seed in [lap, lap + 100] {
                send(seed);
                let received = wait_for("frame", || rx.next_frame());
                let bytes = received.bytes().as_ptr();
                assert!(memory.range_of(bytes).is_some_and(|range| range.contains(&(bytes.addr() + 1513))));
                let mut slots = Vec::new();
                rx.hold(&mut slots);
                assert_eq!(slots.len(), 1);
                rx.release();
                held.push((bytes, seed, slots));
            }
            while let Some((bytes, seed, slots)) = if lap % 2 == 0 { held.pop() } else { Some(held.remove(0)) } {
                // SAFETY: the frame lies in a slot that is held, in memory that is mapped as long as `memory` exists.
                assert_eq!(unsafe { std::slice::from_raw_parts(bytes, 1514) }, frame(1514, seed));
                rx.give_back(&slots);
                rx.release();
                if held.is_empty() {
                    break;
                }
            }
        }
        // All slots are held: nothing more is received until they are given back.
        let mut held = Vec::new();
        (0..50).for_each(send);
        wait_for("a full ring", || {
            while rx.next_frame().is_some() {}
            rx.hold(&mut held);
            rx.release();
            (held.len() == 40).then_some(())
        });
        rx.give_back(&held);
        rx.release();
        send(50);
        assert_eq!(wait_for("frame", || rx.next_frame()).bytes(), frame(1514, 50));
        drop(rx);
        assert!(memory.range_of(std::ptr::null()).is_none());
    });
}

#[test]
fn frames_that_leave_are_not_received() {
    Netns::with_veth(1500).run(|| {
        for queues in [1, 2] {
            let own = PacketRx::open(&Link::named("a").unwrap(), queues, &RxConfig::default()).unwrap();
            let (tx, mut rx) = (sender("a"), receiver("b"));
            assert_eq!(exchange(&tx, &mut rx, &frame(60, 0)), frame(60, 0));
            for own in own {
                assert!(!readable(&own, 20));
                assert!(own.next_frame().is_none());
                assert_eq!(own.monitor().take().unwrap().unwrap().packets, 0);
            }
        }
    });
}

#[test]
fn every_address_is_received() {
    Netns::with_veth(1500).run(|| {
        let (tx, mut rx) = (sender("a"), receiver("b"));
        let mac = Link::named("b").unwrap().mac.0;
        assert_ne!(mac, [2, 0, 0, 0, 0, 1], "the test frames are for somebody else");
        let mut own = frame(60, 1);
        own[..6].copy_from_slice(&mac);
        for sent in [frame(60, 0), own] {
            assert_eq!(exchange(&tx, &mut rx, &sent), sent);
        }
    });
}

#[test]
fn queues_share_the_flows() {
    Netns::with_veth(1500).run(|| {
        let tx = sender("a");
        let mut queues = PacketRx::open(&Link::named("b").unwrap(), 3, &RxConfig::default()).unwrap();
        let flows = 64;
        let mut by_flow = vec![Vec::new(); usize::from(flows)];
        let mut received = 0;
        for round in 1..=3 {
            for port in 0..flows {
                tx.push(&[&udp_frame(port)]).unwrap();
            }
            assert_eq!(tx.flush().unwrap().sent, usize::from(flows));
            wait_for("frames", || {
                for (number, queue) in queues.iter_mut().enumerate() {
                    for received_frame in queue.burst(32) {
                        let port = u16::from_be_bytes(received_frame.bytes()[34..36].try_into().unwrap());
                        assert_eq!(received_frame.bytes(), udp_frame(port));
                        by_flow[usize::from(port)].push(number);
                        received += 1;
                    }
                    queue.release();
                }
                (received >= usize::from(flows) * round).then_some(())
            });
        }
        assert!(by_flow.iter().all(|queues| queues.len() == 3 && queues.iter().all(|queue| *queue == queues[0])));
        assert!((0..3).all(|queue| by_flow.iter().any(|queues| queues[0] == queue)), "a queue without flows");
    });
}

#[test]
fn readiness() {
    Netns::with_veth(1500).run(|| {
        let (tx, mut rx) = (sender("a"), receiver("b"));
        assert!(!readable(&rx, 5));
        tx.push(&[&frame(60, 0)]).unwrap();
        assert_eq!(tx.flush().unwrap().sent, 1);
        assert!(readable(&rx, 60_000));
        assert!(rx.next_frame().is_some());
        rx.release();
        assert!(!readable(&rx, 5));
    });
}

#[test]
fn a_checksum_left_to_the_hardware_is_completed() {
    let netns = Netns::with_veth(1500);
    netns.ip("addr add 10.9.0.1/24 dev a");
    netns.ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:01 dev a");
    netns.run(|| {
        let mut rx = receiver("b");
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        for len in [0, 1, 27, 1000] {
            let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
            socket.send_to(&payload, "10.9.0.2:9").unwrap();
            let datagram = wait_for("datagram", || {
                let frame = rx.next_frame().filter(|frame| frame.bytes()[12..14] == [8, 0]);
                frame.map(|frame| frame.bytes()[14..].to_vec())
            });
            // The checksum includes addresses, protocol and length (RFC 768).
            let (addresses, datagram) = (&datagram[12..20], &datagram[20..]);
            let words = [addresses, datagram].concat();
            let words = words.chunks(2).map(|w| u32::from(w[0]) << 8 | w.get(1).map_or(0, |&b| u32::from(b)));
            let sum = words.sum::<u32>() + 17 + datagram.len() as u32;
            assert_eq!((sum % 0xffff, &datagram[8..]), (0, &payload[..]), "{len} bytes");
            rx.release();
        }
    });
}

#[test]
fn a_link_that_goes_down_and_up() {
    let netns = Netns::with_veth(1500);
    let (tx, mut rx) = netns.run(|| (sender("a"), receiver("b")));
    netns.ip("link set dev b down");
    let error = rx.take_error().unwrap().expect("the interface went down");
    assert_eq!(error.raw_os_error(), Some(libc::ENETDOWN));
    assert!(rx.take_error().unwrap().is_none());
    netns.ip("link set dev b up");
    wait_for("carrier", || {
        tx.push(&[&frame(60, 0)]).unwrap();
        let _ = tx.flush().unwrap();
        rx.next_frame().map(|_| ())
    });
    rx.release();
}

#[test]
fn errors_of_opening_name_their_cause() {
    Netns::with_veth(1500).run(|| {
        let open = |queues, slots| {
            let config = RxConfig { slots, ..RxConfig::default() };
            PacketRx::open(&Link::named("a").unwrap(), queues, &config).unwrap_err().to_string()
        };
        assert!(open(1, 100_000).contains("a receive ring of 100000 slots is not possible"));
        assert!(open(0, 1024).contains("0 receive rings are not possible"));
    });
}
