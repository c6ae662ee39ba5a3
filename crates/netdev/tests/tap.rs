//! Tap devices against packet sockets on the same interface.

mod common;

use std::io::IoSlice;

use common::{Netns, SIZES, frame, readable, tagged, udp_frame, wait_for};
use netdev::{Link, Links, PacketRx, PacketTx, RawSegment, RxConfig, Tap, TapQueue, TapWrite, TxConfig, Vlan};
use packet::offload::Offloads;

const MTU: usize = 9000;

/// Brings an interface up.
fn up(name: &str) -> Link {
    let links = Links::open().unwrap();
    links.bring_up(&links.get(name).unwrap()).unwrap()
}

/// Opens a tap device and brings it up.
fn open(template: &str, queues: usize) -> Vec<TapQueue> {
    let queues = Tap::open(template, queues, Offloads::NONE).unwrap();
    let links = Links::open().unwrap();
    let link = links.set_mtu(&up(queues[0].name()), MTU).unwrap();
    assert!(link.is_up && link.has_carrier);
    assert_eq!(link.mtu, MTU);
    queues
}

fn receiver(name: &str) -> PacketRx {
    PacketRx::open(&Link::named(name).unwrap(), 1, &RxConfig::default()).unwrap().remove(0)
}

#[test]
fn frames_to_the_host() {
    Netns::new().run(|| {
        let tap = open("tap%d", 1).remove(0);
        assert_eq!(tap.name(), "tap0");
        let mut rx = receiver(tap.name());
        for (seed, size) in SIZES.into_iter().enumerate() {
            let sent = frame(size, seed);
            let (head, tail) = sent.split_at(size / 3);
            let written = if seed % 2 == 0 {
                tap.write_vectored(&[IoSlice::new(head), IoSlice::new(tail)])
            } else {
                // SAFETY: the segments are slices that live until the call returns.
                unsafe { tap.write_raw(&[RawSegment::from(head), RawSegment::from(tail)]) }
            };
            assert_eq!(written.unwrap(), TapWrite::Sent);
            let received = wait_for("frame", || rx.next_frame());
            assert_eq!(received.bytes(), sent);
            assert_eq!(received.vlan(), None);
            rx.release();
        }
    });
}

#[test]
fn frames_from_the_host() {
    Netns::new().run(|| {
        let tap = open("from%d", 1).remove(0);
        let tx = PacketTx::open(&Link::named(tap.name()).unwrap(), &TxConfig::default()).unwrap();
        let mut buffer = vec![0; MTU + 18];
        assert_eq!(tap.read(&mut buffer).unwrap(), None);
        for (seed, size) in SIZES.into_iter().enumerate() {
            for sent in [frame(size, seed), tagged(&frame(size, seed), 0x8100, 0x2005)] {
                tx.push(&[&sent]).unwrap();
                assert_eq!(tx.flush().unwrap().sent, 1);
                assert!(readable(&tap, 60_000));
                let length = wait_for("frame", || tap.read(&mut buffer).unwrap());
                assert_eq!(buffer[..length], sent);
            }
        }
        assert_eq!(tap.read(&mut buffer).unwrap(), None);
    });
}

#[test]
fn tagged_frames_to_the_host() {
    Netns::new().run(|| {
        let tap = open("vlan", 1).remove(0);
        let mut rx = receiver(tap.name());
        for vlan in [Vlan { tpid: 0x8100, tci: 0x2005 }, Vlan { tpid: 0x88a8, tci: 0 }] {
            let plain = frame(9014, 1);
            let sent = tagged(&plain, vlan.tpid, vlan.tci);
            assert_eq!(tap.write_vectored(&[IoSlice::new(&sent)]).unwrap(), TapWrite::Sent);
            let received = wait_for("frame", || rx.next_frame());
            assert_eq!(received.vlan(), Some(vlan));
            assert_eq!(received.bytes(), plain);
            assert_eq!([&received.bytes()[..12], &vlan.to_bytes(), &received.bytes()[12..]].concat(), sent);
            rx.release();
        }
    });
}

#[test]
fn errors_of_writing_name_their_cause() {
    Netns::new().run(|| {
        let tap = Tap::open("down", 1, Offloads::NONE).unwrap().remove(0);
        let good = frame(60, 0);
        assert_eq!(tap.write_vectored(&[IoSlice::new(&good)]).unwrap(), TapWrite::Down);
        up("down");
        assert_eq!(tap.write_vectored(&[IoSlice::new(&good)]).unwrap(), TapWrite::Sent);
        assert_eq!(tap.write_vectored(&[IoSlice::new(&good[..13])]).unwrap(), TapWrite::Malformed);
        let nowhere = RawSegment::new(std::ptr::null(), 60);
        // SAFETY: nothing is mapped at the zero page; the kernel finds no memory there.
        assert_eq!(unsafe { tap.write_raw(&[nowhere]) }.unwrap(), TapWrite::Fault);
    });
}

#[test]
fn several_queues_share_one_device() {
    Netns::new().run(|| {
        let queues = open("mq%d", 4);
        assert!(queues.iter().all(|queue| queue.name() == "mq0"));
        let mut rx = receiver("mq0");
        for (seed, queue) in queues.iter().enumerate() {
            assert_eq!(queue.write_vectored(&[IoSlice::new(&frame(100, seed))]).unwrap(), TapWrite::Sent);
        }
        for seed in 0..queues.len() {
            assert_eq!(wait_for("frame", || rx.next_frame()).bytes(), frame(100, seed));
        }
        rx.release();

        // Every frame from the host comes out of one queue, and the flows spread.
        let tx = PacketTx::open(&Link::named("mq0").unwrap(), &TxConfig::default()).unwrap();
        let flows = 64;
        for port in 0..flows {
            tx.push(&[&udp_frame(port)]).unwrap();
        }
        assert_eq!(tx.flush().unwrap().sent, usize::from(flows));
        let (mut seen, mut used) = (Vec::new(), [false; 4]);
        wait_for("all frames", || {
            for (queue, used) in queues.iter().zip(&mut used) {
                let mut buffer = [0; 2048];
                while let Some(length) = queue.read(&mut buffer).unwrap() {
                    seen.push(buffer[..length].to_vec());
                    *used = true;
                }
            }
            (seen.len() >= usize::from(flows)).then_some(())
        });
        seen.sort();
        assert_eq!(seen, (0..flows).map(udp_frame).collect::<Vec<_>>());
        assert!(used.iter().filter(|used| **used).count() > 1, "all flows in one queue");
    });
}

#[test]
fn errors_of_opening_name_their_cause() {
    Netns::new().run(|| {
        assert!(Tap::open("no/slash", 1, Offloads::NONE).unwrap_err().to_string().contains("no/slash"));
        assert!(Tap::open("many", 257, Offloads::NONE).unwrap_err().to_string().contains("1 to 256"));
        assert!(Tap::open("none", 0, Offloads::NONE).is_err());
        let _single = Tap::open("single", 1, Offloads::NONE).unwrap();
        assert!(Tap::open("single", 1, Offloads::NONE).unwrap_err().to_string().contains("another user of the name"));
        assert!(Tap::open("lo", 1, Offloads::NONE).is_err());
    });
}

#[test]
fn a_device_that_is_renamed_or_moved_is_still_the_same() {
    let (here, there) = (Netns::new(), Netns::new());
    here.run(|| {
        let tap = open("first", 1).remove(0);
        let links = Links::open().unwrap();
        let first = tap.look(&links, &links.get("first").unwrap()).unwrap();
        assert!(first.name == "first" && first.is_up && first.mtu == MTU && !first.is_elsewhere);
        here.ip("link set first name second");
        let second = tap.look(&links, &first).unwrap();
        assert_eq!((second.name.as_str(), second.index, second.is_up), ("second", first.index, true));

        here.ip(&format!("link set second netns {}", there.name()));
        // Another one of its name is not it.
        let _other = open("second", 1);
        let moved = tap.look(&links, &second).unwrap();
        assert!(moved.is_elsewhere && moved.name == "second" && !moved.is_up, "{moved:?}");
        there.ip("link set second name third up");
        let third = tap.look(&links, &moved).unwrap();
        assert!(third.is_elsewhere && third.name == "third" && third.is_up, "{third:?}");
        let sent = frame(100, 1);
        let mut rx = there.run(|| receiver("third"));
        assert_eq!(tap.write_vectored(&[IoSlice::new(&sent)]).unwrap(), TapWrite::Sent);
        assert_eq!(wait_for("the frame", || rx.next_frame()).bytes(), sent);
        rx.release();

        there.ip(&format!("link set third netns {}", here.name()));
        let back = tap.look(&links, &third).unwrap();
        assert!(!back.is_elsewhere && back.name == "third" && back.mtu == MTU, "{back:?}");
        here.ip("link delete third");
        assert!(matches!(tap.look(&links, &back), Err(netdev::Error::Missing { .. })));
    });
}
