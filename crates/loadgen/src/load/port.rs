//! One port of the load: source and sink in a tight loop over its two queues.

use super::fixed_ring::{FixedRing, Misused};
use super::frame::{Shape, Touch};
use super::sequence::{Counts, Sequence};
use packet::copy::{prefetch, prefetch_write};
use vhost_user::Event;
use virtqueue::NET_HEADER;

/// Maximum number of frames received or sent before the other direction has its turn.
const BURST: u64 = 64;

/// Number of cache lines to prefetch.
const AHEAD: u16 = 32;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Offset of the frame in a buffer.
const FRAME: usize = NET_HEADER as usize;

/// A queue, and the kick of its device.
pub struct Side {
    /// The queue.
    pub ring: FixedRing,
    /// Wakes its device.
    pub kick: Event,
}

impl Side {
    /// Fills all buffers with frames of this shape.
    fn prepare(&self, shape: &Shape) {
        for slot in self.ring.slots(self.ring.free()) {
            // SAFETY: nothing was given to the device yet, and this is the only reference.
            shape.prepare(&mut unsafe { self.ring.buffers().bytes_mut(self.ring.buffer(slot)) }[FRAME..]);
        }
    }

    /// Returns where the buffer in a slot begins.
    #[inline(always)]
    fn ptr(&self, slot: u16) -> *mut u8 {
        self.ring.buffers().ptr(self.ring.buffer(slot))
    }

    /// Kicks the device if it requested that.
    fn kick(&mut self) {
        if self.ring.wants_kick() {
            self.kick.notify();
        }
    }
}

/// Returns the prefetch distance, in buffers.
const fn ahead_of<T: Touch>() -> u16 {
    AHEAD / T::LINES as u16
}

/// Prefetches the part of the frame in `buffer` that is worth it.
#[inline(always)]
fn fetch<T: Touch>(buffer: *mut u8, ask: fn(*const u8)) {
    (0..T::LINES).for_each(|line| ask(buffer.wrapping_add(FRAME + LINE * line)));
}

/// One port.
pub struct Port {
    receive: Side,
    transmit: Side,
    outgoing: Shape,
    incoming: Shape,
    sent: u64,
    /// Running count of the transmit ring's slots whose buffers were prefetched.
    fetched: u64,
    sequence: Sequence,
}

impl Port {
    /// Creates a port that sends frames like `outgoing` and expects frames like `incoming`, over fresh queues.
    pub fn new(mut receive: Side, transmit: Side, outgoing: Shape, incoming: Shape) -> Port {
        transmit.prepare(&outgoing);
        // If buffers are exchanged, the other port gets these to send in.
        receive.prepare(&incoming);
        receive.ring.give(receive.ring.free());
        Port { receive, transmit, outgoing, incoming, sent: 0, fetched: 0, sequence: Sequence::default() }
    }

    /// Takes received frames and posts their buffers again; returns the number of frames.
    #[inline(always)]
    pub fn receive<T: Touch>(&mut self) -> Result<u64, Misused> {
        self.receive.ring.reap(BURST)?;
        let count = self.receive.ring.free();
        if T::SEQUENCED {
            let mut ahead = self.receive.ring.slots(count);
            for slot in ahead.by_ref().take(ahead_of::<T>().into()) {
                fetch::<T>(self.receive.ptr(slot), prefetch);
            }
            for slot in self.receive.ring.slots(count) {
                if let Some(later) = ahead.next() {
                    fetch::<T>(self.receive.ptr(later), prefetch);
                }
                let ring = &self.receive.ring;
                // SAFETY: the slot is ours until `give` below, and no other reference is alive.
                let bytes = &unsafe { ring.buffers().bytes(ring.buffer(slot)) }[FRAME..];
                let (number, intact) = T::read(bytes, &self.incoming, self.sequence.next());
                self.sequence.note(number, intact);
            }
        } else {
            self.sequence.skip(count);
        }
        self.receive.ring.give(count);
        Ok(count)
    }

    /// Sends up to `room` frames; returns how many. Takes back slots only when it needs them.
    #[inline(always)]
    pub fn send<T: Touch>(&mut self, room: u64) -> Result<u64, Misused> {
        let wanted = room.min(BURST);
        if self.transmit.ring.free() < wanted {
            self.transmit.ring.reap(wanted + u64::from(ahead_of::<T>()))?;
        }
        let count = self.transmit.ring.free().min(wanted);
        if T::SEQUENCED {
            for slot in self.transmit.ring.slots(count) {
                self.fetch_ahead::<T>();
                let ring = &self.transmit.ring;
                // SAFETY: the slot is ours until `give` below, and no other reference is alive.
                let bytes = &mut unsafe { ring.buffers().bytes_mut(ring.buffer(slot)) }[FRAME..];
                T::write(bytes, &self.outgoing, self.sent);
                self.sent += 1;
            }
        } else {
            self.sent += count;
        }
        self.transmit.ring.give(count);
        Ok(count)
    }

    /// Prefetches the next buffers to send in, if they are known: a slot that the device has may come back with another.
    #[inline(always)]
    fn fetch_ahead<T: Touch>(&mut self) {
        let ring = &self.transmit.ring;
        let end = (self.sent + u64::from(ahead_of::<T>())).min(ring.known());
        self.fetched = self.fetched.max(self.sent);
        while self.fetched < end {
            fetch::<T>(self.transmit.ptr(ring.slot(self.fetched)), prefetch_write);
            self.fetched += 1;
        }
    }

    /// Reads received frames as a function does, and sends them from `to` in the buffers that they came in; returns their number.
    /// Both ports must share their memory.
    #[inline(always)]
    pub fn pass_on<T: Touch>(&mut self, to: &mut Port) -> Result<u64, Misused> {
        self.receive.ring.reap(BURST)?;
        let came = self.receive.ring.free().min(BURST);
        if to.transmit.ring.free() < came {
            to.transmit.ring.reap(came)?;
        }
        let count = came.min(to.transmit.ring.free());
        let slots = self.receive.ring.slots(count).zip(to.transmit.ring.slots(count));
        if T::SEQUENCED {
            self.receive.ring.slots(count).for_each(|slot| fetch::<T>(self.receive.ptr(slot), prefetch));
        }
        for (from, into) in slots {
            let (frame, other) = (self.receive.ring.buffer(from), to.transmit.ring.buffer(into));
            if T::SEQUENCED {
                // SAFETY: the slot is ours until `give` below, and no other reference is alive.
                let bytes = &unsafe { self.receive.ring.buffers().bytes(frame) }[FRAME..];
                std::hint::black_box(T::read(bytes, &self.incoming, self.sequence.next()));
            }
            self.receive.ring.set_buffer(from, other);
            to.transmit.ring.set_buffer(into, frame);
        }
        self.receive.ring.give(count);
        to.transmit.ring.give(count);
        Ok(count)
    }

    /// Returns the number of frames sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of frames sent to it that have arrived or were lost.
    #[inline(always)]
    pub fn arrived(&self) -> u64 {
        self.sequence.next()
    }

    /// Returns the sequence of received frames.
    pub fn sequence(&mut self) -> &mut Sequence {
        &mut self.sequence
    }

    /// Kicks the device if it sleeps and has work.
    pub fn kick(&mut self) {
        self.receive.kick();
        self.transmit.kick();
    }

    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        self.sequence.counts()
    }
}
