//! Frames over a veth pair, from memory to memory.

mod common;

use common::{Memory, Netns, PacketSocket, Station, copy_mode, frame, receiver, wait_for};
use xsk::{Attach, Chunks, Descriptor, QueueConfig};

const SIZES: [usize; 9] = [14, 60, 61, 64, 127, 128, 1499, 1513, 1514];

#[test]
fn both_directions_native_and_generic() {
    for attach in [Attach::Native, Attach::Generic] {
        Netns::with_veth(1500).run(|| {
            let (mut a, _at_a) = receiver("a", attach);
            let (mut b, _at_b) = receiver("b", attach);
            // A station's first chunks receive, and one after them sends.
            let out = Memory::guard() as u64 + 40 * 2048;
            a.fill_pool(32);
            b.fill_pool(32);
            for (seed, size) in SIZES.into_iter().enumerate() {
                let sent = frame(size, seed);
                let (mut from, mut to) = (&mut a, &mut b);
                for _ in 0..2 {
                    from.send_from(out, &sent);
                    let (descriptor, received) = to.receive();
                    assert_eq!((received, descriptor.more()), (sent.clone(), false), "{attach:?}");
                    std::mem::swap(&mut from, &mut to);
                }
            }
            for station in [&a, &b] {
                assert_eq!(station.statistics().rx_dropped, 0);
                assert_eq!(station.statistics().tx_invalid, 0);
            }
        });
    }
}

#[test]
fn rings_wrap_in_order() {
    Netns::with_veth(1500).run(|| {
        let config = QueueConfig { fill: 8, rx: 4, tx: 16, completion: 16, ..copy_mode() };
        let redirect = common::redirect("b", Attach::Native);
        let mut a = Station::open("a", 0, Chunks::aligned(2048), 16 * 2048, &config);
        let mut b = Station::open("b", 0, Chunks::aligned(2048), 8 * 2048, &config);
        redirect.insert(&b.queue.rx).unwrap();
        b.fill_pool(8);
        assert_eq!(b.queue.fill.room(), 0);
        let mut received = 0;
        for round in 0..1000 {
            // At most as many as the receive ring holds.
            let frames: Vec<_> = (0..1 + round % 4).map(|n| frame(60 + (round * 7 + n) % 1400, round + n)).collect();
            let descriptors = frames.iter().enumerate().map(|(n, frame)| {
                let address = (Memory::guard() + n * 2048 + round % 100) as u64;
                a.memory.write(address, frame);
                Descriptor::new(address, frame.len() as u32)
            });
            assert_eq!(a.queue.tx.push_from(descriptors), frames.len());
            a.flush();
            for frame in &frames {
                let (descriptor, bytes) = b.receive();
                assert_eq!(&bytes, frame);
                // Copy mode takes chunks in the order of the fill ring.
                let chunk = b.umem.filled_address(descriptor.address);
                assert_eq!(chunk, (Memory::guard() + received % 8 * 2048) as u64);
                received += 1;
                assert_eq!(b.queue.fill.push(&[chunk]), 1);
            }
            let mut done = [0; 16];
            wait_for("completions", || (a.queue.completion.waiting() as usize == frames.len()).then_some(()));
            assert_eq!(a.queue.completion.pop(&mut done), frames.len());
            let chunks = done.map(|address| a.umem.filled_address(address));
            for (n, &chunk) in chunks[..frames.len()].iter().enumerate() {
                assert_eq!(chunk, (Memory::guard() + n * 2048) as u64);
            }
        }
        assert_eq!(b.statistics(), Default::default());
    });
}

#[test]
fn one_wake_up_sends_a_budget() {
    Netns::with_veth(1500).run(|| {
        let config = QueueConfig { tx: 256, completion: 256, tx_budget: 100, ..copy_mode() };
        let mut a = Station::open("a", 0, Chunks::unaligned(2048), 8192, &config);
        let budget = a.queue.bound().tx_budget;
        assert!(budget == 100 || budget == QueueConfig::LEAST_BUDGET);
        // All from the same bytes, which is allowed.
        let address = Memory::guard() as u64 + 1;
        a.memory.write(address, &frame(60, 0));
        a.queue.tx.push(&[Descriptor::new(address, 60); 150]);
        assert_eq!(a.queue.tx.wake().unwrap(), xsk::Sending::More);
        wait_for("completions of a budget", || (a.queue.completion.waiting() == budget).then_some(()));
        // Linux before 6.17 tells what it has taken from the ring only when it comes for more.
        let taken = a.queue.tx.room() - (256 - 150);
        assert!(taken == budget || taken == 0, "{taken} are taken");
        a.flush();
        wait_for("completions", || (a.queue.completion.waiting() == 150).then_some(()));
        assert!(a.queue.completion.burst(200).all(|done| done == address));
    });
}

#[test]
fn waiting_ends_with_a_frame() {
    Netns::with_veth(1500).run(|| {
        let (mut b, _redirect) = receiver("b", Attach::Native);
        b.fill_pool(4);
        let timeout = std::time::Duration::from_millis(10);
        assert!(!b.queue.rx.wait(timeout).unwrap());
        PacketSocket::open("a").send(&frame(60, 1));
        assert!(b.queue.rx.wait(timeout * 6000).unwrap());
        assert_eq!(b.receive().1, frame(60, 1));
        b.queue.fill.wake().unwrap();
    });
}

#[test]
fn interfaces_go_down_and_away() {
    let netns = Netns::with_veth(1500);
    netns.run(|| {
        let (mut a, redirect) = receiver("a", Attach::Native);
        a.fill_pool(4);
        let address = Memory::guard() as u64 + 8 * 2048;
        let send = |a: &mut Station| {
            a.queue.tx.push(&[Descriptor::new(address, 60)]);
            a.queue.tx.wake().map_err(|error| error.raw_os_error())
        };
        netns.ip("link set dev a down");
        assert_eq!(send(&mut a), Err(Some(libc::ENETDOWN)));
        netns.ip("link set dev a up");
        wait_for("sending again", || (send(&mut a) == Ok(xsk::Sending::Done)).then_some(()));
        netns.ip("link del dev a");
        assert!(send(&mut a).is_err());
        assert_eq!(a.queue.rx.burst(9).len(), 0);
        assert!(a.queue.monitor().statistics().unwrap().is_ok());
        // Another interface of the same name is a different interface.
        netns.ip("link add name a type veth peer name b");
        netns.ip("link set dev a up");
        let again = Station::pool("a", 0);
        assert_ne!(again.queue.bound().index, a.queue.bound().index);
        redirect.insert(&again.queue.rx).unwrap_err();
        drop(redirect);
        drop(receiver("b", Attach::Native));
    });
}

#[test]
fn drops_are_counted_by_reason() {
    Netns::with_veth(1500).run(|| {
        let config = QueueConfig { rx: 2, ..copy_mode() };
        let redirect = common::redirect("b", Attach::Native);
        let mut b = Station::open("b", 0, Chunks::limited(2048, 1000).unwrap(), 16 * 2048, &config);
        redirect.insert(&b.queue.rx).unwrap();
        let kernel = PacketSocket::open("a");
        let counted = |b: &Station, what: &str, count: fn(&xsk::Statistics) -> u64| {
            wait_for(what, || (count(&b.statistics()) == 3).then_some(()));
        };
        for n in 0..3 {
            kernel.send(&frame(60, n));
        }
        counted(&b, "empty fill ring", |s| s.fill_ring_empty);
        b.queue.fill.push_from((0..8).map(|n| b.umem.fill_address(8192 + n * 1000).unwrap()));
        for n in 0..5 {
            kernel.send(&frame(60, n));
        }
        counted(&b, "full receive ring", |s| s.rx_ring_full);
        assert_eq!(b.queue.rx.burst(9).len(), 2);
        for _ in b.queue.rx.burst(9) {}
        for n in 0..3 {
            kernel.send(&frame(1001, n));
        }
        // Frames that found the fill ring empty are also counted here.
        counted(&b, "frames that are too long", |s| s.rx_dropped - s.fill_ring_empty);
        // An empty frame.
        b.queue.tx.push(&[Descriptor::new(0, 0); 3]);
        wait_for("end of sending", || {
            b.queue.tx.wake().unwrap();
            (b.queue.tx.room() == 64).then_some(())
        });
        counted(&b, "invalid descriptors", |s| s.tx_invalid);
        let monitor = b.queue.monitor();
        drop(b);
        assert!(monitor.statistics().is_none());
    });
}
