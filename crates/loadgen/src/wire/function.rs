//! A network function that sends every frame back in the buffer in which it came, or keeps it.

use super::arrivals::Arrivals;
use super::options::FunctionOptions;
use crate::load::{Shape, Touch, describe};
use nf::memory::Buffers;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use vhost_user::Mode;
use vhost_user::frontend::{DriverQueue, FrontendError, FrontendOptions, Link, QueuePair, QueueSizes};
use virtqueue::driver::Buffer;
use virtqueue::memory::{Arena, MemoryError};
use virtqueue::{Fatal, NET_HEADER, Negotiated, QueueConfig, features, ordering};

/// Time limit for the switch to accept it.
const CONNECT: Duration = Duration::from_secs(15);
/// Maximum number of frames taken at once.
const BURST: u32 = 64;
/// Offset of a frame in a buffer.
const FRAME: usize = NET_HEADER as usize;

/// Error of the network function.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum FunctionError {
    #[error("no memory for the network function: {0}")]
    Memory(#[from] MemoryError),
    #[error("the network function at {}: {source}", socket.display())]
    Link { socket: PathBuf, source: FrontendError },
    #[error("the switch broke the network function's ring: {0}")]
    Broken(#[from] Fatal),
}

/// The network function.
pub struct Function {
    /// The buffer of each chain.
    receive: DriverQueue<u16>,
    transmit: DriverQueue<u16>,
    buffers: Buffers,
    free: Vec<u16>,
    there: Shape,
    back: Shape,
}

/// A network function connected to a switch.
pub struct Connected {
    pub function: Function,
    huge: bool,
    link: Link,
}

impl Connected {
    /// Connects to the switch and posts all its receive buffers.
    pub fn connect(at: &FunctionOptions) -> Result<Connected, FunctionError> {
        let packed = if at.packed { features::RING_PACKED } else { 0 };
        let mut arena = Arena::new(Function::footprint(Negotiated(packed), at.queue_size, at.size), true)?;
        let options = FrontendOptions {
            socket: at.function.clone(),
            mode: Mode::Client,
            queue_pairs: 1,
            queue_sizes: at.queue_size,
            features: features::MRG_RXBUF | features::IN_ORDER | packed,
            exchange: None,
        };
        let (link, mut pairs) = Link::establish(&options, &mut arena, Some(CONNECT), &AtomicBool::new(false))
            .map_err(|source| FunctionError::Link { socket: at.function.clone(), source })?;
        let function = Function::new(&mut arena, pairs.remove(0), at.size);
        Ok(Connected { function, huge: arena.is_huge(), link })
    }

    /// Returns ring format and features.
    pub fn describe(&self) -> String {
        describe(self.link.negotiated())
    }

    /// Returns the kind of pages of its memory.
    pub fn memory(&self) -> &'static str {
        if self.huge { "huge pages" } else { "normal pages" }
    }
}

impl Function {
    /// Returns the bytes that rings of these sizes, and buffers for frames of `size` bytes, take in an arena.
    pub fn footprint(negotiated: Negotiated, sizes: QueueSizes, size: u16) -> u64 {
        let ring = |size| QueueConfig::area_sizes(negotiated.format(), size).sum() + 3 * 4096;
        let buffers = Buffers::footprint(sizes.receive + sizes.transmit, room(size));
        buffers + ring(sizes.receive) + ring(sizes.transmit)
    }

    /// Takes the queues and posts all its receive buffers, for frames of `size` bytes.
    pub fn new(arena: &mut Arena, pair: QueuePair, size: u16) -> Function {
        let count = pair.receive.config.size + pair.transmit.config.size;
        let buffers = Buffers::allocate(arena, count, room(size)).expect("the arena was made to fit");
        let mut function = Function {
            receive: DriverQueue::new(pair.receive),
            transmit: DriverQueue::new(pair.transmit),
            buffers,
            free: (0..count).rev().collect(),
            there: Shape::new(0, 1, size),
            back: Shape::new(1, 0, size),
        };
        function.refill();
        function.kick();
        function
    }

    /// Sends back the available frames; returns their number.
    #[inline(always)]
    pub fn turn<T: Touch>(&mut self) -> Result<u64, FunctionError> {
        while let Some(returned) = self.transmit.pop()? {
            self.free.push(*returned.entry);
        }
        let mut moved = 0;
        while moved < BURST
            && self.transmit.free() > 0
            && let Some(returned) = self.receive.pop()?
        {
            let (index, len) = (*returned.entry, returned.len);
            if (len as usize) < FRAME + usize::from(crate::load::MIN_SIZE) {
                // It came back without a frame.
                self.free.push(index);
                continue;
            }
            if T::SEQUENCED {
                // SAFETY: the buffer came back from the device and no other reference is alive.
                let bytes = &mut unsafe { self.buffers.bytes_mut(index) }[FRAME..len as usize];
                let (number, _) = T::read(bytes, &self.there, 0);
                T::write(bytes, &self.back, number);
            }
            let buffer = Buffer { addr: self.buffers.addr(index), len, writable: false };
            self.transmit.add_with(&[buffer], index).expect("there is a free descriptor");
            moved += 1;
        }
        self.transmit.publish();
        self.refill();
        Ok(moved.into())
    }

    /// Reads the available frames, notes them in `arrivals`, and posts their buffers again; returns their number.
    #[inline(always)]
    pub fn keep<T: Touch>(&mut self, arrivals: &mut Arrivals) -> Result<u64, FunctionError> {
        let mut moved = 0;
        while moved < BURST
            && let Some(returned) = self.receive.pop()?
        {
            let (index, len) = (*returned.entry, returned.len as usize);
            self.free.push(index);
            if len < FRAME + usize::from(crate::load::MIN_SIZE) {
                // It came back without a frame.
                continue;
            }
            let expected = arrivals.next();
            let whole = len - FRAME == self.there.len();
            let (number, intact) = if T::SEQUENCED && whole {
                // SAFETY: the buffer came back from the device, and nobody writes before it is posted again.
                T::read(&unsafe { self.buffers.bytes(index) }[FRAME..len], &self.there, expected)
            } else {
                (expected, true)
            };
            arrivals.note(number, whole, intact);
            moved += 1;
        }
        self.refill();
        Ok(moved.into())
    }

    #[inline(always)]
    fn refill(&mut self) {
        let room = self.buffers.size() as u32;
        while self.receive.free() > 0
            && let Some(index) = self.free.pop()
        {
            let buffer = Buffer { addr: self.buffers.addr(index), len: room, writable: true };
            self.receive.add_with(&[buffer], index).expect("there is a free descriptor");
        }
        self.receive.publish();
    }

    /// Kicks the switch if it sleeps.
    pub fn kick(&mut self) {
        ordering::before_asking();
        self.receive.notify();
        self.transmit.notify();
    }
}

/// Returns the size of a buffer: the usual one for a guest that does not know the frame sizes; more only for longer frames.
fn room(size: u16) -> usize {
    2048.max(FRAME + usize::from(size))
}
