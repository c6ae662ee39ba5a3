//! Releasing a queue leaves nothing behind. In a separate file, as it counts resources of the whole process.

mod common;

use std::fs;

use common::{Memory, Netns, PacketSocket, copy_mode, frame, interface, redirect, wait_for};
use xsk::{Attach, Chunks, Queue};

/// Returns the number of open files, and of mappings of sockets' rings or of the test's memory.
fn held() -> (usize, usize) {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mappings = maps.lines().filter(|line| line.contains("socket:") || line.contains("memfd:")).count();
    (fs::read_dir("/proc/self/fd").unwrap().count(), mappings)
}

#[test]
fn opened_a_hundred_times() {
    Netns::with_veth(1500).run(|| {
        let redirect = redirect("b", Attach::Native);
        let kernel = PacketSocket::open("a");
        let before = held();
        for round in 0..100 {
            let memory = Memory::new(&[32 * 2048]);
            let umem = memory.umem(Chunks::aligned(2048));
            let mut queue = Queue::open(&umem, &interface("b"), 0, &copy_mode()).unwrap();
            redirect.insert(&queue.rx).unwrap();
            queue.fill.push(&[4096]);
            kernel.send(&frame(60, round));
            let received = wait_for("frame", || queue.rx.burst(1).next());
            assert_eq!(memory.read(received.address, 60), frame(60, round));
            assert_eq!(held(), (before.0 + 1, before.1 + 5), "a socket, four rings and the memory");
            // Each half in turn is the last one to be dropped.
            let Queue { fill, rx, tx, completion } = queue;
            let mut halves: [Box<dyn Send>; 4] = [Box::new(fill), Box::new(rx), Box::new(tx), Box::new(completion)];
            halves.rotate_left(round % 4);
            drop((umem, memory));
            drop(halves);
            assert_eq!(held(), before, "round {round}");
        }
    });
}
