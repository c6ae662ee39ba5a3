//! Who sends the signals of an eventfd: the thread that has something to tell, or a deputy if signals take long.
//!
//! A signal may be late, but none is lost while its sender changes: who asks the deputy looks whether it still is the deputy, and a
//! deputy that retires looks for those who have asked.

use crate::sync::{AtomicBool, AtomicU8, Ordering};

/// Who sends a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The thread that has something to tell.
    Itself,
    /// The same, but it looks how long the signal takes: the last one took long.
    Suspected,
    /// The deputy.
    Deputy,
}

const ITSELF: u8 = 0;
const SUSPECTED: u8 = 1;
const DEPUTY: u8 = 2;

/// The sender of one eventfd's signals, and whether the deputy was asked for one.
#[derive(Debug)]
pub struct Deputy {
    sender: AtomicU8,
    is_asked: AtomicBool,
}

impl Default for Deputy {
    fn default() -> Deputy {
        Deputy { sender: AtomicU8::new(ITSELF), is_asked: AtomicBool::new(false) }
    }
}

impl Deputy {
    /// Returns who sends signals now.
    #[inline(always)]
    pub fn sender(&self) -> Sender {
        match self.sender.load(Ordering::Relaxed) {
            ITSELF => Sender::Itself,
            SUSPECTED => Sender::Suspected,
            _ => Sender::Deputy,
        }
    }

    /// Notes that a signal took long.
    pub fn suspect(&self) {
        self.turn(ITSELF, SUSPECTED);
    }

    /// Notes that a signal under suspicion did not take long.
    pub fn acquit(&self) {
        self.turn(SUSPECTED, ITSELF);
    }

    /// Gives signals under suspicion to the deputy. Returns false if another thread has done so, or has found them quick.
    pub fn appoint(&self) -> bool {
        self.turn(SUSPECTED, DEPUTY)
    }

    fn turn(&self, from: u8, to: u8) -> bool {
        self.sender.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Asks the deputy for a signal, and wakes it by `wake` if nobody has asked before. Returns true if it retired meanwhile: then
    /// the caller sends the signal.
    #[must_use]
    pub fn ask(&self, wake: impl FnOnce()) -> bool {
        if self.is_asked.swap(true, Ordering::AcqRel) {
            return false;
        }
        wake();
        // If the deputy looked for requests before this one, this sees that it has retired.
        self.sender.load(Ordering::Acquire) != DEPUTY && self.take()
    }

    /// The deputy takes a request for a signal. Reports whether there was one.
    #[must_use]
    pub fn take(&self) -> bool {
        self.is_asked.swap(false, Ordering::AcqRel)
    }

    /// The deputy retires. Returns true if it still has to send a signal.
    #[must_use]
    pub fn retire(&self) -> bool {
        self.sender.store(ITSELF, Ordering::Release);
        self.take()
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::sync::atomic::AtomicU64;
    use loom::thread;

    /// Things to tell, and how many of them the last signal told of.
    struct Told {
        deputy: Deputy,
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
            match self.deputy.sender() {
                Sender::Deputy => {
                    if self.deputy.ask(|| ()) {
                        self.signal();
                    }
                }
                _ => self.signal(),
            }
        }
    }

    /// Two threads tell something while the deputy serves, and retires by `retire`. Then somebody has signalled all, or the deputy
    /// is still asked, and appointed. A thread is interrupted up to twice: more would take minutes, and one finds each broken twin.
    fn nothing_is_left_untold(retire: fn(&Deputy) -> bool) {
        let mut most = loom::model::Builder::new();
        most.preemption_bound = Some(2);
        most.check(move || {
            let told = Told { deputy: Deputy::default(), things: AtomicU64::new(0), signalled: AtomicU64::new(0) };
            let told = loom::sync::Arc::new(told);
            told.deputy.suspect();
            assert!(told.deputy.appoint());
            let tellers = [(); 2].map(|()| {
                let told = told.clone();
                thread::spawn(move || told.tell())
            });
            let deputy = {
                let told = told.clone();
                thread::spawn(move || {
                    if told.deputy.take() {
                        told.signal();
                    }
                    if retire(&told.deputy) {
                        told.signal();
                    }
                })
            };
            tellers.into_iter().for_each(|teller| teller.join().unwrap());
            deputy.join().unwrap();
            assert_eq!(told.signalled.load(Ordering::Acquire), 2, "a signal is lost");
        });
    }

    #[test]
    fn no_signal_is_lost_when_the_deputy_retires() {
        nothing_is_left_untold(Deputy::retire);
    }

    #[test]
    #[should_panic(expected = "a signal is lost")]
    fn a_deputy_that_retires_without_looking_is_caught() {
        nothing_is_left_untold(|deputy| {
            deputy.sender.store(ITSELF, Ordering::Release);
            false
        });
    }

    #[test]
    #[should_panic(expected = "a signal is lost")]
    fn a_deputy_that_looks_before_it_retires_is_caught() {
        nothing_is_left_untold(|deputy| {
            let asked = deputy.take();
            deputy.sender.store(ITSELF, Ordering::Release);
            asked
        });
    }
}
