//! A guest that sends and receives single frames.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use vhost_user::frontend::{FrontendError, FrontendOptions, Link, QueueEnd};
use vhost_user::{Event, Mode};
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::{Arena, MemoryError};
use virtqueue::ordering::before_asking;
use virtqueue::{Fatal, NET_HEADER, features};

/// Size of a queue; a frame needs one descriptor.
const QUEUE: u16 = 64;
/// Size of a buffer.
const ROOM: u32 = 2048;
/// Bytes of a buffer that a frame takes: the header, and 64 bytes of Ethernet.
const FRAME: usize = NET_HEADER as usize + 64;
/// Offset of the frame's number, behind the Ethernet header.
const NUMBER: usize = NET_HEADER as usize + 16;
/// Time limit for connecting, and for one frame.
const LIMIT: Duration = Duration::from_secs(5);

/// Error of a guest.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum GuestError {
    #[error("no memory for a guest: {0}")]
    Memory(#[from] MemoryError),
    #[error("a guest's port: {0}")]
    Link(#[from] FrontendError),
    #[error("the switch broke a ring: {0}")]
    Ring(#[from] Fatal),
    #[error("waiting for a notification: {0}")]
    Wait(std::io::Error),
    #[error("frame {number} did not come within {} s: was a notification lost?", LIMIT.as_secs())]
    Late { number: u64 },
    #[error("frame {came} came when {expected} was sent")]
    Wrong { came: u64, expected: u64 },
}

/// A queue with its kick and call.
struct End {
    queue: Queue,
    kick: Event,
    call: Event,
    /// Buffer addresses by chain id.
    addresses: Vec<u64>,
}

impl End {
    fn new(end: QueueEnd) -> End {
        let QueueEnd { mut queue, kick, call, .. } = end;
        queue.set_interrupts(false);
        End { queue, kick, call, addresses: vec![0; QUEUE.into()] }
    }

    /// Makes a buffer available to the device, and kicks it if it wants that.
    fn give(&mut self, buffer: Buffer) {
        if let Some(id) = self.queue.add(&[buffer]) {
            self.addresses[usize::from(id)] = buffer.addr;
        }
        self.queue.publish();
        before_asking();
        if self.queue.wants_kick() {
            self.kick.notify();
        }
    }

    /// Returns the address of the next buffer that came back.
    fn take(&mut self) -> Result<Option<u64>, Fatal> {
        Ok(self.queue.pop_used()?.map(|used| self.addresses[usize::from(used.id)]))
    }

    /// Sleeps until the device has used a buffer, or until the deadline.
    fn sleep(&mut self, deadline: Instant) -> Result<(), GuestError> {
        while !self.queue.has_used() {
            // In this order: a notification after the clearing is seen by the next check.
            self.call.clear();
            self.queue.set_interrupts(true);
            before_asking();
            let left = deadline.saturating_duration_since(Instant::now());
            if self.queue.has_used() || left.is_zero() {
                break;
            }
            let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&self.call, PollFlags::IN)], Some(&limit)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(GuestError::Wait(error.into())),
            }
        }
        self.queue.set_interrupts(false);
        Ok(())
    }
}

/// A connected guest; dropping it disconnects.
pub struct Guest {
    // First, so that the connection ends before the memory is unmapped.
    _link: Link,
    receive: End,
    transmit: End,
    /// The only transmit buffer.
    out: u64,
    arena: Arena,
}

impl Guest {
    /// Connects to the switch's socket and posts receive buffers.
    pub fn connect(socket: &Path, packed: bool) -> Result<Guest, GuestError> {
        let options = FrontendOptions {
            socket: socket.to_owned(),
            mode: Mode::Client,
            queue_pairs: 1,
            queue_sizes: QUEUE.into(),
            features: features::MRG_RXBUF | if packed { features::RING_PACKED } else { 0 },
        };
        let buffers = u64::from(QUEUE) + 1;
        let mut arena = Arena::new(buffers * u64::from(ROOM) + (64 << 10), false)?;
        let (link, mut pairs) = Link::establish(&options, &mut arena, Some(LIMIT), &AtomicBool::new(false))?;
        let pair = pairs.remove(0);
        let (mut receive, transmit) = (End::new(pair.receive), End::new(pair.transmit));
        let mut allocate = || arena.allocate(ROOM.into(), 64).expect("the arena was made to fit");
        let out = allocate();
        for _ in 0..QUEUE {
            receive.give(Buffer { addr: allocate(), len: ROOM, writable: true });
        }
        Ok(Guest { _link: link, receive, transmit, out, arena })
    }

    /// Sends frame `number`.
    pub fn send(&mut self, number: u64) -> Result<(), GuestError> {
        let deadline = Instant::now() + LIMIT;
        // The last frame arrived long ago; its buffer comes back right after that.
        while self.transmit.queue.free() < QUEUE && self.transmit.take()?.is_none() {
            if Instant::now() > deadline {
                return Err(GuestError::Late { number });
            }
        }
        let mut frame = [0; FRAME];
        let ethernet = &mut frame[NET_HEADER as usize..];
        ethernet[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        ethernet[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
        // EtherType for local experiments (IEEE 802, 9.2.3.4).
        ethernet[12..14].copy_from_slice(&[0x88, 0xb5]);
        frame[NUMBER..NUMBER + 8].copy_from_slice(&number.to_le_bytes());
        self.arena.gather(self.out, std::iter::once(frame[..].into())).expect("a frame fits in a buffer");
        self.transmit.give(Buffer { addr: self.out, len: FRAME as u32, writable: false });
        Ok(())
    }

    /// Waits for frame `number`, sleeping or polling.
    pub fn receive(&mut self, number: u64, asleep: bool) -> Result<(), GuestError> {
        let deadline = Instant::now() + LIMIT;
        let addr = loop {
            if asleep {
                self.receive.sleep(deadline)?;
            }
            if let Some(addr) = self.receive.take()? {
                break addr;
            }
            if Instant::now() > deadline {
                return Err(GuestError::Late { number });
            }
        };
        let bytes = self.arena.segment(addr, FRAME as u32).and_then(|frame| frame.split_at(NUMBER as u32).1.read());
        let came = u64::from_le_bytes(bytes.expect("receive buffers are longer than frames"));
        self.receive.give(Buffer { addr, len: ROOM, writable: true });
        if came == number { Ok(()) } else { Err(GuestError::Wrong { came, expected: number }) }
    }
}
