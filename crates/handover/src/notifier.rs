//! Wakes a control thread that sleeps.

use crate::sync::{AtomicBool, Ordering};
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::OwnedFd;

/// Wake-up of the control side, once for all packets pushed before it answers.
pub struct EventNotifier {
    signal: Signal,
    fd: OwnedFd,
}

/// Says that the control side was woken, and has not answered. Both sides exchange it, so the later one sees what the other
/// did before.
struct Signal(AtomicBool);

impl Signal {
    /// Sets the signal. Returns whether it was clear.
    fn set(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    fn clear(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}

impl EventNotifier {
    /// Returns a notifier that is clear.
    pub fn new() -> std::io::Result<EventNotifier> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(EventNotifier { signal: Signal(AtomicBool::new(false)), fd })
    }

    /// Announces a packet: makes a system call only if it is not signalled already.
    #[inline]
    pub fn notify(&self) {
        if self.signal.set() {
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    /// Clears the notifier. Call this before reading the rings.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        self.signal.clear();
    }

    /// Returns a descriptor that is readable from [`EventNotifier::notify`] to [`EventNotifier::clear`].
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::punt::Punt;
    use crate::ring::Ring;
    use loom::sync::Arc;
    use loom::thread;

    /// A worker pushes a packet while the control side answers an earlier one: it takes this one too, or is woken again. The
    /// signal stands for the eventfd, which is written if the signal was clear.
    fn no_packet_waits_for_one_who_sleeps(set: fn(&Signal) -> bool, clear: fn(&Signal)) {
        loom::model(move || {
            let shared = Arc::new((Ring::new(8), Signal(AtomicBool::new(true))));
            let worker = {
                let shared = shared.clone();
                thread::spawn(move || {
                    shared.0.push(&Punt::default(), &[]);
                    set(&shared.1)
                })
            };
            let (ring, signal) = &*shared;
            clear(signal);
            let taken = ring.pop(&mut Vec::new()).is_some();
            let woke = worker.join().unwrap();
            assert!(taken || woke, "a packet waits while the control side sleeps");
        });
    }

    #[test]
    fn one_sees_the_other() {
        no_packet_waits_for_one_who_sleeps(Signal::set, Signal::clear);
    }

    #[test]
    #[should_panic(expected = "a packet waits while the control side sleeps")]
    fn a_signal_that_is_set_relaxed_is_caught() {
        no_packet_waits_for_one_who_sleeps(|signal| !signal.0.swap(true, Ordering::Relaxed), Signal::clear);
    }

    #[test]
    #[should_panic(expected = "a packet waits while the control side sleeps")]
    fn a_signal_that_is_cleared_by_a_store_is_caught() {
        no_packet_waits_for_one_who_sleeps(Signal::set, |signal| signal.0.store(false, Ordering::Release));
    }
}
