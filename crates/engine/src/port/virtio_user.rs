//! virtio-user ports, driver role: the switch connects to somebody else's vhost-user backend, as a guest would.

use super::{Receive, Sent, Transmit, Wait};
use crate::drops::Reason;
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::Arena;
use virtqueue::{Burst, Frames, MIN_FRAME, NET_HEADER, ordering};

/// Room of a buffer: the usual size of a DPDK packet buffer, header included.
pub const ROOM: u32 = 2048;

/// Longest frame that can be sent: one chain of so many buffers.
const MAX_CHAIN: u32 = 8;

/// One direction of a queue pair, as the session set it up.
pub struct End {
    /// The ring.
    pub queue: Queue,
    /// Guest address of its buffers, [`ROOM`] bytes for each descriptor.
    pub buffers: u64,
    /// Descriptors.
    pub size: u16,
    /// Kicks the device.
    pub kick: OwnedFd,
    /// Memory of the ring and the buffers.
    pub arena: Arc<Arena>,
    /// The device broke the ring.
    pub broken: Arc<AtomicBool>,
}

impl End {
    fn buffer(&self, index: u16) -> u64 {
        self.buffers + u64::from(index) * u64::from(ROOM)
    }

    #[cold]
    fn give_up(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    fn kick(queue: &mut Queue, kick: &OwnedFd) {
        if queue.wants_kick() {
            // A full counter means that the device has a kick waiting; anything else ends with the session.
            let _ = rustix::io::write(kick, &1u64.to_ne_bytes());
        }
    }
}

/// Frames from the device.
pub struct VirtioReceive {
    end: RefCell<End>,
    /// The arena again, to lend frames out of it while the ring is being changed.
    arena: Arc<Arena>,
    mergeable: bool,
    /// Readable when the device notifies.
    call: OwnedFd,
    /// Buffers to be offered again, with their index.
    taken: RefCell<Vec<u16>>,
    /// Which buffer a chain with this id is.
    index_of: RefCell<Vec<u16>>,
    /// The buffers of the frame that is being taken, as (index, bytes).
    parts: RefCell<Vec<(u16, u32)>>,
}

impl VirtioReceive {
    /// Offers all buffers and takes frames.
    pub fn new(end: End, call: OwnedFd, mergeable: bool) -> VirtioReceive {
        let size = end.size;
        let arena = end.arena.clone();
        let port = VirtioReceive {
            end: RefCell::new(end),
            arena,
            mergeable,
            call,
            taken: RefCell::new((0..size).collect()),
            index_of: RefCell::new(vec![0; size.into()]),
            parts: RefCell::default(),
        };
        port.end.borrow_mut().queue.set_interrupts(false);
        port.recycle();
        port.notify();
        port
    }

    /// The next frame's buffers, as (index, bytes), if all of them are there.
    fn next(&self, end: &mut End, buffers: &mut Vec<(u16, u32)>) -> Option<()> {
        let pop = |end: &mut End| match end.queue.pop_used() {
            Ok(used) => used.map(|u| (self.index_of.borrow()[usize::from(u.id)], u.len.min(ROOM))),
            Err(_) => {
                end.give_up();
                None
            }
        };
        buffers.clear();
        buffers.push(pop(end)?);
        if self.mergeable {
            // num_buffers, the last field of the header (virtio 1.2 §5.1.6). All parts are published together.
            let header = self.arena.segment(end.buffer(buffers[0].0), NET_HEADER)?.read::<12>()?;
            for _ in 1..u16::from_le_bytes([header[10], header[11]]) {
                buffers.push(pop(end)?);
            }
        }
        Some(())
    }
}

impl Receive for VirtioReceive {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let end = &mut *self.end.borrow_mut();
        let mut taken = self.taken.borrow_mut();
        let mut buffers = self.parts.borrow_mut();
        while burst.room() > 0 && taken.len() < usize::from(end.size) && self.next(end, &mut buffers).is_some() {
            let mut header = NET_HEADER;
            let segments = buffers.iter().filter_map(|&(index, len)| {
                let skip = header.min(len);
                header -= skip;
                let at = end.buffer(index) + u64::from(skip);
                self.arena.segment(at, len - skip).filter(|s| !s.is_empty())
            });
            let len: u32 = buffers.iter().map(|b| b.1).sum();
            if len >= NET_HEADER + MIN_FRAME && len - NET_HEADER <= virtqueue::MAX_FRAME {
                let _ = burst.push_segments(segments);
            }
            taken.extend(buffers.iter().map(|b| b.0));
        }
        !taken.is_empty()
    }

    fn recycle(&self) {
        let end = &mut *self.end.borrow_mut();
        for index in self.taken.borrow_mut().drain(..) {
            let buffer = Buffer { addr: end.buffer(index), len: ROOM, writable: true };
            if let Some(id) = end.queue.add(&[buffer]) {
                self.index_of.borrow_mut()[usize::from(id)] = index;
            }
        }
        end.queue.publish();
    }

    fn notify(&self) {
        let end = &mut *self.end.borrow_mut();
        End::kick(&mut end.queue, &end.kick);
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.call.as_fd())
    }

    fn arm(&self) -> Wait {
        let end = &mut *self.end.borrow_mut();
        end.queue.set_interrupts(true);
        ordering::before_asking();
        if end.queue.has_used() { Wait::Ready } else { Wait::Event }
    }

    fn disarm(&self) {
        self.end.borrow_mut().queue.set_interrupts(false);
    }
}

/// Frames to the device.
pub struct VirtioTransmit {
    end: RefCell<End>,
    free: RefCell<Vec<u16>>,
    /// Which buffers the chain with this id has: the first, and how many.
    chains: RefCell<Vec<Vec<u16>>>,
}

impl VirtioTransmit {
    /// Copies frames into its own buffers and sends them.
    pub fn new(end: End) -> VirtioTransmit {
        let size = end.size;
        let port = VirtioTransmit {
            end: RefCell::new(end),
            free: RefCell::new((0..size).rev().collect()),
            chains: RefCell::new(vec![Vec::with_capacity(MAX_CHAIN as usize); size.into()]),
        };
        port.end.borrow_mut().queue.set_interrupts(false);
        port
    }

    /// Takes back what the device is done with.
    fn reclaim(&self, end: &mut End) {
        let mut chains = self.chains.borrow_mut();
        loop {
            match end.queue.pop_used() {
                Ok(Some(used)) => self.free.borrow_mut().append(&mut chains[usize::from(used.id)]),
                Ok(None) => return,
                Err(_) => return end.give_up(),
            }
        }
    }
}

impl Transmit for VirtioTransmit {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        let end = &mut *self.end.borrow_mut();
        self.reclaim(end);
        let mut sent = Sent { rest: Some(Reason::NoBuffers), ..Sent::default() };
        let mut free = self.free.borrow_mut();
        for frame in frames.as_slice() {
            let wanted = (frame.len() + NET_HEADER).div_ceil(ROOM);
            if wanted > MAX_CHAIN.min(end.size.into()) {
                sent.too_long += 1;
                continue;
            }
            if free.len() < wanted as usize || end.queue.free() < wanted as u16 {
                break;
            }
            let mut indices = [0; MAX_CHAIN as usize];
            let indices = &mut indices[..wanted as usize];
            indices.iter_mut().for_each(|i| *i = free.pop().unwrap_or_default());
            let mut buffers = [Buffer { addr: 0, len: 0, writable: false }; MAX_CHAIN as usize];
            let buffers = &mut buffers[..wanted as usize];
            let header: &[u8] = &[0; NET_HEADER as usize];
            let mut source = std::iter::once(header.into()).chain(frames.segments(frame));
            let mut rest = source.next();
            for (buffer, &index) in buffers.iter_mut().zip(indices.iter()) {
                let addr = end.buffer(index);
                let mut filled = 0;
                while filled < ROOM
                    && let Some(segment) = rest
                {
                    let (now, later) = segment.split_at(ROOM - filled);
                    filled += end.arena.gather(addr + u64::from(filled), std::iter::once(now)).unwrap_or(0);
                    rest = if later.is_empty() { source.next() } else { Some(later) };
                }
                *buffer = Buffer { addr, len: filled, writable: false };
            }
            match end.queue.add(buffers) {
                Some(id) => self.chains.borrow_mut()[usize::from(id)].extend_from_slice(indices),
                None => break,
            }
            sent.frames += 1;
            sent.bytes += u64::from(frame.len());
        }
        end.queue.publish();
        sent
    }

    fn notify(&self) {
        let end = &mut *self.end.borrow_mut();
        End::kick(&mut end.queue, &end.kick);
    }
}
