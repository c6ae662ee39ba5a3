//! Frames come in the buffers that were lent.

use crate::memory::Memory;
use crate::process::alone;
use crate::rig::{CONFIG, GUEST_SIZE, GUEST_START, Port, once, start, wait};
use dpdk::{Config, Kind, Loan};
use std::collections::HashSet;
use std::sync::atomic::Ordering;

/// A device that receives the same frame for ever.
const NULL: &str = "net_null0";

#[test]
fn each_loan_comes_back_once_in_order_and_then_the_reserve() {
    alone(|| {
        let dpdk = start();
        let mut port = Port::started(&dpdk, NULL);
        let guest = Memory::new(64, GUEST_SIZE);
        let _region = guest.share(&port.device);
        port.lend(&guest, 0..40);
        assert_eq!(port.receive.out().guest, 40);
        let mut guests = Vec::new();
        let mut own = HashSet::new();
        wait("frames", || {
            for frame in port.burst() {
                assert!((frame.len, frame.more) == (64, false));
                if frame.kind == Kind::Guest {
                    assert_eq!(frame.addr, guest.addr(frame.id) + u64::from(GUEST_START));
                    guests.push(frame.id);
                } else {
                    assert_eq!(port.own.number(frame.addr), Some(frame.id));
                    once(&mut own, frame.id);
                }
            }
            own.len() >= 32
        });
        assert_eq!(guests, (0..40).collect::<Vec<_>>());
        assert_eq!(port.receive.out().guest, 0);
        assert_eq!(port.receive.counts().frames, 40 + own.len() as u64);
    });
}

#[test]
fn without_buffers_a_device_has_none_and_says_so() {
    alone(|| {
        let dpdk = start();
        let mut port = Port::started(&dpdk, NULL);
        let reserve = port.receive.reserve();
        let mut own = HashSet::new();
        // The device asks for 32 at a time: the last ones are too few.
        wait("the end of the buffers", || {
            port.burst().iter().for_each(|frame| once(&mut own, frame.id));
            port.receive.counts().no_buffer > 0
        });
        assert!(own.len() <= reserve && own.len() + 32 > reserve, "{} of {reserve}", own.len());
        let given: Vec<u32> = own.drain().collect();
        port.lend_own(&given);
        wait("frames again", || !port.burst().is_empty());
    });
}

#[test]
fn buffers_that_the_device_does_not_have_are_taken_back() {
    alone(|| {
        let dpdk = start();
        let mut port = Port::started(&dpdk, NULL);
        let guest = Memory::new(64, GUEST_SIZE);
        let _region = guest.share(&port.device);
        port.lend(&guest, 0..40);
        assert_eq!(port.reclaimed(), (0..40).collect::<Vec<_>>());
        assert_eq!((port.receive.out().guest, port.receive.room(Kind::Guest)), (0, 1024));
        port.lend(&guest, 0..40);
    });
}

#[test]
fn a_loan_that_the_device_could_write_beyond_is_refused() {
    alone(|| {
        let dpdk = start();
        let mut port = Port::started(&dpdk, NULL);
        let guest = Memory::new(64, GUEST_SIZE);
        let strange = Memory::new(1, 4096);
        let good = Loan::new(guest.addr(0), GUEST_SIZE as u32, GUEST_START, 0);
        assert_eq!(port.receive.lend(Kind::Guest, &[good]), 0, "the device does not know the memory yet");
        let region = guest.share(&port.device);
        let wrong = [
            ("memory that it does not know", Loan::new(strange.addr(0), 2560, GUEST_START, 1)),
            ("nowhere", Loan::new(0, 2560, GUEST_START, 1)),
            ("the last address", Loan::new(u64::MAX, 2560, GUEST_START, 1)),
            ("over the end", Loan::new(guest.addr(63) + 1, 2560, GUEST_START, 1)),
            ("before the beginning", Loan::new(guest.addr(0) - 1, 2560, GUEST_START, 1)),
            ("too short", Loan::new(guest.addr(1), 2048 + 11, GUEST_START, 1)),
            ("no room for virtio's header", Loan::new(guest.addr(1), 2560, 11, 1)),
            ("it starts behind its end", Loan::new(guest.addr(1), 2560, 2561, 1)),
            ("it is far too long", Loan::new(guest.addr(1), u32::MAX, GUEST_START, 1)),
        ];
        for (why, loan) in wrong {
            assert_eq!(port.receive.lend(Kind::Guest, &[good, loan, good]), 1, "{why}");
            assert!(port.receive.refuses(Kind::Guest, &loan) && !port.receive.refuses(Kind::Guest, &good), "{why}");
            assert_eq!(port.reclaimed(), [0]);
        }
        drop(region);
        assert_eq!(port.receive.lend(Kind::Guest, &[good]), 0, "the memory is gone");
    });
}

#[test]
fn there_is_room_for_so_many_loans() {
    alone(|| {
        let dpdk = start();
        let mut port = Port::open(&dpdk, NULL, &CONFIG);
        let guest = Memory::new(2048, GUEST_SIZE);
        let _region = guest.share(&port.device);
        let room = port.receive.room(Kind::Guest);
        let all: Vec<_> = (0..2048).map(|id| Loan::new(guest.addr(id), GUEST_SIZE as u32, GUEST_START, id)).collect();
        assert_eq!(port.receive.lend(Kind::Guest, &all), room);
        assert_eq!(port.receive.room(Kind::Guest), 0);
        assert_eq!(port.reclaimed().len(), room);
    });
}

#[test]
fn memory_comes_and_goes_while_frames_flow() {
    alone(|| {
        let dpdk = start();
        let mut port = Port::started(&dpdk, NULL);
        let guests: Vec<Memory> = (0..8).map(|_| Memory::new(16, GUEST_SIZE)).collect();
        for round in 0..32 {
            let guest = &guests[round % 8];
            let region = guest.share(&port.device);
            port.lend(guest, 0..8);
            let mut seen = HashSet::new();
            wait("frames in new memory", || {
                for frame in port.burst() {
                    if frame.kind == Kind::Guest {
                        assert_eq!(guest.number(frame.addr), Some(frame.id));
                        once(&mut seen, frame.id);
                    } else {
                        port.lend_own(&[frame.id]);
                    }
                }
                seen.len() == 8
            });
            // Those of memory that is gone are not given to the device.
            port.lend(guest, 8..16);
            drop(region);
            for frame in port.burst() {
                assert_eq!(frame.kind, Kind::Own);
                port.lend_own(&[frame.id]);
            }
            assert_eq!(port.reclaimed(), (8..16).collect::<Vec<_>>());
        }
    });
}

#[test]
fn memory_is_unmapped_once_it_is_not_shared() {
    alone(|| {
        let dpdk = start();
        let port = Port::started(&dpdk, NULL);
        let other = Port::started(&dpdk, "net_null1");
        let guest = Memory::new(16, GUEST_SIZE);
        let is_gone = guest.is_gone();
        let regions = [guest.share(&port.device), guest.share(&other.device)];
        drop(guest);
        let [first, second] = regions;
        drop(first);
        assert!(!is_gone.load(Ordering::SeqCst));
        drop(second);
        assert!(is_gone.load(Ordering::SeqCst));
    });
}

#[test]
fn queues_of_a_device_have_loans_of_their_own() {
    alone(|| {
        let dpdk = start();
        let mut device = dpdk.probe(NULL).unwrap();
        let guest = Memory::new(64, GUEST_SIZE);
        let _region = guest.share(&device);
        let mut queues = device.open(&Config { queues: 2, rss: true, ..CONFIG }).unwrap();
        device.start().unwrap();
        for (number, (receive, _)) in (0..).zip(&mut queues) {
            let loans = [0, 1].map(|id| Loan::new(guest.addr(number * 2 + id), GUEST_SIZE as u32, GUEST_START, id));
            assert_eq!(receive.lend(Kind::Guest, &loans), 2);
        }
        for (receive, _) in &mut queues {
            let mut ids = Vec::new();
            receive.reclaim(Kind::Guest, &mut ids);
            assert_eq!(ids, [0, 1]);
        }
    });
}
