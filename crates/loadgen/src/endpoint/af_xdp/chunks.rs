//! Frames in memory that this program shares with the kernel: each chunk of it is free, a frame here, or the kernel's.
#![allow(unsafe_code)]

use std::sync::Arc;
use virtqueue::memory::Arena;
use xsk::{Chunks, Descriptor, Interface, Queue, QueueConfig, Sending, Umem};

/// Bytes of a chunk.
const CHUNK: u32 = 2048;
/// Offset of a frame that is sent in its chunk, where received ones lie as well.
const START: u64 = 256;

/// A frame in a chunk that belongs to its owner alone.
pub struct Frame(Descriptor);

/// A socket, and the chunks that are not the kernel's.
pub struct FrameQueue {
    queue: Queue,
    umem: Arc<Umem>,
    free: Vec<u64>,
}

impl FrameQueue {
    /// Opens queue 0 of an interface, with memory for all that its rings can hold and as many frames as are sent at once.
    pub fn open(interface: &Interface, config: &QueueConfig, burst: u16) -> Result<FrameQueue, String> {
        let count = config.fill + config.tx + u32::from(burst);
        let len = u64::from(count * CHUNK);
        let mut arena = Arena::new(len, false).map_err(|error| error.to_string())?;
        let base =
            arena.allocate(len, 4096).and_then(|address| arena.host(address, len)).ok_or("its memory is too small")?;
        let owner = arena.memory().clone();
        // SAFETY: the arena's memory stays mapped as long as its owner lives. References to bytes of it are made by `bytes` and
        // `bytes_mut` only, for a frame that is here: the kernel gets chunks by `refill` and `send` only, and these take free
        // chunks, or the frame itself.
        let umem = unsafe { Umem::new(base, len as usize, Vec::new(), Chunks::aligned(CHUNK), owner) }
            .map_err(|error| error.to_string())?;
        let queue = Queue::open(&umem, interface, 0, config).map_err(|error| error.to_string())?;
        let free = (0..count).map(|chunk| u64::from(chunk * CHUNK)).collect();
        Ok(FrameQueue { queue, umem, free })
    }

    /// Returns the socket's receive half.
    pub fn rx(&self) -> &xsk::Rx {
        &self.queue.rx
    }

    /// Returns a frame of `len` bytes with arbitrary contents; `None` if no chunk is free.
    #[inline(always)]
    pub fn alloc(&mut self, len: u32) -> Option<Frame> {
        debug_assert!(START + u64::from(len) <= CHUNK.into());
        self.free.pop().map(|chunk| Frame(Descriptor::new(chunk + START, len)))
    }

    /// Frees a frame's chunk.
    #[inline(always)]
    pub fn free(&mut self, frame: Frame) {
        self.free.push(self.umem.filled_address(frame.0.address));
    }

    /// Returns the bytes of a frame.
    #[inline(always)]
    pub fn bytes(&self, frame: &Frame) -> &[u8] {
        let Descriptor { address, len, .. } = frame.0;
        let start = self.umem.ptr(self.umem.frame_address(address), len).expect("it is in the memory");
        // SAFETY: these bytes are mapped and initialised (a new memfd is zeros). The chunk is neither free nor the kernel's, as
        // this is its frame, and nobody has them for writing while `self` and the frame are borrowed.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), len as usize) }
    }

    /// Returns the bytes of a frame for writing.
    #[inline(always)]
    pub fn bytes_mut(&mut self, frame: &mut Frame) -> &mut [u8] {
        let Descriptor { address, len, .. } = frame.0;
        let start = self.umem.ptr(self.umem.frame_address(address), len).expect("it is in the memory");
        // SAFETY: as in `bytes`, and both are borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), len as usize) }
    }

    /// Gives the kernel free chunks to receive in, as many as it can hold, but not those that sending needs.
    pub fn refill(&mut self, keep: usize) -> std::io::Result<()> {
        let room = self.queue.fill.room() as usize;
        let count = room.min(self.free.len().saturating_sub(keep));
        self.queue.fill.push_from(self.free.drain(self.free.len() - count..));
        if self.queue.fill.needs_wakeup() { self.queue.fill.wake() } else { Ok(()) }
    }

    /// Appends at most `most` received frames to `frames`.
    #[inline(always)]
    pub fn receive(&mut self, frames: &mut Vec<Frame>, most: u32) {
        frames.extend(self.queue.rx.burst(most).map(Frame));
    }

    /// Queues a frame for sending; returns it if there is no room.
    #[inline(always)]
    pub fn send(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.queue.tx.push(&[frame.0]) == 1 { Ok(()) } else { Err(frame) }
    }

    /// Frees the chunks of frames that were sent.
    #[inline(always)]
    pub fn reclaim(&mut self) {
        let umem = &self.umem;
        self.free.extend(self.queue.completion.burst(u32::MAX).map(|address| umem.filled_address(address)));
    }

    /// Has the kernel send queued frames; reports whether some are left.
    #[inline(always)]
    pub fn wake(&mut self) -> std::io::Result<bool> {
        if !self.queue.tx.needs_wakeup() {
            return Ok(false);
        }
        self.queue.tx.wake().map(|sending| sending == Sending::More)
    }
}
