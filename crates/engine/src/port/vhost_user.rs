//! vhost-user ports, device role: rings in guest memory, handed over by a session and driven by workers.

use super::{Receive, Sent, Transmit, Wait};
use crate::aggregate::{Live, Reader};
use crate::drops::{Drops, Reason};
use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use vhost_user::Event;
use virtqueue::device::{Dequeue, DropCounts, Enqueue, Loan};
use virtqueue::memory::Memory;
use virtqueue::{Burst, Fatal, Frames, ordering};

/// Report to the control side that a queue had to stop, and why.
#[derive(Debug, Default)]
pub struct Fault {
    raised: AtomicBool,
    reason: Mutex<Option<Ending>>,
    memory: Mutex<Weak<Memory>>,
}

/// Reason for which a guest's connection has to end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ending {
    /// The guest broke its ring.
    #[error("the guest broke its ring and is disconnected: {0}")]
    Broken(#[from] Fatal),
    /// Some of the guest's buffers cannot be returned, see [`Fault::withhold`].
    #[error("the guest is disconnected: {0}")]
    Withheld(String),
}

impl Fault {
    #[cold]
    fn raise(&self, ending: impl Into<Ending>) {
        if !self.raised.swap(true, Ordering::AcqRel) {
            // Uncontended: only the first to raise it comes here, once in the life of a connection.
            *self.reason.lock().unwrap() = Some(ending.into());
        }
    }

    /// Disconnects the guest, because something still owns some of its buffers, so that they cannot be returned.
    pub fn withhold(&self, why: String) {
        self.raise(Ending::Withheld(why));
    }

    #[inline(always)]
    fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// Takes the reason if a queue stopped since the last call, or if the guest's memory shrank. Then calls `end`,
    /// which has to end the connection; no other connection begins meanwhile.
    pub fn take(&self, end: impl FnOnce()) -> Option<Ending> {
        let shrank = self.memory.lock().unwrap().upgrade().is_some_and(|m| m.is_broken());
        if shrank {
            self.raise(Fatal::MemoryShrank);
        }
        let mut reason = self.reason.lock().unwrap();
        let taken = reason.take()?;
        end();
        // Errors of the rings since then come from the zeros that replaced the memory.
        Some(if shrank { Fatal::MemoryShrank.into() } else { taken })
    }

    /// Also watches the memory that the guest's queues use from now on.
    pub fn watch(&self, memory: &Arc<Memory>) {
        *self.memory.lock().unwrap() = Arc::downgrade(memory);
    }

    /// Clears the fault for a new connection.
    pub fn clear(&self) {
        *self.reason.lock().unwrap() = None;
        self.raised.store(false, Ordering::Release);
    }
}

/// Call descriptor of a queue, which may change while the queue runs; `None` if the guest polls.
#[derive(Clone)]
pub struct Call(Arc<Live<Option<Arc<Event>>>>);

impl Call {
    /// Returns a call by this descriptor.
    pub fn new(fd: Option<Arc<Event>>) -> Call {
        Call(Arc::new(Live::new(fd)))
    }

    /// Replaces the descriptor.
    pub fn set(&self, fd: Option<Arc<Event>>) {
        self.0.set(fd);
    }
}

/// State of the connection that both halves have.
struct Common {
    call: RefCell<Reader<Option<Arc<Event>>>>,
    fault: Arc<Fault>,
    drops: Arc<Drops>,
    counted: Cell<DropCounts>,
    cut_short: Cell<u64>,
}

impl Common {
    fn new(call: Call, fault: Arc<Fault>, drops: Arc<Drops>) -> Common {
        let call = RefCell::new(Reader::new(call.0));
        let common = Common { call, fault, drops, counted: Cell::default(), cut_short: Cell::new(0) };
        // The previous device may have died after it published buffers and before it notified the guest.
        common.notify();
        common
    }

    fn notify(&self) {
        let mut call = self.call.borrow_mut();
        call.refresh();
        if let Some(call) = &**call.value() {
            call.notify();
        }
    }

    /// Counts chains that the ring returned without a frame.
    #[cold]
    fn count_dropped(&self, now: DropCounts) {
        let before = self.counted.replace(now);
        let reasons = [
            (Reason::BadBuffer, now.bad_buffer - before.bad_buffer),
            (Reason::Runt, now.short - before.short),
            (Reason::TooLong, now.too_long - before.too_long),
        ];
        reasons.into_iter().filter(|r| r.1 > 0).for_each(|(reason, n)| self.drops.add(reason, n));
    }

    /// Counts bursts that the ring cut short.
    #[cold]
    fn count_cut_short(&self, now: u64) {
        self.drops.add_cut_short(now - self.cut_short.replace(now));
    }
}

/// A guest's transmit queue.
pub struct VhostReceive {
    ring: Dequeue,
    kick: Option<Event>,
    common: Common,
}

/// A guest's receive queue.
pub struct VhostTransmit {
    ring: Enqueue,
    common: Common,
}

impl VhostReceive {
    /// Returns a half that takes frames from `ring`; `kick` is readable when the guest was asked to kick and did.
    pub fn new(ring: Dequeue, kick: Option<Event>, call: Call, fault: Arc<Fault>, drops: Arc<Drops>) -> Self {
        ring.set_kicks(false);
        VhostReceive { ring, kick, common: Common::new(call, fault, drops) }
    }
}

impl Receive for VhostReceive {
    #[inline]
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        if self.common.fault.is_raised() {
            return false;
        }
        match self.ring.receive(burst) {
            Ok(taken) => {
                if taken != burst.len() {
                    self.common.count_dropped(self.ring.dropped());
                }
                if self.ring.cut_short() != self.common.cut_short.get() {
                    self.common.count_cut_short(self.ring.cut_short());
                }
                taken > 0
            }
            Err(fatal) => {
                self.common.fault.raise(fatal);
                burst.retain(|_, _| false);
                false
            }
        }
    }

    #[inline]
    fn recycle(&self) {
        self.ring.recycle();
    }

    #[inline]
    fn keep(&self, places: u32) {
        self.ring.keep(places);
    }

    #[inline]
    fn release(&self, id: u16) {
        self.ring.release(id);
    }

    #[inline]
    fn notify(&self) {
        if self.ring.wants_notification() {
            self.common.notify();
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.kick.as_ref().map(AsFd::as_fd)
    }

    fn rewire(&mut self, kick: Option<Event>) {
        self.kick = kick;
    }

    fn arm(&self) -> Wait {
        if self.common.fault.is_raised() {
            return Wait::Event;
        }
        self.ring.set_kicks(true);
        ordering::before_asking();
        if self.ring.has_work() {
            return Wait::Ready;
        }
        // A driver without a kick descriptor has to be polled, however rarely.
        if self.kick.is_some() { Wait::Event } else { Wait::Time(std::time::Duration::from_micros(50)) }
    }

    fn disarm(&self) {
        self.ring.set_kicks(false);
    }

    fn base(&self) -> Option<u32> {
        Some(self.ring.base())
    }
}

impl VhostTransmit {
    /// Returns a half that puts frames into `ring`.
    pub fn new(ring: Enqueue, call: Call, fault: Arc<Fault>, drops: Arc<Drops>) -> Self {
        ring.set_kicks(false);
        VhostTransmit { ring, common: Common::new(call, fault, drops) }
    }

    /// See [`Enqueue::lend`].
    #[inline(always)]
    pub(super) fn lend(&self, room: u32, keep: u32) -> Option<Loan> {
        match self.ring.lend(room, keep) {
            Ok(loan) => loan,
            Err(fatal) => {
                self.common.fault.raise(fatal);
                None
            }
        }
    }

    /// Returns all posted and unused buffers to the guest, if a successor could not tell which they are.
    pub fn close(&self) {
        self.ring.close();
    }

    /// Returns the ring, to which loans are returned.
    #[inline(always)]
    pub(super) fn ring(&self) -> &Enqueue {
        &self.ring
    }
}

impl Transmit for VhostTransmit {
    #[inline]
    fn guest(&self) -> Option<&VhostTransmit> {
        (!self.common.fault.is_raised()).then_some(self)
    }

    #[inline]
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        if self.common.fault.is_raised() {
            return Sent::none(Reason::Down);
        }
        match self.ring.transmit(frames) {
            Ok(done) => {
                if self.ring.dropped() != self.common.counted.get() {
                    self.common.count_dropped(self.ring.dropped());
                }
                if done.over_budget > 0 {
                    self.common.drops.add(Reason::Budget, done.over_budget.into());
                }
                Sent {
                    frames: done.frames,
                    bytes: done.bytes,
                    too_long: done.too_long,
                    counted: done.over_budget,
                    rest: Some(Reason::NoBuffers),
                    ..Sent::default()
                }
            }
            Err(fatal) => {
                self.common.fault.raise(fatal);
                Sent::none(Reason::Down)
            }
        }
    }

    #[inline]
    fn notify(&self) {
        if self.ring.wants_notification() {
            self.common.notify();
        }
    }

    fn base(&self) -> Option<u32> {
        Some(self.ring.base())
    }
}
