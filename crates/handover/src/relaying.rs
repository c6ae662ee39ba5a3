//! The choice of the thread that signals an eventfd: the notifying thread itself, or a relay if signals take long.
//!
//! A signal may be late, but none is lost while its sender changes: a thread that has asked the relay checks that the eventfd
//! still is the relay's, and a relay that gives it back checks for threads that have asked.

use crate::sync::{AtomicBool, AtomicU8, Ordering};

/// The thread that sends a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The notifying thread.
    Itself,
    /// The notifying thread, which measures how long the signal takes: the last one took long.
    Timed,
    /// The relay.
    Relay,
}

const ITSELF: u8 = 0;
const TIMED: u8 = 1;
const RELAY: u8 = 2;

/// The sender of one eventfd's signals, and whether the relay was asked for one.
#[derive(Debug)]
pub struct Relaying {
    sender: AtomicU8,
    is_asked: AtomicBool,
}

impl Default for Relaying {
    fn default() -> Relaying {
        Relaying { sender: AtomicU8::new(ITSELF), is_asked: AtomicBool::new(false) }
    }
}

impl Relaying {
    /// Returns the present sender of signals.
    #[inline(always)]
    pub fn sender(&self) -> Sender {
        match self.sender.load(Ordering::Relaxed) {
            ITSELF => Sender::Itself,
            TIMED => Sender::Timed,
            _ => Sender::Relay,
        }
    }

    /// Notes that a signal took long: the next one is timed.
    pub fn took_long(&self) {
        self.turn(ITSELF, TIMED);
    }

    /// Notes that a timed signal did not take long.
    pub fn was_quick(&self) {
        self.turn(TIMED, ITSELF);
    }

    /// Gives the eventfd to the relay. Returns false if another thread has done so, or has found a signal quick.
    pub fn hand_over(&self) -> bool {
        self.turn(TIMED, RELAY)
    }

    fn turn(&self, from: u8, to: u8) -> bool {
        self.sender.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Asks the relay for a signal, and wakes it by `wake` unless a signal is already pending. Returns true if it has given
    /// the eventfd back meanwhile: then the caller sends the signal.
    #[must_use]
    pub fn ask(&self, wake: impl FnOnce()) -> bool {
        if self.is_asked.swap(true, Ordering::AcqRel) {
            return false;
        }
        wake();
        // If the relay looked for requests before this one, this sees that it has given the eventfd back.
        self.sender.load(Ordering::Acquire) != RELAY && self.take()
    }

    /// The relay takes a request for a signal. Reports whether there was one.
    #[must_use]
    pub fn take(&self) -> bool {
        self.is_asked.swap(false, Ordering::AcqRel)
    }

    /// The relay gives the eventfd back. Returns true if it still has to send a signal.
    #[must_use]
    pub fn give_back(&self) -> bool {
        self.sender.store(ITSELF, Ordering::Release);
        self.take()
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::atomic::AtomicU64;
    use loom::thread;

    /// A counter of items to report, and the number that the last signal reported.
    struct Told {
        relaying: Relaying,
        things: AtomicU64,
        signalled: AtomicU64,
    }

    impl Told {
        fn signal(&self) {
            self.signalled.fetch_max(self.things.load(Ordering::Acquire), Ordering::AcqRel);
        }

        /// A thread that has something to tell.
        fn tell(&self) {
            self.things.fetch_add(1, Ordering::AcqRel);
            match self.relaying.sender() {
                Sender::Relay => {
                    if self.relaying.ask(|| ()) {
                        self.signal();
                    }
                }
                _ => self.signal(),
            }
        }
    }

    /// Two threads tell something while the relay serves, and gives the eventfd back by `give_back`. Then all was signalled. A thread
    /// is interrupted up to twice: more would take minutes, and one finds each broken twin.
    fn nothing_is_left_untold(give_back: fn(&Relaying) -> bool) {
        let mut most = loom::model::Builder::new();
        most.preemption_bound = Some(2);
        most.check(move || {
            let told = Told { relaying: Relaying::default(), things: AtomicU64::new(0), signalled: AtomicU64::new(0) };
            let told = loom::sync::Arc::new(told);
            told.relaying.took_long();
            assert!(told.relaying.hand_over());
            let tellers = [(); 2].map(|()| {
                let told = told.clone();
                thread::spawn(move || told.tell())
            });
            let relay = {
                let told = told.clone();
                thread::spawn(move || {
                    if told.relaying.take() {
                        told.signal();
                    }
                    if give_back(&told.relaying) {
                        told.signal();
                    }
                })
            };
            tellers.into_iter().for_each(|teller| teller.join().unwrap());
            relay.join().unwrap();
            assert_eq!(told.signalled.load(Ordering::Acquire), 2, "a signal is lost");
        });
    }

    #[test]
    fn no_signal_is_lost_when_the_relay_gives_it_back() {
        nothing_is_left_untold(Relaying::give_back);
    }

    #[test]
    #[should_panic(expected = "a signal is lost")]
    fn a_relay_that_does_not_look_is_caught() {
        nothing_is_left_untold(|relaying| {
            relaying.sender.store(ITSELF, Ordering::Release);
            false
        });
    }

    #[test]
    #[should_panic(expected = "a signal is lost")]
    fn a_relay_that_looks_too_early_is_caught() {
        nothing_is_left_untold(|relaying| {
            let asked = relaying.take();
            relaying.sender.store(ITSELF, Ordering::Release);
            asked
        });
    }
}
