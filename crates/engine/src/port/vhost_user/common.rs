//! State that both queues of a guest's queue pair have: how the guest is notified, and how its faults are reported.

use crate::drops::{Drops, Reason};
use crate::live::{Live, Reader};
use crate::port::SessionFault;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use vhost_user::Event;
use virtqueue::Fatal;
use virtqueue::device::DropCounts;
use virtqueue::memory::Memory;

/// Call descriptor of a queue, which may change while the queue runs; `None` if the guest polls.
#[derive(Clone)]
pub struct Call(Arc<Live<Option<Event>>>);

impl Call {
    /// Returns a call by this descriptor.
    pub fn new(fd: Option<Event>) -> Call {
        Call(Arc::new(Live::new(fd)))
    }

    /// Replaces the descriptor.
    pub fn set(&self, fd: Option<Event>) {
        self.0.set(fd);
    }
}

/// State of the connection that both halves have.
pub(super) struct Common {
    call: RefCell<Reader<Option<Event>>>,
    pub(super) fault: Arc<SessionFault>,
    pub(super) drops: Arc<Drops>,
    pub(super) counted: Cell<DropCounts>,
    pub(super) cut_short: Cell<u64>,
}

impl Common {
    pub(super) fn new(call: Call, fault: Arc<SessionFault>, drops: Arc<Drops>) -> Common {
        let call = RefCell::new(Reader::new(call.0));
        let common = Common { call, fault, drops, counted: Cell::default(), cut_short: Cell::new(0) };
        // The previous device may have died after it published buffers and before it notified the guest.
        common.notify();
        common
    }

    pub(super) fn notify(&self) {
        let mut call = self.call.borrow_mut();
        call.refresh();
        if let Some(call) = &**call.value() {
            call.notify();
        }
    }

    /// Reports whether the queue may continue: it must not once pages of the guest's memory have vanished, as each further
    /// one costs time.
    #[inline(always)]
    pub(super) fn may_continue(&self, memory: &Memory) -> bool {
        if memory.is_broken() {
            self.fault.raise(Fatal::MemoryVanished);
        }
        !self.fault.is_raised()
    }

    /// Counts chains that the ring returned without a frame.
    #[cold]
    pub(super) fn count_dropped(&self, now: DropCounts) {
        let before = self.counted.replace(now);
        let reasons = [
            (Reason::BadBuffer, now.bad_buffer - before.bad_buffer),
            (Reason::Runt, now.short - before.short),
            (Reason::TooLong, now.too_long - before.too_long),
            (Reason::BadOffload, now.bad_offload - before.bad_offload),
        ];
        reasons.into_iter().filter(|r| r.1 > 0).for_each(|(reason, n)| self.drops.add(reason, n));
    }

    /// Counts bursts that the ring cut short.
    #[cold]
    pub(super) fn count_cut_short(&self, now: u64) {
        self.drops.add_cut_short(now - self.cut_short.replace(now));
    }
}
