//! Survives a guest that shrinks its memory file after we mapped it.
//!
//! Touching a page that is no longer backed raises SIGBUS in whichever thread touched it. The handler puts anonymous
//! zero pages in the place of the whole mapping, marks it broken and returns, so that the access is repeated and
//! succeeds; the queue that did it notices the mark after its burst and stops. Any other SIGBUS is left to whoever
//! handled it before us.

#[cfg(not(miri))]
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Mappings that can be watched at once; beyond that, a shrinking file is fatal again.
const SLOTS: usize = 1024;

struct Slot {
    taken: AtomicBool,
    start: AtomicUsize,
    /// Zero while the slot is free or being filled in, so that the handler skips it.
    len: AtomicUsize,
    broken: AtomicBool,
}

static SLOTS_TABLE: [Slot; SLOTS] = [const {
    Slot {
        taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        broken: AtomicBool::new(false),
    }
}; SLOTS];

/// Keeps one mapping under watch until dropped.
#[derive(Debug)]
pub(super) struct Watch(Option<usize>);

impl Watch {
    pub(super) fn new(start: *mut u8, len: usize) -> Watch {
        install();
        let free = |slot: &Slot| slot.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let index = SLOTS_TABLE.iter().position(free);
        if let Some(slot) = index.map(|i| &SLOTS_TABLE[i]) {
            slot.broken.store(false, Ordering::Relaxed);
            slot.start.store(start as usize, Ordering::Relaxed);
            slot.len.store(len, Ordering::Release);
        }
        Watch(index)
    }

    #[inline(always)]
    pub(super) fn is_broken(&self) -> bool {
        self.0.is_some_and(|i| SLOTS_TABLE[i].broken.load(Ordering::Relaxed))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(slot) = self.0.map(|i| &SLOTS_TABLE[i]) {
            slot.len.store(0, Ordering::Release);
            slot.taken.store(false, Ordering::Release);
        }
    }
}

#[cfg(miri)]
fn install() {}

#[cfg(not(miri))]
fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `on_fault` has the signature that SA_SIGINFO asks for and does only what a signal handler may; the
        // structures are plain data for which zeros are valid.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGBUS, &action, &mut before) == 0 {
                PREVIOUS.store(before.sa_sigaction, Ordering::Release);
            }
        }
    });
}

/// Handler that was there before ours: `SIG_DFL`, `SIG_IGN` or a function.
#[cfg_attr(miri, allow(dead_code))]
static PREVIOUS: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

#[cfg_attr(miri, allow(dead_code))]
extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo, whose si_addr is set for SIGBUS.
    let addr = unsafe { (*info).si_addr() } as usize;
    for slot in &SLOTS_TABLE {
        let len = slot.len.load(Ordering::Acquire);
        let start = slot.start.load(Ordering::Relaxed);
        if addr.wrapping_sub(start) < len {
            slot.broken.store(true, Ordering::Relaxed);
            // SAFETY: mmap is a bare system call, fine in a handler; the range is a watched mapping of ours, still
            // mapped because its owner unwatches it first.
            let mapped = unsafe {
                libc::mmap(
                    start as *mut libc::c_void,
                    len,
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
