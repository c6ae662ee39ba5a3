//! Pages of a guest's memory that do not exist yet.
//!
//! The first to touch such a page allocates it, and pays for it. With [`Holes::Fill`] that is a thread of the session's, below the
//! priority of workers, when the guest shares the memory: no worker waits for it, and a guest gets no more than the machine and the
//! control group can spare.

use super::control::Control;
use super::holes::Holes;
use crate::own_time::own_time;
use crate::rate_limited_log::RateLimitedLog;
use crate::room::Room;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use virtqueue::memory::{Absent, Memory, MemoryError};

/// Longest time that the pages of a guest may take: some seconds are usual, but others may need the processor.
const LONGEST: Duration = Duration::from_secs(600);

/// Steps between two checks of the free memory: a check takes as long as a step whose pages exist already.
const LOOK: u32 = 16;

/// Priority of the thread that allocates, as a nice value: next to a worker on the same processor it gets a quarter of it.
const NICE: i32 = 5;

/// Bytes that all sessions of the process have still to allocate.
static PROMISED: AtomicU64 = AtomicU64::new(0);

/// Bytes that one session has still to allocate, until this is dropped.
struct Promise(u64);

impl Promise {
    /// Promises this many bytes if they are at most half of the free memory, and leave the reserve. Otherwise returns the
    /// permitted number.
    fn make(bytes: u64, room: &Room) -> Result<Promise, u64> {
        let left = room.left();
        let allowed = |others: u64| (left.saturating_sub(others) / 2).min(left.saturating_sub(room.reserve() + others));
        let fits = |others: u64| (bytes <= allowed(others)).then(|| others + bytes);
        match PROMISED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(Promise(bytes)),
            Err(others) => Err(allowed(others)),
        }
    }

    /// This many bytes of it are allocated.
    fn keep(&mut self, bytes: u64) {
        let kept = bytes.min(self.0);
        self.0 -= kept;
        PROMISED.fetch_sub(kept, Ordering::Relaxed);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        PROMISED.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Reason for which the pages of a guest were not all allocated.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfilled {
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error(
        "not all of its memory exists ({} may be missing), and the port has holes = \"refuse\": allocate it before the guest \
         connects (QEMU: prealloc=on)",
        mebibytes(*.0)
    )]
    Missing(u64),
    #[error(
        "{} of its memory do not exist yet, and the switch may allocate {} for it, half of what the machine or the control group \
         (memory.max) has free, less what it keeps for others: allocate the guest's memory before it connects (QEMU: prealloc=on), or \
         give the switch more",
        mebibytes(*.missing), mebibytes(*.allowed)
    )]
    TooMuch { missing: u64, allowed: u64 },
    #[error(
        "its memory loses pages while it is allocated, or other programs need memory: {} are left; give the switch more (memory.max)",
        mebibytes(*.0)
    )]
    Exhausted(u64),
    #[error(
        "its memory was not allocated within {} s: allocate it before the guest connects (QEMU: prealloc=on)",
        LONGEST.as_secs()
    )]
    Slow,
    #[error("disconnected by this side")]
    Dropped,
    #[error("cannot start a thread to allocate its memory: {0}")]
    Thread(std::io::Error),
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// Lets all pages of a guest's memory exist, as `holes` says. Returns the processor time that it took, too.
pub(super) fn fill(
    memory: &Memory,
    holes: Holes,
    control: &Control,
    log: &RateLimitedLog,
) -> (Duration, Result<(), Unfilled>) {
    let missing = memory.missing();
    let absent = match holes {
        Holes::Allow => return (Duration::ZERO, Ok(())),
        Holes::Refuse => Absent::Refuse,
        Holes::Fill => Absent::Allocate,
    };
    let room = Room::get();
    let pages = if absent == Absent::Allocate { missing.pages } else { 0 };
    let all = pages + missing.page_tables;
    let mut promise = match Promise::make(all, room) {
        Ok(promise) => promise,
        Err(allowed) => return (Duration::ZERO, Err(Unfilled::TooMuch { missing: all, allowed })),
    };
    let (began, mut steps, mut left) = (Instant::now(), 0u32, u64::MAX);
    let go_on = |step: u64| {
        if steps.is_multiple_of(LOOK) {
            left = room.left();
        }
        steps += 1;
        promise.keep(step);
        if control.is_dropped() {
            Err(Unfilled::Dropped)
        } else if began.elapsed() > LONGEST {
            Err(Unfilled::Slow)
        } else if left < room.reserve() / 2 {
            // The guest takes away allocated pages, or another process needs the memory.
            Err(Unfilled::Exhausted(left))
        } else {
            Ok(())
        }
    };
    let (took, filled) = std::thread::scope(|scope| {
        let fill = || {
            let _ = rustix::process::setpriority_process(None, NICE);
            let filled = memory.fill(absent, go_on);
            (own_time(), filled)
        };
        match std::thread::Builder::new().name("guest-memory".into()).spawn_scoped(scope, fill) {
            Ok(thread) => thread.join().expect("it does not panic"),
            Err(error) => (Duration::ZERO, Err(Unfilled::Thread(error))),
        }
    });
    let filled = filled.map_err(|why| match why {
        Unfilled::Memory(MemoryError::Fill { .. }) if absent == Absent::Refuse => Unfilled::Missing(missing.pages),
        why => why,
    });
    if filled.is_ok() && pages >= WORTH_A_LINE {
        log.info(format_args!("allocated {} of its memory that did not exist", mebibytes(pages)));
    }
    (took, filled)
}

/// Bytes that are worth a line in the log.
const WORTH_A_LINE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_share_half_of_the_free_memory() {
        let directory = tempfile::tempdir().unwrap();
        let room = Room::with(directory.path(), 1000);
        let first = Promise::make(300, &room).unwrap();
        assert_eq!(Promise::make(400, &room).err(), Some(350), "the other one has not got its own yet");
        let second = Promise::make(350, &room).unwrap();
        assert_eq!(Promise::make(101, &room).err(), Some(100), "a quarter stays for others");
        drop((first, second));
        assert_eq!(Promise::make(501, &room).err(), Some(500));
        let mut promise = Promise::make(500, &room).unwrap();
        promise.keep(400);
        assert_eq!(Promise::make(451, &room).err(), Some(450), "what is allocated is no longer free");
        promise.keep(1000);
    }
}
