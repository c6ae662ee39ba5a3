//! A driver and a device in one process, over one arena.

pub mod guest;
pub mod posting;
pub mod switch;

use packet::Burst;
use std::sync::LazyLock;
use virtqueue::device::{Borrower, Dequeue, Enqueue, FilledLoans, Landing, Loan, Terms};
use virtqueue::driver::{Buffer, Queue};
use virtqueue::memory::{Arena, DirtyLog};
use virtqueue::{Fatal, Negotiated, QueueConfig, features};

pub const ROOM: u32 = 16 << 10;

/// Whether the device may write to buffers: those of frames that a guest sends, and those that it posts.
pub const SENT: bool = false;
pub const POSTED: bool = true;

/// Features of a case: every combination that changes how a ring works.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub packed: bool,
    pub in_order: bool,
    pub event_idx: bool,
    pub mergeable: bool,
    pub size: u16,
}

impl Case {
    pub fn negotiated(&self) -> Negotiated {
        let bits = [
            (true, features::VERSION_1),
            (self.packed, features::RING_PACKED),
            (self.in_order, features::IN_ORDER),
            (self.event_idx, features::EVENT_IDX),
            (self.mergeable, features::MRG_RXBUF),
        ];
        Negotiated(bits.iter().filter(|b| b.0).map(|b| b.1).sum())
    }
}

/// One queue on the driver side, with a buffer area of [`ROOM`] bytes for every descriptor.
pub struct Driver {
    pub arena: Arena,
    pub config: QueueConfig,
    pub queue: Queue,
    buffers: u64,
}

impl Driver {
    pub fn new(case: Case) -> Driver {
        Driver::with(case, 0)
    }

    /// Returns one that negotiated `more` features.
    pub fn with(case: Case, more: u64) -> Driver {
        let len = u64::from(ROOM) * u64::from(case.size) + (1 << 20);
        let mut arena = Arena::new(len, false).unwrap();
        let config = Queue::layout(&mut arena, case.size, Negotiated(case.negotiated().0 | more)).unwrap();
        let buffers = arena.allocate(u64::from(ROOM) * u64::from(case.size), 4096).unwrap();
        let queue = Queue::new(&arena, &config).unwrap();
        Driver { arena, config, queue, buffers }
    }

    pub fn dequeue(&self) -> Dequeue {
        Dequeue::new(self.arena.memory().clone(), &self.config).unwrap()
    }

    pub fn enqueue(&self) -> Enqueue {
        Enqueue::new(self.arena.memory().clone(), &self.config).unwrap()
    }

    /// Returns the guest address of buffer area `index`.
    pub fn area(&self, index: u16) -> u64 {
        self.buffers + u64::from(ROOM) * u64::from(index)
    }

    pub fn write(&self, addr: u64, bytes: &[u8]) {
        let at = self.arena.host(addr, bytes.len() as u64).unwrap();
        // SAFETY: the range was just checked to lie in the arena, and the test is single-threaded.
        unsafe { at.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }

    pub fn read(&self, addr: u64, len: u32) -> Vec<u8> {
        let at = self.arena.host(addr, len.into()).unwrap();
        let mut bytes = vec![0; len as usize];
        // SAFETY: as in `write`.
        unsafe { at.as_ptr().copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) }
        bytes
    }

    /// Adds a chain over area `index`, cut into these lengths.
    pub fn add(&mut self, index: u16, cuts: &[u32], writable: bool) -> Option<u16> {
        let mut addr = self.area(index);
        let mut buffers = Vec::new();
        for &len in cuts {
            buffers.push(Buffer { addr, len, writable });
            addr += u64::from(len);
        }
        self.queue.add(&buffers)
    }
}

/// Returns a frame whose bytes identify it: a piece of a long run of bytes, as Miri copies faster than it computes.
pub fn frame(number: u32, len: usize) -> Vec<u8> {
    const LAP: usize = 512;
    static LAPS: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let lap: Vec<u8> = (0..LAP).map(|i| ((i * 7) >> 1) as u8).collect();
        lap.repeat(2 + (1 << 17) / LAP)
    });
    let start = number as usize * 31 % LAP;
    LAPS[start..start + len].to_vec()
}

/// One loan, out of the queue.
#[derive(Default)]
struct One<'q>(Option<(Loan, Landing<'q>)>, Option<Loan>);

impl Borrower for One<'_> {
    fn put(&mut self, loan: Loan) -> Result<(), Loan> {
        self.1 = Some(loan);
        Ok(())
    }
}

impl<'q> FilledLoans<'q> for One<'q> {
    fn next(&mut self, _: &mut Burst<'_, 'q>) -> Option<(Loan, Landing<'q>)> {
        self.0.take()
    }

    fn refused(&mut self, loan: Loan) {
        self.1 = Some(loan);
    }
}

/// Borrows a buffer of at least `room` bytes, if more than `keep` are left.
pub fn lend<L: DirtyLog>(queue: &Enqueue<L>, room: u32, keep: u32) -> Result<Option<Loan>, Fatal> {
    let mut one = One::default();
    queue.lend(Terms { room, keep, most: 1 }, &mut one)?;
    Ok(one.1)
}

/// Gives a filled loan back. Returns it if it cannot hold its frame.
pub fn take_filled<'q, L: DirtyLog>(
    queue: &'q Enqueue<L>,
    loan: Loan,
    landing: Landing<'q>,
    burst: &mut Burst<'_, 'q>,
) -> Option<Loan> {
    let mut one = One(Some((loan, landing)), None);
    queue.receive_filled(burst, &mut one);
    one.1
}
