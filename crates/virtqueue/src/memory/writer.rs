//! The one place where the device side writes guest memory. It tells a log which guest addresses changed.
//!
//! A hypervisor that migrates a running guest sends each page again that has changed since. It sees the guest's own
//! writes; it learns of ours from a log (VHOST_F_LOG_ALL). The driver side writes to an [`Arena`](super::Arena), which
//! belongs to this process and needs no log.

use super::Memory;
use crate::ordering;
use crate::ordering::Word;
use packet::Taken;
use packet::copy::Copier;
use std::sync::Arc;

/// Records which bytes of a guest's memory a device has changed.
pub trait DirtyLog {
    /// Whether [`DirtyLog::mark`] records anything. If not, the writer does not look up guest addresses for it.
    const ENABLED: bool = true;

    /// Records that the `len` bytes at `guest_addr` have changed. The writer calls this after the write; the mark must not
    /// become visible before the bytes, or the hypervisor may clear it and then send the old ones.
    fn mark(&self, guest_addr: u64, len: u64);
}

/// No log, for a guest that is not migrated: it costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlogged;

impl DirtyLog for Unlogged {
    const ENABLED: bool = false;

    #[inline(always)]
    fn mark(&self, _: u64, _: u64) {}
}

/// Writes the memory of one guest.
pub(crate) struct Writer<L> {
    /// Translates host pointers to the guest addresses that the log is told.
    memory: Arc<Memory>,
    log: L,
}

impl<L: DirtyLog> Writer<L> {
    pub(crate) fn new(memory: Arc<Memory>, log: L) -> Writer<L> {
        Writer { memory, log }
    }

    /// Writes a word of a ring, as [`ordering::put`].
    #[inline(always)]
    pub(crate) fn put<W: Word>(&self, word: &W, value: W::Value) {
        ordering::put(word, value);
        self.mark_word(word);
    }

    /// Writes a word of a ring unless it has this value already, as [`ordering::put_changed`].
    #[inline(always)]
    pub(crate) fn put_changed<W: Word<Value: PartialEq>>(&self, word: &W, value: W::Value) {
        if ordering::put_changed(word, value) {
            self.mark_word(word);
        }
    }

    /// Writes a word of a ring and makes everything written before visible, as [`ordering::publish`].
    #[inline(always)]
    pub(crate) fn publish<W: Word>(&self, word: &W, value: W::Value) {
        ordering::publish(word, value);
        self.mark_word(word);
    }

    /// Writes `value`, at any alignment.
    ///
    /// # Safety
    /// `to` must be writable for the value, in this memory.
    #[inline(always)]
    pub(crate) unsafe fn write<T>(&self, to: *mut T, value: T) {
        // SAFETY: passed on; the guest may race with us for its own bytes.
        unsafe { to.write_unaligned(value) };
        self.mark(to.cast(), size_of::<T>());
    }

    /// Copies `len` bytes to `to` by `copier`.
    ///
    /// # Safety
    /// As [`Copier::copy`], with `to` in this memory.
    #[inline(always)]
    pub(crate) unsafe fn copy(&self, copier: Copier, to: *mut u8, from: *const u8, len: usize) {
        // SAFETY: passed on.
        unsafe { copier.copy(to, from, len) };
        self.mark(to, len);
    }

    /// Copies a frame of `len` bytes to `to`, and writes the bytes that were `taken` of the frame at `index` over it.
    ///
    /// # Safety
    /// As [`Copier::copy`], with `to` in this memory; `len` is the length of the frame at `index`, of which `taken` was taken.
    #[inline(always)]
    pub(crate) unsafe fn copy_frame<'b>(
        &self,
        copier: Copier,
        to: *mut u8,
        from: *const u8,
        len: usize,
        taken: impl Taken<'b>,
        index: usize,
    ) {
        // SAFETY: passed on; the taken bytes are a frame's first ones.
        unsafe {
            copier.copy(to, from, len);
            taken.put(index, to);
        }
        self.mark(to, len);
    }

    /// Writes the bytes that were `taken` of the frame at `index` to `to`.
    ///
    /// # Safety
    /// `to` must be writable for as many bytes as were taken, in this memory; `index` is that of a frame of these.
    #[inline(always)]
    pub(crate) unsafe fn put_taken<'b>(&self, to: *mut u8, taken: impl Taken<'b>, index: usize) {
        // SAFETY: passed on.
        unsafe { taken.put(index, to) };
        let len = taken.taken(index).len();
        if len > 0 {
            self.mark(to, len);
        }
    }

    /// Moves `len` bytes to `to`, as if by way of a third place: the two runs may overlap.
    ///
    /// # Safety
    /// `from` must be readable for `len` bytes, and `to` writable, in this memory.
    #[inline(always)]
    pub(crate) unsafe fn shift(&self, to: *mut u8, from: *const u8, len: usize) {
        // SAFETY: passed on; the guest may race with us for its own bytes.
        unsafe { from.copy_to(to, len) };
        self.mark(to, len);
    }

    /// Marks the `len` bytes at `start` of a buffer that was lent: the borrower may have written any of them.
    #[inline(always)]
    pub(crate) fn mark_lent(&self, start: *const u8, len: u32) {
        self.mark(start, len as usize);
    }

    #[inline(always)]
    fn mark_word<W>(&self, word: &W) {
        self.mark(std::ptr::from_ref(word).cast(), size_of::<W>());
    }

    #[inline(always)]
    fn mark(&self, start: *const u8, len: usize) {
        if L::ENABLED
            && let Some(guest_addr) = self.memory.guest_addr_of_host(start)
        {
            self.log.mark(guest_addr, len as u64);
        }
    }
}
