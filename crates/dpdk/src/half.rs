//! A half of a queue, which its worker and the device's control functions use in turn.

use crate::abi::Table;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A half of a queue in the plugin. It is used by who has claimed it.
pub struct Half<T: 'static> {
    turn: Turn,
    /// Whether the device runs the queue. Only who has claimed it reads or writes this.
    running: AtomicBool,
    raw: NonNull<T>,
    table: &'static Table,
    close: unsafe extern "C" fn(*mut T),
}

// SAFETY: the plugin has no state that belongs to a thread. All access to `raw` is by a claim, of which there is one at a time, but for
// counters, which the plugin writes and reads as atomics.
unsafe impl<T> Send for Half<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Half<T> {}

impl<T> Half<T> {
    /// Takes over a half of the plugin.
    ///
    /// # Safety
    ///
    /// `raw` is a half that `table` has opened, nothing else uses it, and `close` closes it. The device has let it go when this is
    /// dropped.
    pub unsafe fn new(table: &'static Table, raw: NonNull<T>, close: unsafe extern "C" fn(*mut T)) -> Half<T> {
        Half { turn: Turn::default(), running: AtomicBool::new(false), raw, table, close }
    }

    /// Claims it, unless another thread has it. A worker never waits.
    #[inline]
    pub fn try_claim(&self) -> Option<Claim<'_, T>> {
        self.turn.take().map(|_turn| Claim { half: self, _turn })
    }

    /// Claims it, and waits for the call in which its worker is. For control functions.
    pub fn claim(&self) -> Claim<'_, T> {
        loop {
            if let Some(claim) = self.try_claim() {
                return claim;
            }
            thread::sleep(Duration::from_micros(20));
        }
    }

    /// Returns the half without a claim, for functions of the plugin that only read counters.
    pub fn peek(&self) -> *const T {
        self.raw.as_ptr()
    }

    /// Returns the plugin's functions.
    #[inline]
    pub fn table(&self) -> &'static Table {
        self.table
    }

    /// Claims it if the device runs it. For workers.
    #[inline]
    pub fn running(&self) -> Option<Claim<'_, T>> {
        self.try_claim().filter(|claim| claim.half.running.load(Ordering::Relaxed))
    }
}

impl<T> Drop for Half<T> {
    fn drop(&mut self) {
        // SAFETY: nobody has a reference any more, and the device has let it go (`new`).
        unsafe { (self.close)(self.raw.as_ptr()) };
    }
}

/// Sole use of a half, until it is dropped.
pub struct Claim<'a, T: 'static> {
    half: &'a Half<T>,
    _turn: Taken<'a>,
}

impl<T> Claim<'_, T> {
    /// Returns the half, for functions of the plugin.
    #[inline]
    pub fn raw(&self) -> *mut T {
        self.half.raw.as_ptr()
    }

    /// Returns the plugin's functions.
    #[inline]
    pub fn table(&self) -> &'static Table {
        self.half.table()
    }

    /// Says whether the device runs the queue.
    pub fn set_running(&self, running: bool) {
        self.half.running.store(running, Ordering::Relaxed);
    }
}

/// The turn of one thread at a time.
#[derive(Default)]
struct Turn(AtomicBool);

impl Turn {
    /// Takes it, unless another thread has it.
    #[inline]
    fn take(&self) -> Option<Taken<'_>> {
        if self.0.swap(true, Ordering::Acquire) { None } else { Some(Taken(&self.0)) }
    }
}

/// A turn, until it is dropped.
struct Taken<'a>(&'a AtomicBool);

impl Drop for Taken<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_get_a_turn_leaves_it_to_who_has_it() {
        let turn = Turn::default();
        let taken = turn.take().unwrap();
        for _ in 0..2 {
            assert!(turn.take().is_none());
        }
        drop(taken);
        assert!(turn.take().is_some() && turn.take().is_some());
    }
}
