//! A guest without a machine: a virtio-net driver in this process, with one queue pair unless it wants more. [`Source`] makes frames that a [`Sink`] can
//! check byte by byte, and an [`Exchange`] has guests send such frames to each other.

mod exchange;
mod traffic;

pub use exchange::{Exchange, Tally};
pub use traffic::{Sink, Sizes, Source};

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use packet::Segment;
use vhost_user::Mode;
use vhost_user::frontend::{DriverQueue, FrontendOptions, Link, QueuePair};
use virtqueue::driver::Buffer;
use virtqueue::memory::Arena;
use virtqueue::{NET_HEADER, features};

use crate::{Error, Result};

/// Bytes of the longest frame that a guest sends by default.
const LONGEST: u32 = 9204;

/// Number of frames that a guest sends before the switch has taken any: few enough that their buffers stay in a cache.
pub const SLOTS: usize = 64;

/// Time limit for connecting, with running queues.
const PATIENCE: Duration = Duration::from_secs(120);

/// Options of a guest.
#[derive(Debug, Clone)]
pub struct Options {
    socket: PathBuf,
    mode: Mode,
    features: u64,
    pairs: u16,
    queue_size: u16,
    buffer: u32,
    longest: u32,
    huge_pages: bool,
}

impl Options {
    /// Creates options for a guest that connects to the switch's socket, with split rings of 256 and 2 KiB mergeable
    /// buffers.
    pub fn new(socket: impl AsRef<Path>) -> Self {
        Self {
            socket: socket.as_ref().to_owned(),
            mode: Mode::Client,
            features: features::MRG_RXBUF,
            pairs: 1,
            queue_size: 256,
            buffer: 2048,
            longest: LONGEST,
            huge_pages: false,
        }
    }

    /// Makes the guest create the socket and wait for the switch.
    pub fn server(mut self) -> Self {
        self.mode = Mode::Server;
        self
    }

    /// Requests packed rings.
    pub fn packed(self) -> Self {
        self.feature(features::RING_PACKED)
    }

    /// Requests in-order use of descriptors.
    pub fn in_order(self) -> Self {
        self.feature(features::IN_ORDER)
    }

    /// Requests suppression of notifications by index.
    pub fn event_idx(self) -> Self {
        self.feature(features::EVENT_IDX)
    }

    /// Gives it several queue pairs.
    pub fn pairs(mut self, pairs: u16) -> Self {
        self.pairs = pairs;
        self
    }

    /// Sets the size of its rings.
    pub fn queue_size(mut self, size: u16) -> Self {
        self.queue_size = size;
        self
    }

    /// Sets the length of its receive buffers.
    pub fn buffer(mut self, bytes: u32) -> Self {
        self.buffer = bytes;
        self
    }

    /// Sets the length of the longest frame that it sends.
    pub fn longest(mut self, bytes: u32) -> Self {
        self.longest = bytes;
        self
    }

    /// Places its memory on huge pages, if there are any.
    pub fn huge_pages(mut self) -> Self {
        self.huge_pages = true;
        self
    }

    /// Returns the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    fn feature(mut self, mask: u64) -> Self {
        self.features |= mask;
        self
    }

    /// Connects and posts all receive buffers; an error if the switch does not appear in time.
    pub fn connect(&self) -> Result<Guest> {
        let wanted = FrontendOptions {
            socket: self.socket.clone(),
            mode: self.mode,
            queue_pairs: self.pairs,
            queue_sizes: self.queue_size.into(),
            features: self.features,
            exchange: None,
        };
        let transmit = NET_HEADER + self.longest;
        let buffers = u64::from(self.queue_size) * u64::from(self.buffer) + SLOTS as u64 * u64::from(transmit);
        let arena = Arena::new(u64::from(self.pairs) * (buffers + (1 << 20)), self.huge_pages);
        let mut arena = arena.map_err(Error::other("making the guest's memory"))?;
        let established = Link::establish(&wanted, &mut arena, Some(PATIENCE), &AtomicBool::new(false));
        let (link, pairs) = established.map_err(Error::other(format!("connecting to {}", self.socket.display())))?;
        let mut guest = Guest {
            link,
            pairs: pairs.into_iter().map(Pair::new).collect(),
            used: 0,
            room: self.buffer,
            transmit_room: transmit,
            frame: Vec::new(),
            arena,
        };
        for pair in 0..guest.pairs.len() {
            guest.select(pair);
            guest.fill(self.queue_size, self.buffer)?;
        }
        guest.select(0);
        Ok(guest)
    }
}

/// A connected guest that polls its queues; dropping it disconnects.
pub struct Guest {
    // First, so that the connection ends before the memory is unmapped.
    link: Link,
    pairs: Vec<Pair>,
    /// Number of the pair that it uses now.
    used: usize,
    /// Bytes in a receive buffer, and in a transmit buffer.
    room: u32,
    transmit_room: u32,
    /// Last frame received.
    frame: Vec<u8>,
    arena: Arena,
}

/// A queue pair.
struct Pair {
    /// The address of each chain's first buffer.
    receive: DriverQueue<u64>,
    transmit: DriverQueue<u64>,
    /// Free transmit buffers.
    free: Vec<u64>,
}

impl Pair {
    fn new(ends: QueuePair) -> Self {
        Self { receive: DriverQueue::new(ends.receive), transmit: DriverQueue::new(ends.transmit), free: Vec::new() }
    }
}

impl Guest {
    /// Sends and receives by this queue pair from now on; the first one has number 0.
    pub fn select(&mut self, pair: usize) {
        assert!(pair < self.pairs.len(), "there is no queue pair {pair}");
        self.used = pair;
    }

    fn pair(&mut self) -> &mut Pair {
        &mut self.pairs[self.used]
    }

    fn fill(&mut self, buffers: u16, room: u32) -> Result<()> {
        let full = || Error::malformed("the guest's memory", "it is too small for its buffers");
        for _ in 0..buffers {
            let addr = self.arena.allocate(room.into(), 64).ok_or_else(full)?;
            self.post(addr, room);
        }
        self.pair().receive.flush();
        for _ in 0..SLOTS {
            let addr = self.arena.allocate(self.transmit_room.into(), 64).ok_or_else(full)?;
            self.pair().free.push(addr);
        }
        Ok(())
    }

    /// Disconnects and keeps the memory alive and unchanged as long as the returned closure lives, which reads it.
    pub fn leave(self) -> impl Fn() -> Vec<u8> {
        let Guest { link, arena, .. } = self;
        drop(link);
        move || {
            let regions = arena.memory().regions().to_vec();
            let mut bytes = Vec::new();
            for region in regions {
                let start = bytes.len();
                bytes.resize(start + region.len as usize, 0);
                let all = arena.segment(region.guest_addr, region.len as u32).expect("it is the arena's");
                all.copy_to(&mut bytes[start..]);
            }
            bytes
        }
    }

    /// Reports whether the switch is still connected.
    pub fn is_connected(&self) -> bool {
        self.link.is_connected()
    }

    /// Takes back sent buffers; returns how many the switch still has.
    pub fn reap(&mut self) -> Result<usize> {
        let pair = self.pair();
        while let Some((addr, _)) = pop(&mut pair.transmit)? {
            pair.free.push(addr);
        }
        Ok(SLOTS - pair.free.len())
    }

    /// Adds a frame made of `pieces`, cut into a chain of `buffers` (1 to 3) descriptors; returns false if there is no room.
    /// [`Guest::flush`] sends it.
    pub fn send(&mut self, pieces: &[&[u8]], buffers: usize) -> Result<bool> {
        let Some(&addr) = self.pair().free.last() else { return Ok(false) };
        let header: &[u8] = &[0; NET_HEADER as usize];
        let whole = std::iter::once(header).chain(pieces.iter().copied()).map(Segment::from);
        let len = self.arena.gather(addr, whole).filter(|&len| len <= self.transmit_room);
        let len = len.ok_or_else(|| Error::malformed("a frame", "it is longer than a transmit buffer"))?;
        // The header alone, or with the start of the frame: real drivers do both.
        let cuts = match buffers {
            1 => vec![0, len],
            2 => vec![0, NET_HEADER, len],
            _ => vec![0, NET_HEADER + 9, len / 2 + NET_HEADER, len],
        };
        let part = |cut: &[u32]| Buffer { addr: addr + u64::from(cut[0]), len: cut[1] - cut[0], writable: false };
        let chain: Vec<Buffer> = cuts.windows(2).map(part).collect();
        let pair = self.pair();
        if pair.transmit.add_with(&chain, addr).is_none() {
            return Ok(false);
        }
        pair.free.pop();
        Ok(true)
    }

    /// Publishes the added frames to the switch.
    pub fn flush(&mut self) {
        self.pair().transmit.flush();
    }

    /// Passes received frames to `take`, at most `limit` of them, and posts their buffers again; returns the number of frames.
    pub fn receive(&mut self, limit: usize, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<usize> {
        let mut frames = 0;
        while frames < limit && self.receive_one()? {
            take(&self.frame)?;
            frames += 1;
        }
        if frames > 0 {
            self.pair().receive.flush();
        }
        Ok(frames)
    }

    /// Adds a buffer for the switch to fill.
    fn post(&mut self, addr: u64, len: u32) {
        let buffer = [Buffer { addr, len, writable: true }];
        self.pair().receive.add_with(&buffer, addr).expect("there is a free descriptor");
    }

    /// Assembles the next frame from as many buffers as its header says (virtio 1.2 §5.1.6.4).
    fn receive_one(&mut self) -> Result<bool> {
        let mut more = 1u16;
        let mut first = true;
        self.frame.clear();
        while more > 0 {
            let Some((addr, len)) = pop(&mut self.pair().receive)? else {
                // All buffers of a frame must come back at once.
                let problem = format!("{more} of its buffers are missing");
                return if first { Ok(false) } else { Err(Error::malformed("a received frame", problem)) };
            };
            let bytes = self.arena.segment(addr, len).filter(|_| len <= self.room);
            let bytes = bytes.ok_or_else(|| Error::malformed("a used buffer", format!("a length of {len}")))?;
            let payload = if first {
                let (header, payload) = bytes.split_at(NET_HEADER);
                let short = || Error::malformed("a received frame", format!("a first buffer of {len} bytes"));
                let header: [u8; NET_HEADER as usize] = header.read().ok_or_else(short)?;
                more = u16::from_le_bytes([header[10], header[11]]);
                payload
            } else {
                bytes
            };
            let at = self.frame.len();
            self.frame.resize(at + payload.len() as usize, 0);
            payload.copy_to(&mut self.frame[at..]);
            self.post(addr, self.room);
            first = false;
            more = more.saturating_sub(1);
        }
        Ok(true)
    }

    /// Sleeps until the switch notifies of frames, at most for `timeout`; reports whether there are any.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool> {
        self.pair().receive.wait(Instant::now() + timeout).map_err(Error::io("waiting for a frame"))
    }

    /// Enables notifications of frames without waiting for them.
    pub fn arm(&mut self) {
        self.pair().receive.arm();
    }
}

/// Returns the next chain that came back: its address, and the number of bytes written.
fn pop(queue: &mut DriverQueue<u64>) -> Result<Option<(u64, u32)>> {
    let returned = queue.pop().map_err(Error::other("reading what the switch used"))?;
    Ok(returned.map(|returned| (*returned.entry, returned.len)))
}
