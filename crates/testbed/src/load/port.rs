//! One port of the load: source and sink in a tight loop over its two queues.

use super::frame::{Shape, Touch};
use super::ring::{OutOfOrder, Ring};
use nf::memory::Buffers;
use rustix::fd::OwnedFd;
use virtqueue::NET_HEADER;
use virtqueue::copy::{prefetch, prefetch_write};

/// Most frames taken or sent before the other side is looked at again.
const BURST: u64 = 64;

/// How many cache lines are asked for before their turn.
const AHEAD: u16 = 32;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Where in a buffer the frame begins.
const FRAME: usize = NET_HEADER as usize;

/// A queue, the buffers in its slots, and how its device is woken.
pub struct Side {
    pub ring: Ring,
    pub buffers: Buffers,
    pub kick: OwnedFd,
}

impl Side {
    /// Wakes the device if it asked for that.
    fn kick(&mut self) -> rustix::io::Result<()> {
        if self.ring.wants_kick() {
            rustix::io::write(&self.kick, &1u64.to_ne_bytes())?;
        }
        Ok(())
    }
}

/// How many buffers before its turn a frame is asked for.
const fn ahead_of<T: Touch>() -> u16 {
    AHEAD / T::LINES as u16
}

/// Asks for as much of the frame in `buffer` as is worth asking for.
#[inline(always)]
fn fetch<T: Touch>(buffer: *mut u8, ask: fn(*const u8)) {
    (0..T::LINES).for_each(|line| ask(buffer.wrapping_add(FRAME + LINE * line)));
}

/// What a port counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Frames that came back.
    pub received: u64,
    /// Frames that are not as they were sent.
    pub corrupt: u64,
    /// Frames that never came.
    pub lost: u64,
    /// Frames that came twice, or after they were taken for lost.
    pub late: u64,
}

/// One port.
pub struct Port {
    receive: Side,
    transmit: Side,
    outgoing: Shape,
    incoming: Shape,
    sent: u64,
    /// The sequence number that is received next.
    next: u64,
    counts: Counts,
}

impl Port {
    /// A port that sends frames like `outgoing` and expects frames like `incoming`, over fresh queues.
    pub fn new(mut receive: Side, transmit: Side, outgoing: Shape, incoming: Shape) -> Port {
        for slot in 0..transmit.buffers.count() {
            // SAFETY: nothing was given to the device yet, and this is the only reference.
            outgoing.prepare(&mut unsafe { transmit.buffers.bytes_mut(slot) }[FRAME..]);
        }
        receive.ring.give(receive.ring.free());
        Port { receive, transmit, outgoing, incoming, sent: 0, next: 0, counts: Counts::default() }
    }

    /// Takes what arrived and posts its buffers again; returns how many frames that were.
    #[inline(always)]
    pub fn receive<T: Touch>(&mut self) -> Result<u64, OutOfOrder> {
        self.receive.ring.reap(BURST)?;
        let count = self.receive.ring.free();
        if T::SEQUENCED {
            let mut ahead = self.receive.ring.slots(count);
            for slot in ahead.by_ref().take(ahead_of::<T>().into()) {
                fetch::<T>(self.receive.buffers.ptr(slot), prefetch);
            }
            for slot in self.receive.ring.slots(count) {
                if let Some(later) = ahead.next() {
                    fetch::<T>(self.receive.buffers.ptr(later), prefetch);
                }
                // SAFETY: the slot is ours until `give` below, and no other reference is alive.
                let bytes = &unsafe { self.receive.buffers.bytes(slot) }[FRAME..];
                let (sequence, intact) = T::read(bytes, &self.incoming, self.next);
                if sequence == self.next && intact {
                    self.next += 1;
                } else {
                    self.note(sequence, intact);
                }
            }
        } else {
            self.next += count;
        }
        self.counts.received += count;
        self.receive.ring.give(count);
        Ok(count)
    }

    /// Counts a frame that is not the one that was expected.
    #[cold]
    fn note(&mut self, sequence: u64, intact: bool) {
        if !intact {
            // Its sequence number is worth nothing; it fills the place of the one expected.
            self.counts.corrupt += 1;
            self.next += 1;
        } else if sequence < self.next {
            self.counts.late += 1;
        } else {
            self.counts.lost += sequence - self.next;
            self.next = sequence + 1;
        }
    }

    /// Sends up to `room` frames; returns how many. Slots are taken back when they are needed and not before.
    #[inline(always)]
    pub fn send<T: Touch>(&mut self, room: u64) -> Result<u64, OutOfOrder> {
        let wanted = room.min(BURST);
        if self.transmit.ring.free() < wanted {
            self.transmit.ring.reap(wanted)?;
        }
        let count = self.transmit.ring.free().min(wanted);
        if T::SEQUENCED {
            for slot in self.transmit.ring.slots(count) {
                let ahead = (slot + ahead_of::<T>()) % self.transmit.buffers.count();
                fetch::<T>(self.transmit.buffers.ptr(ahead), prefetch_write);
                // SAFETY: the slot is ours until `give` below, and no other reference is alive.
                T::write(&mut unsafe { self.transmit.buffers.bytes_mut(slot) }[FRAME..], &self.outgoing, self.sent);
                self.sent += 1;
            }
        } else {
            self.sent += count;
        }
        self.transmit.ring.give(count);
        Ok(count)
    }

    /// Frames sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The sequence number that comes next: all before it came or were lost.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Gives up on everything before `sequence` that has not come.
    pub fn give_up(&mut self, sequence: u64) {
        self.counts.lost += sequence.saturating_sub(self.next);
        self.next = self.next.max(sequence);
    }

    /// Wakes the device if it sleeps and has something to do.
    pub fn kick(&mut self) -> rustix::io::Result<()> {
        self.receive.kick()?;
        self.transmit.kick()
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}
