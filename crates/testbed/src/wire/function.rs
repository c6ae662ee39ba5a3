//! A network function that sends back what it gets, in the buffer in which it came.

use super::options::Wire;
use crate::load::{Shape, Touch, describe};
use nf::memory::Buffers;
use rustix::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use vhost_user::Mode;
use vhost_user::frontend::{FrontendError, FrontendOptions, Link};
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::{Arena, MemoryError};
use virtqueue::{Fatal, NET_HEADER, Negotiated, QueueConfig, features, ordering};

/// How long a switch may take to accept it.
const CONNECT: Duration = Duration::from_secs(15);
/// Most frames taken at once.
const BURST: u32 = 64;
/// Where in a buffer a frame begins.
const FRAME: usize = NET_HEADER as usize;

/// The network function could not be started, or had to stop.
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

/// One direction: the queue, and which buffer a chain is.
struct Side {
    queue: Queue,
    kick: OwnedFd,
    held: Vec<u16>,
}

impl Side {
    #[inline(always)]
    fn add(&mut self, buffer: Buffer, index: u16) {
        let id = self.queue.add(&[buffer]).expect("there is a free descriptor");
        self.held[usize::from(id)] = index;
    }

    fn kick(&mut self) {
        if self.queue.wants_kick() {
            vhost_user::notify(&self.kick);
        }
    }
}

/// See the module.
pub struct Function {
    receive: Side,
    transmit: Side,
    buffers: Buffers,
    free: Vec<u16>,
    there: Shape,
    back: Shape,
    huge: bool,
    link: Link,
}

impl Function {
    /// Connects to the switch and posts all its receive buffers.
    pub fn connect(wire: &Wire) -> Result<Function, FunctionError> {
        let size = wire.queue_size;
        let room = 2048.max(FRAME + usize::from(wire.size));
        let packed = if wire.packed { features::RING_PACKED } else { 0 };
        let (a, b, c) = QueueConfig::area_sizes(Negotiated(packed).format(), size);
        let mut arena = Arena::new(Buffers::footprint(2 * size, room) + 2 * (a + b + c + 3 * 4096), true)?;
        let options = FrontendOptions {
            socket: wire.function.clone(),
            mode: Mode::Client,
            queue_pairs: 1,
            queue_size: size,
            features: features::MRG_RXBUF | features::IN_ORDER | packed,
        };
        let (link, mut pairs) = Link::establish(&options, &mut arena, Some(CONNECT), &AtomicBool::new(false))
            .map_err(|source| FunctionError::Link { socket: wire.function.clone(), source })?;
        let pair = pairs.remove(0);
        let buffers = Buffers::allocate(&mut arena, 2 * size, room).expect("the arena was made to fit");
        let side = |end: vhost_user::frontend::QueueEnd| {
            let mut queue = end.queue;
            queue.set_interrupts(false);
            Side { queue, kick: end.kick, held: vec![0; size.into()] }
        };
        let mut function = Function {
            receive: side(pair.receive),
            transmit: side(pair.transmit),
            buffers,
            free: (0..2 * size).rev().collect(),
            there: Shape::new(0, 1, wire.size),
            back: Shape::new(1, 0, wire.size),
            huge: arena.is_huge(),
            link,
        };
        function.refill();
        function.kick();
        Ok(function)
    }

    /// Sends back what is there; how many frames that were.
    #[inline(always)]
    pub fn turn<T: Touch>(&mut self) -> Result<u64, FunctionError> {
        while let Some(used) = self.transmit.queue.pop_used()? {
            self.free.push(self.transmit.held[usize::from(used.id)]);
        }
        let mut moved = 0;
        while moved < BURST
            && self.transmit.queue.free() > 0
            && let Some(used) = self.receive.queue.pop_used()?
        {
            let index = self.receive.held[usize::from(used.id)];
            if (used.len as usize) < FRAME + usize::from(crate::load::MIN_SIZE) {
                // Given back without a frame in it.
                self.free.push(index);
                continue;
            }
            if T::SEQUENCED {
                // SAFETY: the buffer came back from the device and no other reference is alive.
                let bytes = &mut unsafe { self.buffers.bytes_mut(index) }[FRAME..used.len as usize];
                let (number, _) = T::read(bytes, &self.there, 0);
                T::write(bytes, &self.back, number);
            }
            let buffer = Buffer { addr: self.buffers.addr(index), len: used.len, writable: false };
            self.transmit.add(buffer, index);
            moved += 1;
        }
        self.transmit.queue.publish();
        self.refill();
        Ok(moved.into())
    }

    #[inline(always)]
    fn refill(&mut self) {
        let room = self.buffers.size() as u32;
        while self.receive.queue.free() > 0
            && let Some(index) = self.free.pop()
        {
            self.receive.add(Buffer { addr: self.buffers.addr(index), len: room, writable: true }, index);
        }
        self.receive.queue.publish();
    }

    /// Wakes the switch if it sleeps.
    pub fn kick(&mut self) {
        ordering::before_asking();
        self.receive.kick();
        self.transmit.kick();
    }

    /// Ring format and features.
    pub fn describe(&self) -> String {
        describe(self.link.negotiated())
    }

    /// What its memory lies on.
    pub fn memory(&self) -> &'static str {
        if self.huge { "huge pages" } else { "normal pages" }
    }
}
