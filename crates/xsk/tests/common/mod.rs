//! Network namespaces, memory, frames and sockets for the tests.
#![allow(dead_code, unused_imports, reason = "each test file uses its share")]

mod memory;
mod netns;
mod packet;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

pub use memory::Memory;
pub use netns::Netns;
pub use packet::PacketSocket;
use xsk::{Attach, Attached, Chunks, Descriptor, Mode, Queue, QueueConfig, Redirect, RedirectConfig, Steering, Umem};

/// Who a test's frames are for, unless it says otherwise.
pub const TO: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// A frame of `length` bytes of an experimental EtherType, with a payload that depends on `seed`.
pub fn frame(length: usize, seed: usize) -> Vec<u8> {
    let mut frame = TO.to_vec();
    frame.extend([2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    frame.extend((frame.len()..length).map(|at| (at.wrapping_mul(31) ^ seed.wrapping_mul(57)) as u8));
    frame
}

/// The frame, for somebody else.
pub fn frame_to(to: [u8; 6], length: usize) -> Vec<u8> {
    [&to, &frame(length, 0)[6..]].concat()
}

/// Repeats `attempt` until it has a value.
pub fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < deadline, "no {what} within a minute");
        thread::sleep(Duration::from_micros(200));
    }
}

/// Copy mode, with small rings.
pub fn copy_mode() -> QueueConfig {
    QueueConfig { mode: Mode::Copy, fill: 64, rx: 64, tx: 64, completion: 64, ..QueueConfig::default() }
}

/// A redirect of all frames, which must come out as asked for.
pub fn redirect(interface: &str, attach: Attach) -> Redirect {
    let redirect = Redirect::attach(interface, &RedirectConfig { attach, ..RedirectConfig::default() }).unwrap();
    match attach {
        Attach::Auto | Attach::Native => assert_eq!(redirect.attached(), Attached::Native),
        Attach::Generic => assert_eq!(redirect.attached(), Attached::Generic),
    }
    redirect
}

/// A queue with memory of its own.
pub struct Station {
    // Before the redirect, and the memory last: as a program would do it.
    pub queue: Queue,
    pub umem: Arc<Umem>,
    pub memory: Arc<Memory>,
}

impl Station {
    /// Memory of `bytes` bytes between guard pages, on a queue of an interface.
    pub fn open(interface: &str, queue: u32, chunks: Chunks, bytes: usize, config: &QueueConfig) -> Self {
        let memory = Memory::new(&[bytes]);
        let umem = memory.umem(chunks);
        let queue = Queue::open(&umem, interface, queue, config).unwrap();
        assert_eq!(queue.bound().zero_copy, config.mode == Mode::ZeroCopy);
        Self { queue, umem, memory }
    }

    /// A station in copy mode with a pool of 64 aligned chunks.
    pub fn pool(interface: &str, queue: u32) -> Self {
        Self::open(interface, queue, Chunks::aligned(2048), 64 * 2048, &copy_mode())
    }

    /// Fills this many aligned chunks, from the first one after the guard on.
    pub fn fill_pool(&mut self, count: u64) {
        let size = u64::from(self.umem.chunks().size);
        let first = (Memory::GUARD as u64).next_multiple_of(size);
        assert_eq!(self.queue.fill.push_from((0..count).map(|n| first + n * size)), count as usize);
    }

    /// Sends the bytes from where they are put, and waits until they are sent.
    pub fn send_from(&mut self, address: u64, frame: &[u8]) {
        self.memory.write(address, frame);
        assert_eq!(self.queue.tx.push(&[Descriptor::new(address, frame.len() as u32)]), 1);
        self.flush();
        assert_eq!(wait_for("completion", || self.queue.completion.burst(1).next()), address);
    }

    /// Wakes the kernel until it has sent everything.
    pub fn flush(&mut self) {
        let size = self.queue.tx.room();
        assert!(self.queue.tx.needs_wakeup(), "copy mode always does");
        wait_for("end of sending", || {
            (self.queue.tx.wake().unwrap() == xsk::Sending::Done && self.queue.tx.room() >= size).then_some(())
        });
    }

    /// Waits for a frame and returns its descriptor and bytes.
    pub fn receive(&mut self) -> (Descriptor, Vec<u8>) {
        let descriptor = wait_for("frame", || self.queue.rx.burst(1).next());
        (descriptor, self.bytes(descriptor))
    }

    /// The bytes of a received descriptor.
    pub fn bytes(&self, descriptor: Descriptor) -> Vec<u8> {
        let start = self.umem.frame_address(descriptor.address);
        self.memory.read(start, descriptor.len as usize)
    }

    /// What the kernel has counted.
    pub fn statistics(&self) -> xsk::Statistics {
        self.queue.monitor().statistics().unwrap().unwrap()
    }
}

/// A queue that receives, with the redirect to it.
pub fn receiver(interface: &str, attach: Attach) -> (Station, Redirect) {
    let redirect = redirect(interface, attach);
    let station = Station::pool(interface, 0);
    redirect.insert(&station.queue.rx).unwrap();
    (station, redirect)
}

/// A redirect of frames to these addresses.
pub fn steering(macs: &[[u8; 6]], groups: xsk::Groups) -> Steering {
    Steering::Destinations { macs: macs.to_vec(), groups }
}
