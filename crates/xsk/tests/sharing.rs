//! One memory for several queues, and halves on separate threads.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use common::{Memory, Netns, PacketSocket, copy_mode, frame, interface, redirect, wait_for};
use xsk::{Attach, Chunks, Descriptor, Error, Queue, QueueConfig};

#[test]
fn two_queues_with_one_memory() {
    Netns::with_queues(1500, 2).run(|| {
        let redirect = redirect("b", Attach::Native);
        let (from, to) = (Memory::new(&[1 << 16]), Memory::new(&[1 << 16]));
        let (umem_a, umem_b) = (from.umem(Chunks::unaligned(2048)), to.umem(Chunks::unaligned(2048)));
        let open = |umem, name| [0, 1].map(|queue| Queue::open(umem, &interface(name), queue, &copy_mode()).unwrap());
        let (mut senders, mut receivers) = (open(&umem_a, "a"), open(&umem_b, "b"));
        for (queue, receiver) in receivers.iter_mut().enumerate() {
            redirect.insert(&receiver.rx).unwrap();
            let address = 4096 + 20_000 * queue as u64;
            receiver.fill.push_from((0..8).map(|n| address + n * 2001));
        }
        for round in 0..8 {
            for queue in 0..2 {
                let sent = frame(100 + round, queue);
                let address = 5000 + 300 * queue as u64;
                from.write(address, &sent);
                senders[queue].tx.push(&[Descriptor::new(address, sent.len() as u32)]);
                senders[queue].tx.wake().unwrap();
                assert_eq!(wait_for("completion", || senders[queue].completion.burst(1).next()), address);
                let got = wait_for("frame", || receivers[queue].rx.burst(1).next());
                let filled = umem_b.filled_address(got.address);
                assert_eq!(filled, 4096 + 20_000 * queue as u64 + round as u64 * 2001, "the chunks of this queue");
                assert_eq!(to.read(umem_b.frame_address(got.address), got.len as usize), sent);
                assert_eq!(receivers[1 - queue].rx.waiting(), 0);
            }
        }
    });
}

#[test]
fn the_first_of_several_queues_may_go() {
    Netns::with_queues(1500, 2).run(|| {
        let memory = Memory::new(&[1 << 16]);
        let umem = memory.umem(Chunks::aligned(2048));
        let open = |name, queue| Queue::open(&umem, &interface(name), queue, &copy_mode()).unwrap();
        let first = open("a", 0);
        let second = open("a", 1);
        drop(first);
        let other = open("b", 0);
        drop(second);
        drop(other);
        // No socket is left to share with: the memory is registered again.
        let (_again, _and_again) = (open("a", 1), open("a", 0));
    });
}

#[test]
fn queues_that_share_must_agree() {
    Netns::with_queues(1500, 2).run(|| {
        let umem = Memory::new(&[1 << 16]).umem(Chunks::aligned(2048));
        let _first = Queue::open(&umem, &interface("a"), 0, &copy_mode()).unwrap();
        for config in [
            QueueConfig { mode: xsk::Mode::ZeroCopy, ..copy_mode() },
            QueueConfig { need_wakeup: false, ..copy_mode() },
            QueueConfig { multi_buffer: true, ..copy_mode() },
        ] {
            let error = Queue::open(&umem, &interface("a"), 1, &config).unwrap_err();
            assert!(matches!(error, Error::Config { .. }), "{error}");
        }
        let auto = QueueConfig { mode: xsk::Mode::Auto, ..copy_mode() };
        assert!(!Queue::open(&umem, &interface("a"), 1, &auto).unwrap().bound().zero_copy);
    });
}

#[test]
fn halves_work_and_end_on_four_threads() {
    let netns = Netns::with_veth(1500);
    netns.run(|| {
        let redirect = redirect("b", Attach::Native);
        let memory = Memory::new(&[64 * 2048]);
        let umem = memory.umem(Chunks::aligned(2048));
        let queue = Queue::open(&umem, &interface("b"), 0, &copy_mode()).unwrap();
        redirect.insert(&queue.rx).unwrap();
        let Queue { mut fill, mut rx, mut tx, mut completion } = queue;
        let kernel = PacketSocket::open("a");
        let (to_fill, chunks) = std::sync::mpsc::channel::<u64>();
        let (to_tx, frames) = std::sync::mpsc::channel::<Descriptor>();
        const COUNT: usize = 500;
        const CHUNKS: usize = 16;
        fill.push_from((0..CHUNKS as u64).map(|n| 4096 + n * 2048));
        let filled = &AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(move || {
                for chunk in chunks {
                    wait_for("room", || (fill.push(&[chunk]) == 1).then_some(()));
                    filled.fetch_add(1, Ordering::Relaxed);
                }
            });
            // Received frames are sent back from where they lie.
            scope.spawn(move || {
                for _ in 0..COUNT {
                    to_tx.send(wait_for("frame", || rx.burst(1).next())).unwrap();
                }
            });
            scope.spawn(move || {
                for descriptor in frames {
                    wait_for("room", || (tx.push(&[descriptor]) == 1).then_some(()));
                    wait_for("wake-up", || (tx.wake().unwrap() == xsk::Sending::Done).then_some(()));
                }
            });
            let umem = umem.clone();
            scope.spawn(move || {
                for _ in 0..COUNT {
                    let address = wait_for("completion", || completion.burst(1).next());
                    to_fill.send(umem.filled_address(address)).unwrap();
                }
            });
            for seed in 0..COUNT {
                // The kernel drops a frame for which there is no chunk, and the thread that brings them may be behind.
                wait_for("chunk", || (seed < filled.load(Ordering::Relaxed) + CHUNKS).then_some(()));
                kernel.send(&frame(60 + seed, seed));
                let back = wait_for("frame sent back", || kernel.receive().filter(|got| got.len() == 60 + seed));
                assert_eq!(back, frame(60 + seed, seed));
            }
        });
        // Each thread has dropped its half: the queue is free, and only this thread holds the memory.
        assert_eq!(Arc::strong_count(&umem), 1);
        Queue::open(&umem, &interface("b"), 0, &copy_mode()).unwrap();
        drop(umem);
        assert_eq!(Arc::strong_count(&memory), 1);
    });
}
