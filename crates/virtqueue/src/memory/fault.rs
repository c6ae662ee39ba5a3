//! SIGBUS handling: the process survives a guest whose memory loses pages after we mapped it.
//!
//! Touching a page beyond the end of a file that shrank, or a hole of a guarded one ([`super::guard`]), raises SIGBUS in the thread
//! that touched it. The handler replaces the page by zeros of our own, marks the mapping broken and returns, so that the access is
//! repeated and succeeds; its queue finds the mark after the burst and stops. To replace the whole mapping at once would cost the
//! thread as much time as the guest has memory; that is done when many pages are gone, as each of them takes two of the process's
//! memory areas. Any other SIGBUS goes to the previous handler.

use super::error::{MemoryError, SLOTS};
use crate::ordering::{alter, get, put, whole};
use rustix::io::Errno;
#[cfg(not(miri))]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

struct Slot {
    taken: AtomicBool,
    /// Guards the range: the handler may read it while another thread takes the slot, and must not see half of each.
    sequence: AtomicU64,
    start: AtomicU64,
    /// Zero while the slot is free, so that the handler skips it.
    len: AtomicU64,
    /// Size of the largest pages in the range, which starts and ends with such a page.
    page: AtomicU64,
    broken: AtomicBool,
    /// Pages replaced.
    replaced: AtomicU64,
}

/// Most pages that are replaced one by one: a burst has some hundred buffers.
const REPLACED: u64 = 256;

impl Slot {
    fn set(&self, start: u64, len: u64, page: u64) {
        alter(&self.sequence, || {
            put(&self.start, start);
            put(&self.len, len);
            put(&self.page, page);
        });
    }

    /// Returns the part of the watched range to replace, if it contains `addr`, as (start, length): the page, or all of it. A slot
    /// that changes meanwhile cannot be the right one: the touched mapping stays as long as it is used.
    #[cfg_attr(miri, allow(dead_code))]
    fn part_of(&self, addr: u64) -> Option<(u64, u64)> {
        let (start, len, page) = whole(&self.sequence, || (get(&self.start), get(&self.len), get(&self.page)))?;
        let offset = addr.wrapping_sub(start);
        let is_few = || self.replaced.fetch_add(1, Ordering::Relaxed) < REPLACED;
        (offset < len).then(|| if is_few() { (addr - offset % page, page) } else { (start, len) })
    }
}

static SLOTS_TABLE: [Slot; SLOTS] = [const {
    Slot {
        taken: AtomicBool::new(false),
        sequence: AtomicU64::new(0),
        start: AtomicU64::new(0),
        len: AtomicU64::new(0),
        page: AtomicU64::new(1),
        broken: AtomicBool::new(false),
        replaced: AtomicU64::new(0),
    }
}; SLOTS];

/// The watch over one mapping, which ends when dropped.
#[derive(Debug)]
pub(super) struct Watch(usize);

impl Watch {
    /// Watches a range of whole pages of size `page`.
    pub(super) fn new(start: *mut u8, len: usize, page: u64) -> Result<Watch, MemoryError> {
        install().map_err(MemoryError::Handler)?;
        let free = |slot: &Slot| slot.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let index = SLOTS_TABLE.iter().position(free).ok_or(MemoryError::Unwatched)?;
        let slot = &SLOTS_TABLE[index];
        slot.broken.store(false, Ordering::Relaxed);
        slot.replaced.store(0, Ordering::Relaxed);
        slot.set(start.addr() as u64, len as u64, page);
        Ok(Watch(index))
    }

    #[inline(always)]
    pub(super) fn is_broken(&self) -> bool {
        SLOTS_TABLE[self.0].broken.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let slot = &SLOTS_TABLE[self.0];
        slot.set(0, 0, 1);
        slot.taken.store(false, Ordering::Release);
    }
}

#[cfg(miri)]
fn install() -> Result<(), Errno> {
    Ok(())
}

#[cfg(not(miri))]
fn install() -> Result<(), Errno> {
    static DONE: OnceLock<Result<(), Errno>> = OnceLock::new();
    *DONE.get_or_init(|| {
        // SAFETY: `on_fault` has the signature that SA_SIGINFO requires and does only what a signal handler may; the
        // structures are plain data for which zeros are valid.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGBUS, &action, &mut before) != 0 {
                return Err(Errno::INVAL);
            }
            PREVIOUS.store(before.sa_sigaction, Ordering::Release);
        }
        Ok(())
    })
}

/// The previous handler: `SIG_DFL`, `SIG_IGN` or a function.
#[cfg_attr(miri, allow(dead_code))]
static PREVIOUS: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

#[cfg_attr(miri, allow(dead_code))]
extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo, whose si_addr is set for SIGBUS.
    let addr = unsafe { (*info).si_addr() }.addr() as u64;
    for slot in &SLOTS_TABLE {
        if let Some((start, len)) = slot.part_of(addr) {
            slot.broken.store(true, Ordering::Relaxed);
            // SAFETY: mmap is a bare system call, allowed in a handler; the range is, or is part of, a watched mapping of ours, still
            // mapped because its owner ends the watch before it unmaps it.
            let mapped = unsafe {
                libc::mmap(
                    start as *mut libc::c_void,
                    len as usize,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            if mapped != libc::MAP_FAILED {
                return;
            }
        }
    }
    let previous = PREVIOUS.load(Ordering::Acquire);
    if previous != libc::SIG_DFL && previous != libc::SIG_IGN {
        // SAFETY: it was registered as a handler of this signal; a one-argument handler ignores the other two.
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
            unsafe { std::mem::transmute(std::ptr::without_provenance::<()>(previous)) };
        handler(signal, info, context);
        return;
    }
    // SAFETY: restores the default action; returning repeats the access, which then ends the process as it should.
    unsafe {
        libc::signal(libc::SIGBUS, libc::SIG_DFL);
    }
}
