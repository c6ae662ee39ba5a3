//! Honest traffic during an attack, and the checks of it.
//!
//! [`Live`] is a Millrace with one worker, on which two honest guests at the ports `c` and `d` exchange frames all the time.
//! The test adds the attacked ports. [`Live::during`] runs the attack on a separate thread and checks that the honest guests
//! keep their rate, that the control socket answers, and that the attacker is still active at the end. Only then does it stop
//! the attack. [`Live::finish`] checks that no frame was lost.
//!
//! Rates are compared with those of a pause of the attack directly after, and again until they match: the machine may be busy
//! with something else at any moment, but not in favour of the pauses for long.
//!
//! ```ignore
//! let mut live = Live::new(patched("a", "b"));
//! let mut rogue = Rogue::connect(&live.home);
//! live.during(|attack| {
//!     while attack.continues() {
//!         rogue.offer_all(TX, &[0]);
//!         attack.strike();
//!     }
//! });
//! live.finish();
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::virtio::{Exchange, Options, Pump};
use crate::{Home, Millrace, SOON, poller, wait_for};
use lab::millrace::config::{Part, RawWorker, patched};
use lab::netns::Namespace;

/// Period over which the honest guests' frames are counted.
const PERIOD: Duration = Duration::from_millis(50);

/// Part of their rate that honest guests keep during an attack.
const KEPT: f64 = 0.8;

/// Time after which a guest that has not had its rate in any period counts as starved.
const STARVED: Duration = Duration::from_secs(20);

/// Number of checks during an attack.
const CHECKS: u32 = 4;

/// A Millrace with honest traffic.
pub struct Live {
    /// Its directory.
    pub home: Home,
    /// The switch.
    pub millrace: Millrace,
    pump: Pump,
}

/// The state of an attack, shared with the attacker.
pub struct Attack {
    stop: AtomicBool,
    pause: AtomicBool,
    strikes: AtomicU64,
}

impl Attack {
    /// Reports whether the attack must continue: the checks are not complete. Returns at the end of a pause.
    pub fn continues(&self) -> bool {
        while self.pause.load(Ordering::Relaxed) && !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        !self.stop.load(Ordering::Relaxed)
    }

    /// Runs `check` while the attack pauses. An attacker that has just begun a strike may end it.
    fn paused<R>(&self, check: impl FnOnce() -> R) -> R {
        self.pause.store(true, Ordering::Relaxed);
        let result = check();
        self.pause.store(false, Ordering::Relaxed);
        result
    }

    /// Records a strike: the attacker was connected, and the switch had to handle it. A strike that waits for the switch shows
    /// that the switch still serves the attacker.
    pub fn strike(&self) {
        self.strikes.fetch_add(1, Ordering::Relaxed);
    }

    fn strikes(&self) -> u64 {
        self.strikes.load(Ordering::Relaxed)
    }
}

/// Guard that stops the attack when the checks are complete, even on a panic.
struct Stop<'a>(&'a Attack);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

impl Live {
    /// Starts Millrace with the honest patch, one worker, and `attacked`: more ports, and their patches or bridges.
    pub fn new(attacked: impl Part) -> Live {
        Live::start(Home::new(), attacked)
    }

    /// Does the same in a home created by the test.
    pub fn start(home: Home, attacked: impl Part) -> Live {
        Live::of(home, |home| home.start((attacked, patched("c", "d"), poller())))
    }

    /// Does the same inside a network namespace, with this worker.
    pub fn inside(namespace: &Namespace, worker: RawWorker, attacked: impl Part) -> Live {
        Live::of(Home::new(), |home| home.start_inside(namespace, (attacked, patched("c", "d"), worker)))
    }

    fn of(home: Home, start: impl FnOnce(&Home) -> Millrace) -> Live {
        let millrace = start(&home);
        let [c, d] = ["c", "d"].map(|port| Options::new(home.socket(port)).connect().unwrap());
        millrace.wait_up(&["c", "d"]);
        let pump = Pump::start(Exchange::new([c, d], [3, 4], 60..=1500, 64));
        pump.wait_for(100, SOON).unwrap();
        Live { home, millrace, pump }
    }

    /// Runs `attack` on a separate thread until the switch has passed all checks.
    pub fn during(&self, attack: impl FnOnce(&Attack) + Send) {
        self.during_keeping(KEPT, attack);
    }

    /// Does the same, where honest guests keep only this part of their rate: an attacker that is always busy takes processors from
    /// them.
    pub fn during_keeping(&self, part: f64, attack: impl FnOnce(&Attack) + Send) {
        let state = Attack { stop: false.into(), pause: false.into(), strikes: 0.into() };
        std::thread::scope(|scope| {
            let attacker = scope.spawn(|| attack(&state));
            let stop = Stop(&state);
            wait_for("the attack to begin", || (state.strikes() > 0 || attacker.is_finished()).then_some(()));
            for _ in 0..CHECKS {
                if attacker.is_finished() {
                    break;
                }
                self.check_honest();
                self.keeps(part, &state);
            }
            let strikes = state.strikes();
            wait_for("another strike", || (state.strikes() > strikes || attacker.is_finished()).then_some(()));
            let ended = attacker.is_finished();
            drop(stop);
            if let Err(panic) = attacker.join() {
                std::panic::resume_unwind(panic);
            }
            assert!(!ended, "the attack ended before it was told to");
        });
    }

    /// Checks that the honest guests keep this part of their rate.
    fn keeps(&self, part: f64, attack: &Attack) {
        let end = Instant::now() + STARVED;
        loop {
            let [attacked, paused] = [self.rate(), attack.paused(|| self.rate())];
            println!("honest frames a second: {attacked:.0} beside the attack, {paused:.0} in a pause");
            // A pause without frames shows nothing.
            if paused > 0.0 && attacked >= part * paused {
                break;
            }
            assert!(Instant::now() < end, "honest guests have had less than {part} of their rate for {STARVED:?}");
        }
    }

    /// Returns how many frames a second the honest guests receive.
    fn rate(&self) -> f64 {
        let received = || self.pump.received().iter().sum::<u64>();
        let (began, before) = (Instant::now(), received());
        std::thread::sleep(PERIOD);
        (received() - before) as f64 / began.elapsed().as_secs_f64()
    }

    /// Checks that the honest guests get their frames, and that the control socket answers.
    pub fn check_honest(&self) {
        self.serves();
        let ports = self.millrace.stats().ports;
        assert!(ports.iter().filter(|port| ["c", "d"].contains(&&*port.name)).all(|port| port.up), "{ports:?}");
        self.millrace.drops();
    }

    /// Checks that the honest guests get their frames.
    pub fn serves(&self) {
        self.pump.wait_for(100, STARVED).unwrap();
    }

    /// Stops the honest traffic, checks that none of it was lost, and stops Millrace.
    pub fn finish(self) {
        self.pump.wait_for(100, SOON).unwrap();
        let tally = self.pump.stop().unwrap();
        assert!(tally.is_complete(), "the honest guests lost frames: {tally:?}");
        for (port, sent) in [("c", 0), ("d", 1)] {
            let port = self.millrace.counted(port, tally.sent[sent], tally.received[1 - sent]);
            assert!(port.drops().is_empty(), "{:?}", port.0);
        }
        self.millrace.stop();
    }
}
