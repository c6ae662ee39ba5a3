//! Packet rings against each other, over a veth pair.

mod common;

use std::net::UdpSocket;

use common::{Netns, SIZES, frame, readable, tagged, udp_frame, wait_for};
use netdev::{Link, PacketRx, PacketTx, RawSegment, RxConfig, RxStatistics, TxConfig, Vlan};
use packet::offload::Offload;
use rustix::param::page_size;

fn receiver(name: &str) -> PacketRx {
    PacketRx::open(&Link::named(name).unwrap(), 1, &RxConfig::default()).unwrap().remove(0)
}

fn sender(name: &str) -> PacketTx {
    PacketTx::open(&Link::named(name).unwrap(), &TxConfig::default()).unwrap()
}

/// Sends one frame and waits for it; reinserts the tag that the kernel removed.
fn exchange(tx: &PacketTx, rx: &mut PacketRx, sent: &[u8]) -> Vec<u8> {
    tx.push(&[sent]).unwrap();
    assert_eq!(tx.flush().unwrap().sent, 1);
    let received = wait_for("frame", || rx.next_frame());
    assert!(!received.is_truncated());
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
        // A block for each frame of a round, and more: the kernel closes a block early when the next frame is late.
        let config = RxConfig { block_bytes: 2 * page_size(), blocks: 64, ..RxConfig::default() };
        let mut rx = PacketRx::open(&Link::named("b").unwrap(), 1, &config).unwrap().remove(0);
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
                // A burst ends within a block, and the next one continues there.
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
        let tx = sender("a");
        let config = RxConfig { block_bytes: page_size(), blocks: 4, ..RxConfig::default() };
        let mut rx = PacketRx::open(&Link::named("b").unwrap(), 1, &config).unwrap().remove(0);
        let send = |from: usize, to: usize| {
            for seed in from..to {
                tx.push(&[&frame(1514, seed)]).unwrap();
            }
            assert_eq!(tx.flush().unwrap().sent, to - from);
        };
        // At most so many frames of this size fit in a block: the kernel closes one early when the next frame is late.
        let fit = page_size() / 1600;
        let (first, second) = (10 * fit, 16 * fit);
        send(0, first);
        let mut lent = Vec::new();
        let monitor = rx.monitor();
        let mut sum = RxStatistics::default();
        let mut count = || {
            let more = monitor.take().unwrap().unwrap();
            sum.packets += more.packets;
            sum.drops += more.drops;
            sum.freezes += more.freezes;
            sum
        };
        wait_for("frames of four blocks", || {
            lent.extend(rx.burst(32));
            let counted = count();
            (counted.packets == first as u64 && lent.len() as u64 + counted.drops == counted.packets).then_some(())
        });
        assert!((4..=4 * fit).contains(&lent.len()), "{} frames in four blocks", lent.len());
        send(first, second);
        assert!(rx.next_frame().is_none(), "all blocks are on loan");
        for (seed, received) in lent.iter().enumerate() {
            assert_eq!(received.bytes(), frame(1514, seed));
        }
        let counted = wait_for("all to be counted", || {
            let counted = count();
            (counted.packets == second as u64).then_some(counted)
        });
        assert_eq!(counted.drops, (second - lent.len()) as u64);
        assert!(counted.freezes > 0);

        rx.release();
        send(second, second + 1);
        assert_eq!(wait_for("frame", || rx.next_frame()).bytes(), frame(1514, second));
        assert_eq!(count().packets, second as u64 + 1);
        drop(rx);
        assert!(monitor.take().is_none(), "the ring is closed");
    });
}

#[test]
fn a_block_goes_back_after_its_last_frame() {
    Netns::with_veth(1500).run(|| {
        let tx = sender("a");
        // Two blocks hold the four frames, or four if the kernel closes each early, because the next frame is late.
        let config = RxConfig { block_bytes: page_size(), blocks: 4, ..RxConfig::default() };
        let mut rx = PacketRx::open(&Link::named("b").unwrap(), 1, &config).unwrap().remove(0);
        for seed in 0..4 {
            tx.push(&[&frame(1514, seed)]).unwrap();
        }
        assert_eq!(tx.flush().unwrap().sent, 4);
        for seed in 0..4 {
            // Releasing after every frame never returns the rest of its block.
            assert_eq!(wait_for("frame", || rx.next_frame()).bytes(), frame(1514, seed));
            rx.release();
        }
        assert!(rx.next_frame().is_none());
    });
}

/// Other threads read frames of held blocks, which the kernel gets back in its order once they are given back, in any order.
#[test]
fn blocks_that_are_held_stay() {
    Netns::with_veth(1500).run(|| {
        let tx = sender("a");
        let config = RxConfig { block_bytes: page_size(), blocks: 4, ..RxConfig::default() };
        let mut rx = PacketRx::open(&Link::named("b").unwrap(), 1, &config).unwrap().remove(0);
        assert_eq!(rx.blocks(), 4);
        let memory = rx.memory();
        let send = |seed| {
            tx.push(&[&frame(1514, seed)]).unwrap();
            assert_eq!(tx.flush().unwrap().sent, 1);
        };
        // More often than the ring has blocks.
        for lap in 0..5 {
            let mut held = Vec::new();
            for seed in [lap, lap + 100] {
                send(seed);
                let received = wait_for("frame", || rx.next_frame());
                let bytes = received.bytes().as_ptr();
                assert!(memory.range_of(bytes).is_some_and(|range| range.contains(&(bytes.addr() + 1513))));
                let mut blocks = Vec::new();
                rx.hold(&mut blocks);
                assert!(!blocks.is_empty());
                rx.release();
                held.push((bytes, seed, blocks));
            }
            while let Some((bytes, seed, blocks)) = if lap % 2 == 0 { held.pop() } else { Some(held.remove(0)) } {
                // SAFETY: the frame lies in a block that is held, in memory that is mapped as long as `memory` exists.
                assert_eq!(unsafe { std::slice::from_raw_parts(bytes, 1514) }, frame(1514, seed));
                rx.give_back(&blocks);
                rx.release();
                if held.is_empty() {
                    break;
                }
            }
        }
        // All blocks that are held are full or closed at last: nothing more is received until they are given back.
        let mut held = Vec::new();
        for seed in 0..16 {
            send(seed);
        }
        wait_for("a full ring", || {
            while rx.next_frame().is_some() {}
            rx.hold(&mut held);
            rx.release();
            (held.iter().collect::<std::collections::BTreeSet<_>>().len() == 4).then_some(())
        });
        rx.give_back(&held);
        rx.release();
        send(16);
        assert_eq!(wait_for("frame", || rx.next_frame()).bytes(), frame(1514, 16));
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
    let page = rustix::param::page_size();
    Netns::with_veth(page).run(|| {
        let config = RxConfig::default();
        let small = RxConfig { block_bytes: page, blocks: 4, ..RxConfig::default() };
        assert!(
            PacketRx::open(&Link::named("a").unwrap(), 1, &small)
                .unwrap_err()
                .to_string()
                .contains("make the blocks larger")
        );
        assert!(PacketRx::open(&Link::named("a").unwrap(), 0, &config).is_err());
    });
}
