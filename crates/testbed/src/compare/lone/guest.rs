//! A guest that sends and receives single frames.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use vhost_user::Mode;
use vhost_user::frontend::{DriverQueue, FrontendError, FrontendOptions, Link};
use virtqueue::driver::Buffer;
use virtqueue::memory::{Arena, MemoryError};
use virtqueue::{Fatal, NET_HEADER, features};

/// Size of a queue; a frame needs one descriptor.
const QUEUE: u16 = 64;
/// Size of a buffer.
const ROOM: u32 = 2048;
/// Bytes of a buffer that a frame takes: the header, and 64 bytes of Ethernet.
const FRAME: usize = NET_HEADER as usize + 64;
/// Offset of the frame's number, after the Ethernet header.
const NUMBER: usize = NET_HEADER as usize + 16;
/// Time limit for connecting, and for one frame.
const LIMIT: Duration = Duration::from_secs(30);

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
    #[error("frame {number} did not arrive within {} s: was a notification lost?", LIMIT.as_secs())]
    Late { number: u64 },
    #[error("frame {came} came when {expected} was sent")]
    Wrong { came: u64, expected: u64 },
}

/// Makes a buffer available to the device, and kicks it if it wants that.
fn give(queue: &mut DriverQueue<u64>, buffer: Buffer) {
    queue.add_with(&[buffer], buffer.addr).expect("there is a free descriptor");
    queue.flush();
}

/// Returns the address of the next buffer that came back.
fn take(queue: &mut DriverQueue<u64>) -> Result<Option<u64>, Fatal> {
    Ok(queue.pop()?.map(|returned| *returned.entry))
}

/// A connected guest; dropping it disconnects.
pub struct Guest {
    // First, so that the connection ends before the memory is unmapped.
    _link: Link,
    /// The address of each chain's buffer.
    receive: DriverQueue<u64>,
    transmit: DriverQueue<u64>,
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
            exchange: None,
        };
        let buffers = u64::from(QUEUE) + 1;
        let mut arena = Arena::new(buffers * u64::from(ROOM) + (64 << 10), false)?;
        let (link, mut pairs) = Link::establish(&options, &mut arena, Some(LIMIT), &AtomicBool::new(false))?;
        let pair = pairs.remove(0);
        let (mut receive, transmit) = (DriverQueue::new(pair.receive), DriverQueue::new(pair.transmit));
        let mut allocate = || arena.allocate(ROOM.into(), 64).expect("the arena was made to fit");
        let out = allocate();
        for _ in 0..QUEUE {
            give(&mut receive, Buffer { addr: allocate(), len: ROOM, writable: true });
        }
        Ok(Guest { _link: link, receive, transmit, out, arena })
    }

    /// Sends frame `number`.
    pub fn send(&mut self, number: u64) -> Result<(), GuestError> {
        let deadline = Instant::now() + LIMIT;
        // The last frame arrived long ago; its buffer comes back right after that.
        while self.transmit.free() < QUEUE && take(&mut self.transmit)?.is_none() {
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
        give(&mut self.transmit, Buffer { addr: self.out, len: FRAME as u32, writable: false });
        Ok(())
    }

    /// Waits for frame `number`, sleeping or polling.
    pub fn receive(&mut self, number: u64, asleep: bool) -> Result<(), GuestError> {
        let deadline = Instant::now() + LIMIT;
        let addr = loop {
            if asleep {
                self.receive.wait(deadline).map_err(GuestError::Wait)?;
            }
            if let Some(addr) = take(&mut self.receive)? {
                break addr;
            }
            if Instant::now() > deadline {
                return Err(GuestError::Late { number });
            }
        };
        let bytes = self.arena.segment(addr, FRAME as u32).and_then(|frame| frame.read_at(NUMBER));
        let came = u64::from_le_bytes(bytes.expect("receive buffers are longer than frames"));
        give(&mut self.receive, Buffer { addr, len: ROOM, writable: true });
        if came == number { Ok(()) } else { Err(GuestError::Wrong { came, expected: number }) }
    }
}
