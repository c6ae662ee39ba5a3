//! Network namespaces, memory, frames and sockets for the tests.
#![allow(dead_code, unused_imports, reason = "each test file uses its share")]

mod memory;
mod netns;
mod packet;
mod tagger;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

pub use memory::Memory;
pub use netns::Netns;
pub use packet::PacketSocket;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
pub use tagger::Tagger;
use xsk::{
    Attach, Attached, Chunks, Descriptor, Interface, Mode, Queue, QueueConfig, Redirect, RedirectConfig, Steering, Umem,
};

/// Destination of a test's frames by default.
pub const TO: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Returns a frame of `length` bytes with an experimental EtherType and a payload that depends on `seed`.
pub fn frame(length: usize, seed: usize) -> Vec<u8> {
    let mut frame = TO.to_vec();
    frame.extend([2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    frame.extend((frame.len()..length).map(|at| (at.wrapping_mul(31) ^ seed.wrapping_mul(57)) as u8));
    frame
}

/// Returns the frame with another destination.
pub fn frame_to(to: [u8; 6], length: usize) -> Vec<u8> {
    [&to, &frame(length, 0)[6..]].concat()
}

/// Repeats `attempt` until it returns a value.
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

/// Returns a copy-mode configuration with small rings. A busy kernel takes seconds to release the queue of a closed socket.
pub fn copy_mode() -> QueueConfig {
    let busy_wait = Duration::from_secs(60);
    QueueConfig { mode: Mode::Copy, fill: 64, rx: 64, tx: 64, completion: 64, busy_wait, ..QueueConfig::default() }
}

/// Returns the interface of this name. A missing one gets an unused index; the number of queues is the largest of any
/// test.
pub fn interface(name: &str) -> Interface {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap();
    let index = netdevice::name_to_index(&socket, name).unwrap_or(i32::MAX.cast_unsigned());
    Interface { name: name.to_owned(), index, queues: 3 }
}

/// Attaches a redirect of all frames, which must be attached as requested.
pub fn redirect(interface: &str, attach: Attach) -> Redirect {
    let redirect =
        Redirect::attach(&self::interface(interface), &RedirectConfig { attach, ..RedirectConfig::default() }).unwrap();
    match attach {
        Attach::Auto | Attach::Native => assert_eq!(redirect.attached(), Attached::Native),
        Attach::Generic => assert_eq!(redirect.attached(), Attached::Generic),
    }
    redirect
}

/// A queue with its own memory.
pub struct Station {
    // Dropped before the redirect, and the memory last, as in a program.
    pub queue: Queue,
    pub umem: Arc<Umem>,
    pub memory: Arc<Memory>,
}

impl Station {
    /// Opens a queue of an interface with `bytes` bytes of memory between guard pages.
    pub fn open(interface: &str, queue: u32, chunks: Chunks, bytes: usize, config: &QueueConfig) -> Self {
        let memory = Memory::new(&[bytes]);
        let umem = memory.umem(chunks);
        let queue = Queue::open(&umem, &self::interface(interface), queue, config).unwrap();
        assert_eq!(queue.bound().zero_copy, config.mode == Mode::ZeroCopy);
        Self { queue, umem, memory }
    }

    /// Opens a station in copy mode with a pool of 64 aligned chunks.
    pub fn pool(interface: &str, queue: u32) -> Self {
        Self::open(interface, queue, Chunks::aligned(2048), 64 * 2048, &copy_mode())
    }

    /// Fills this many aligned chunks, starting with the first one after the guard.
    pub fn fill_pool(&mut self, count: u64) {
        let size = u64::from(self.umem.chunks().size);
        let first = (Memory::guard() as u64).next_multiple_of(size);
        assert_eq!(self.queue.fill.push_from((0..count).map(|n| first + n * size)), count as usize);
    }

    /// Sends the frame from `address`, and waits until it is sent.
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

    /// Returns the bytes of a received descriptor.
    pub fn bytes(&self, descriptor: Descriptor) -> Vec<u8> {
        let start = self.umem.frame_address(descriptor.address);
        self.memory.read(start, descriptor.len as usize)
    }

    /// Returns the kernel's counters.
    pub fn statistics(&self) -> xsk::Statistics {
        self.queue.monitor().statistics().unwrap().unwrap()
    }
}

/// Opens a receiving queue, with the redirect to it.
pub fn receiver(interface: &str, attach: Attach) -> (Station, Redirect) {
    let redirect = redirect(interface, attach);
    let station = Station::pool(interface, 0);
    redirect.insert(&station.queue.rx).unwrap();
    (station, redirect)
}

/// Returns the steering for these addresses.
pub fn steering(macs: &[[u8; 6]], groups: xsk::Groups) -> Steering {
    Steering::Destinations { macs: macs.to_vec(), groups }
}
