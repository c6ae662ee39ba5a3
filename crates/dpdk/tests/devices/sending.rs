//! Frames are sent from where they lie.

use crate::memory::Memory;
use crate::process::alone;
use crate::rig::{CONFIG, GUEST_SIZE, GUEST_START, OWN_START, Port, frame, number, once, start, wait};
use dpdk::{Config, Kind, ToSend};
use std::collections::HashSet;

/// A device whose transmit queue is its receive queue.
const RING: &str = "net_ring0";

/// Puts a frame into a buffer, and describes it.
fn put(memory: &Memory, id: u32, bytes: &[u8]) -> ToSend {
    memory.write(memory.addr(id), bytes);
    ToSend::new(memory.addr(id), bytes.len() as u16, id)
}

#[test]
fn frames_pass_a_ring_byte_by_byte_and_are_done_once() {
    alone(|| {
        let dpdk = start();
        let mut port = Port::started(&dpdk, RING);
        let guest = Memory::new(256, 2048);
        let _region = guest.share(&port.device);
        let (mut done, mut next) = (0, 0);
        for round in 0..50 {
            let frames: Vec<_> = (0..32)
                .map(|i| put(&guest, round % 4 * 32 + i, &frame(round * 32 + i, 60 + (round * 29 + i) as usize % 1440)))
                .collect();
            port.send(&frames);
            // The ring passes on the frames themselves: they are copied to own buffers.
            wait("frames from the ring", || {
                for received in port.burst() {
                    assert_eq!(received.kind, Kind::Own);
                    assert_eq!(number(&port.own.read(received.addr, received.len)), Some(next));
                    next += 1;
                    port.lend_own(&[received.id]);
                }
                next == (round + 1) * 32
            });
            let mut seen = HashSet::new();
            wait("ids of finished frames", || {
                port.done().into_iter().for_each(|id| once(&mut seen, id));
                seen.len() == 32
            });
            done += seen.len();
        }
        assert_eq!((done, port.transmit.out()), (1600, 0));
        assert_eq!((port.transmit.counts().frames, port.receive.counts().frames), (1600, 1600));
    });
}

#[test]
fn long_frames_need_an_mtu_and_long_buffers() {
    alone(|| {
        let dpdk = start();
        let mut device = dpdk.probe(RING).unwrap();
        let memory = Memory::new(512, 12288);
        let _region = memory.share(&device);
        let config = Config { mtu: Some(9000), room: 9216, ..CONFIG };
        let (mut receive, mut transmit) = device.open(&config).unwrap().pop().unwrap();
        let own = dpdk::Loan::new(memory.addr(0), 12288, 128, 0);
        assert_eq!(receive.lend(Kind::Own, &[own]), 1);
        device.start().unwrap();
        assert_eq!(transmit.send(&[put(&memory, 1, &frame(1, 9014)), ToSend::new(memory.addr(2), 9023, 2)]), 2);
        assert_eq!((transmit.counts().frames, transmit.counts().dropped), (1, 1));
        let mut records = [dpdk::Frame::default(); 64];
        wait("the frame", || receive.burst(&mut records, usize::MAX) > 0);
        assert_eq!(number(&memory.read(records[0].addr, records[0].len.into())), Some(1));
    });
}

#[test]
fn a_driver_that_cuts_long_frames_gets_no_guest_s_buffers_without_headroom() {
    alone(|| {
        let dpdk = start();
        let mut port = Port::open(&dpdk, RING, &Config { mtu: Some(9000), ..CONFIG });
        let guest = Memory::new(4, GUEST_SIZE);
        let _region = guest.share(&port.device);
        let loan = |start: u16| dpdk::Loan::new(guest.addr(1), GUEST_SIZE as u32, start, 1);
        assert!(port.receive.refuses(Kind::Guest, &loan(GUEST_START)));
        assert!(!port.receive.refuses(Kind::Guest, &loan(OWN_START)));
        port.device.start().unwrap();
        let source = Memory::new(8, 2048);
        let _source = source.share(&port.device);
        let long = frame(5, 9014);
        let pieces = long.chunks(2048).zip(0..).map(|(piece, id)| put(&source, id, piece).and_more());
        let mut pieces: Vec<_> = pieces.collect();
        let last = pieces.pop().expect("there are some");
        pieces.push(ToSend::new(source.addr(last.id()), last.len(), last.id()));
        port.send(&pieces);
        let mut bytes = Vec::new();
        wait("the frame", || {
            bytes.extend(port.burst().iter().flat_map(|piece| port.own.read(piece.addr, piece.len)));
            bytes.len() == long.len()
        });
        assert_eq!(number(&bytes), Some(5));
    });
}

#[test]
fn a_frame_of_several_pieces_stays_one() {
    alone(|| {
        let dpdk = start();
        let mut port = Port::started(&dpdk, RING);
        let guest = Memory::new(16, 2048);
        let _region = guest.share(&port.device);
        assert!(port.device.info().chains);
        let whole = frame(7, 900);
        let pieces = [
            put(&guest, 3, &whole[..14]).and_more(),
            put(&guest, 1, &whole[14..500]).and_more(),
            put(&guest, 2, &whole[500..]),
        ];
        port.send(&pieces);
        let mut received = Vec::new();
        wait("the frame", || {
            received.extend(port.burst());
            received.len() >= 3
        });
        assert_eq!(received.iter().map(|piece| piece.more).collect::<Vec<_>>(), [true, true, false]);
        let bytes: Vec<u8> = received.iter().flat_map(|piece| port.own.read(piece.addr, piece.len)).collect();
        assert_eq!(number(&bytes), Some(7));
        let mut done = port.done();
        done.sort();
        assert_eq!(done, [1, 2, 3]);
    });
}

#[test]
fn frames_that_a_device_can_not_take_are_finished_and_counted() {
    alone(|| {
        let dpdk = start();
        let mut port = Port::started(&dpdk, RING);
        let guest = Memory::new(16, 2048);
        let strange = Memory::new(1, 4096);
        let _region = guest.share(&port.device);
        let good = |id| put(&guest, id, &frame(id, 100));
        let wrong = [
            ToSend::new(guest.addr(8), 16, 8),
            ToSend::new(guest.addr(9), 1523, 9),
            ToSend::new(strange.addr(0), 100, 10),
            ToSend::new(guest.addr(15) + 2000, 100, 11),
            ToSend::new(guest.addr(12), 0, 12),
            ToSend::new(0, 100, 13),
        ];
        let mut frames = vec![good(0)];
        frames.extend(wrong);
        frames.push(good(1));
        // One piece is good and the other is not: neither is sent.
        frames.extend([good(2).and_more(), ToSend::new(strange.addr(0), 100, 3)]);
        frames.push(good(4));
        assert_eq!(port.transmit.send(&frames), frames.len());
        let mut numbers = Vec::new();
        wait("the good frames", || {
            numbers
                .extend(port.burst().iter().filter_map(|received| number(&port.own.read(received.addr, received.len))));
            numbers.len() == 3
        });
        assert_eq!(numbers, [0, 1, 4]);
        let mut done = port.done();
        done.sort();
        assert_eq!(done, [0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13]);
        assert_eq!((port.transmit.counts().dropped, port.transmit.counts().frames), (7, 3));
    });
}

#[test]
fn without_an_own_buffer_a_copied_frame_is_dropped_and_no_buffer_is_lost() {
    alone(|| {
        let dpdk = start();
        let mut port = Port::started(&dpdk, RING);
        let guest = Memory::new(16, 2048);
        let _region = guest.share(&port.device);
        let mut own = Vec::new();
        port.receive.reclaim(Kind::Own, &mut own);
        port.send(&[put(&guest, 5, &frame(5, 100))]);
        wait("the drop", || {
            assert!(port.burst().is_empty());
            port.receive.counts().dropped == 1
        });
        assert_eq!(port.done(), [5]);
        port.lend_own(&own);
        port.send(&[put(&guest, 5, &frame(6, 100))]);
        wait("the next one", || port.burst().len() == 1);
    });
}

#[test]
fn the_halves_of_a_queue_are_driven_by_two_threads() {
    alone(|| {
        const FRAMES: u32 = 20_000;
        let dpdk = start();
        let Port { mut receive, mut transmit, own, own_region, device, .. } = Port::started(&dpdk, RING);
        let guest = Memory::new(512, 2048);
        let _region = guest.share(&device);
        let (own, guest) = (&own, &guest);
        std::thread::scope(|scope| {
            // The thread that receives frees what the other one sends.
            scope.spawn(move || {
                let (mut records, mut next) = ([dpdk::Frame::default(); 64], 0);
                wait("all frames", || {
                    let count = receive.burst(&mut records, usize::MAX);
                    for record in &records[..count] {
                        assert_eq!(number(&own.read(record.addr, record.len.into())), Some(next));
                        next += 1;
                        let loan = dpdk::Loan::new(own.addr(record.id), own.size as u32, 128, record.id);
                        assert_eq!(receive.lend(Kind::Own, &[loan]), 1);
                    }
                    next == FRAMES
                });
            });
            scope.spawn(move || {
                let (mut free, mut sent, mut ids): (Vec<u32>, _, _) = ((0..512).collect(), 0, [0; 64]);
                wait("all ids", || {
                    while let Some(id) = free.pop_if(|_| sent < FRAMES) {
                        match transmit.send(&[put(guest, id, &frame(sent, 64))]) {
                            0 => {
                                free.push(id);
                                break;
                            }
                            _ => sent += 1,
                        }
                    }
                    let count = transmit.done(&mut ids);
                    free.extend(&ids[..count]);
                    sent == FRAMES && free.len() == 512
                });
                free.sort();
                assert_eq!(free, (0..512).collect::<Vec<_>>());
            });
        });
        drop(own_region);
    });
}

#[test]
fn a_full_ring_takes_no_more_and_loses_nothing() {
    alone(|| {
        let dpdk = start();
        let mut port = Port::started(&dpdk, RING);
        let guest = Memory::new(2048, 2048);
        let _region = guest.share(&port.device);
        let mut sent = 0;
        // Ids of its own size, and one after the other.
        loop {
            let taken = port.transmit.send(&[put(&guest, sent, &frame(sent, 64))]);
            if taken == 0 {
                break;
            }
            sent += 1;
        }
        assert_eq!(sent, port.transmit.out());
        let mut next = 0;
        wait("all frames", || {
            for received in port.burst() {
                assert_eq!(number(&port.own.read(received.addr, received.len)), Some(next));
                next += 1;
                port.lend_own(&[received.id]);
            }
            next == sent
        });
        let mut done = HashSet::new();
        wait("all ids", || {
            port.done().into_iter().for_each(|id| once(&mut done, id));
            done.len() == sent as usize
        });
    });
}
