//! Placement of frames in the memory, with all other bytes unchanged.

mod common;

use common::{Memory, Netns, PacketSocket, Station, copy_mode, frame, interface, redirect, wait_for};
use xsk::{Attach, Attached, Chunks, Queue, QueueConfig, Redirect, RedirectConfig};

/// Bytes of `virtio_net_hdr_v1`, at the start of a guest's buffer.
const HEADER: u64 = 12;

#[test]
fn frames_land_in_odd_buffers_and_nowhere_else() {
    for attach in [Attach::Native, Attach::Generic] {
        Netns::with_veth(1500).run(|| {
            let redirect = redirect("b", attach);
            let mut b = Station::open("b", 0, Chunks::unaligned(2048), 1 << 20, &copy_mode());
            redirect.insert(&b.queue.rx).unwrap();
            let kernel = PacketSocket::open("a");
            // The very first byte, odd ones, over the edges of pages, and the last one whose chunk still fits.
            let first = b.memory.region(0);
            let last = first + (1 << 20) - 2048 + 256 - HEADER;
            let buffers = [first, first + 1, first + 4095, first + 70_001, first + 8192 - 20, last + 4096];
            for (seed, &buffer) in buffers.iter().enumerate() {
                let sent = frame(60 + seed * 290, seed);
                let address = b.umem.fill_address(buffer + HEADER).unwrap();
                assert!(b.umem.accepts(address, false));
                let mut expected = b.memory.read(0, b.memory.len());
                expected[(buffer + HEADER) as usize..][..sent.len()].copy_from_slice(&sent);
                assert_eq!(b.queue.fill.push(&[address]), 1);
                kernel.send(&sent);
                let (descriptor, _) = b.receive();
                assert_eq!(descriptor.len as usize, sent.len());
                assert_eq!(b.umem.frame_address(descriptor.address), buffer + HEADER);
                assert_eq!(b.umem.filled_address(descriptor.address), address);
                assert!(b.memory.read(0, b.memory.len()) == expected, "something else changed at {buffer}");
            }
            assert!(!b.umem.accepts(b.umem.fill_address(last + Memory::guard() as u64 + 1 + HEADER).unwrap(), false));
        });
    }
}

#[test]
fn headroom_limits_frames() {
    Netns::with_veth(1600).run(|| {
        let redirect = redirect("b", Attach::Native);
        // A Linux guest's buffer.
        let limit = 1536 - HEADER as u32;
        let mut b = Station::open("b", 0, Chunks::limited(2048, limit).unwrap(), 1 << 16, &copy_mode());
        redirect.insert(&b.queue.rx).unwrap();
        let kernel = PacketSocket::open("a");
        // Buffers back to back, up to the last bytes of the memory.
        let buffers = [b.memory.region(0), b.memory.region(0) + 1536, b.memory.region(1) - 1536];
        b.queue.fill.push_from(buffers.iter().map(|buffer| b.umem.fill_address(buffer + HEADER).unwrap()));
        let before = b.memory.read(0, b.memory.len());
        let mut expected = before.clone();
        for (seed, buffer) in buffers.into_iter().enumerate() {
            kernel.send(&frame(limit as usize + 1 + seed, seed));
            wait_for("dropped frame", || (b.statistics().rx_dropped == seed as u64 + 1).then_some(()));
            assert!(b.memory.read(0, b.memory.len()) == expected, "a dropped frame was written");
            let sent = frame(limit as usize, seed);
            kernel.send(&sent);
            // The dropped frame took no buffer.
            let (descriptor, _) = b.receive();
            assert_eq!(b.umem.frame_address(descriptor.address), buffer + HEADER);
            expected[(buffer + HEADER) as usize..][..sent.len()].copy_from_slice(&sent);
            assert!(b.memory.read(0, b.memory.len()) == expected, "a buffer was overrun");
        }
    });
}

#[test]
fn regions_from_several_files() {
    Netns::with_veth(1600).run(|| {
        let memory = Memory::new(&[2, 1, 4].map(|pages| pages * Memory::guard()));
        let umem = memory.umem(Chunks::limited(4096, 1524).unwrap());
        let redirect = redirect("b", Attach::Native);
        let mut queue = Queue::open(&umem, &interface("b"), 0, &copy_mode()).unwrap();
        redirect.insert(&queue.rx).unwrap();
        let kernel = PacketSocket::open("a");
        for seed in 0..3 {
            // The first and the last buffer of the region; their chunks reach into the region before, or the guard.
            let ends = [memory.region(seed), memory.region(seed + 1) - 1536];
            for buffer in ends {
                let sent = frame(1524, seed);
                let address = umem.fill_address(buffer + HEADER).unwrap();
                assert!(umem.accepts(address, false));
                let mut expected = memory.read(0, memory.len());
                expected[(buffer + HEADER) as usize..][..1524].copy_from_slice(&sent);
                queue.fill.push(&[address]);
                kernel.send(&sent);
                wait_for("frame", || queue.rx.burst(1).next());
                assert!(memory.read(0, memory.len()) == expected, "region {seed}");
                // It can also be sent from there.
                assert!(umem.sends(buffer + HEADER, 1524, false));
            }
        }
    });
}

#[test]
fn odd_addresses_are_sent_from() {
    Netns::with_veth(1500).run(|| {
        let mut a = Station::open("a", 0, Chunks::unaligned(2048), 1 << 16, &copy_mode());
        let kernel = PacketSocket::open("b");
        for (seed, address) in [4096, 4097, 8191, 12_288 - 700, 4096 + 65_536 - 1514].into_iter().enumerate() {
            assert!(a.umem.sends(address, 1514, false));
            a.send_from(address, &frame(1514, seed));
            assert_eq!(wait_for("frame", || kernel.receive()), frame(1514, seed));
        }
    });
}

#[test]
fn jumbo_frames_come_in_parts() {
    for attach in [Attach::Native, Attach::Generic] {
        Netns::with_veth(9000).run(|| {
            let config = RedirectConfig { attach, multi_buffer: true, ..RedirectConfig::default() };
            let redirect = Redirect::attach(&interface("b"), &config).unwrap();
            let config = QueueConfig { multi_buffer: true, ..copy_mode() };
            let mut b = Station::open("b", 0, Chunks::aligned(4096), 32 * 4096, &config);
            let mut a = Station::open("a", 0, Chunks::aligned(4096), 32 * 4096, &config);
            assert!(a.queue.bound().multi_buffer && b.queue.bound().multi_buffer);
            redirect.insert(&b.queue.rx).unwrap();
            b.fill_pool(32);
            for (seed, size) in [60, 3840, 3841, 7680, 7681, 9014].into_iter().enumerate() {
                let sent = frame(size, seed);
                let count = size.div_ceil(4096);
                let parts = sent.chunks(4096).enumerate().map(|(n, part)| {
                    let address = (4096 + n * 4096) as u64;
                    a.memory.write(address, part);
                    let descriptor = xsk::Descriptor::new(address, part.len() as u32);
                    if n + 1 < count { descriptor.continued() } else { descriptor }
                });
                assert_eq!(a.queue.tx.push_from(parts), count);
                a.flush();
                wait_for("completions", || (a.queue.completion.burst(9).count() == count).then_some(()));

                let limit = b.umem.chunks().frame_limit(false) as usize;
                let mut received = Vec::new();
                for part in 0..size.div_ceil(limit) {
                    let (descriptor, bytes) = b.receive();
                    assert_eq!(descriptor.more(), part + 1 < size.div_ceil(limit));
                    received.extend(bytes);
                    b.queue.fill.push(&[b.umem.filled_address(descriptor.address)]);
                }
                assert!(received == sent, "{attach:?} {size}");
            }
        });
    }
}

#[test]
fn a_jumbo_interface_falls_back_to_the_kernel_without_parts() {
    Netns::beyond_a_page().run(|| {
        let redirect = Redirect::attach(&interface("b"), &RedirectConfig::default()).unwrap();
        assert_eq!(redirect.attached(), Attached::Generic);
        assert!(redirect.native_refused().is_some());
    });
}
