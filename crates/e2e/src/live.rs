//! Honest traffic beside an attack, checked during the attack.
//!
//! [`Live`] is a Millrace with one worker, on which two honest guests at the ports `c` and `d` exchange frames all the time.
//! The test adds the attacked ports. [`Live::during`] runs the attack on a separate thread and checks that frames of the honest
//! guests keep arriving, that the control socket answers, and that the attacker is still active at the end. Only then does it
//! stop the attack. [`Live::finish`] checks that no frame was lost.
//!
//! ```ignore
//! let mut live = Live::new(patched("a", "b"));
//! let mut rogue = Rogue::connect(&live.home);
//! live.during(|attack| {
//!     while attack.goes_on() {
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
use lab::millrace::config::{Part, patched};

/// Period over which the honest guests' frames are counted at rest; as many must arrive again in each check.
const PERIOD: Duration = Duration::from_millis(50);

/// Periods at rest. The slowest one counts: the machine may be busy.
const PERIODS: u32 = 5;

/// Time for the frames of a period beyond which a guest counts as starved.
const STARVED: Duration = Duration::from_secs(20);

/// Number of checks during an attack.
const JUDGEMENTS: u32 = 4;

/// A Millrace with honest traffic.
pub struct Live {
    /// Its directory.
    pub home: Home,
    /// The switch.
    pub millrace: Millrace,
    pump: Pump,
    /// Frames that arrive each way within [`PERIOD`] without an attack.
    at_rest: u64,
}

/// The state of an attack, shared with the attacker.
pub struct Attack {
    stop: AtomicBool,
    strikes: AtomicU64,
}

impl Attack {
    /// Reports whether the attack must go on: the checks are not complete.
    pub fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
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
    /// Starts Millrace with the honest patch, one worker, and `attacked`: more ports, and what joins them.
    pub fn new(attacked: impl Part) -> Live {
        Live::start(Home::new(), attacked)
    }

    /// Does the same in a home created by the test.
    pub fn start(home: Home, attacked: impl Part) -> Live {
        let millrace = home.start((attacked, patched("c", "d"), poller()));
        let [c, d] = ["c", "d"].map(|port| Options::new(home.socket(port)).connect().unwrap());
        millrace.wait_up(&["c", "d"]);
        let pump = Pump::start(Exchange::new([c, d], [3, 4], 60..=1500, 64));
        pump.wait_for(100, SOON).unwrap();
        let period = || {
            let before = pump.received();
            std::thread::sleep(PERIOD);
            pump.received().iter().zip(before).map(|(now, before)| now - before).min().unwrap_or(0)
        };
        let at_rest = (0..PERIODS).map(|_| period()).min().unwrap_or(0).max(1);
        Live { home, millrace, pump, at_rest }
    }

    /// Runs `attack` on a separate thread until the switch has passed all checks.
    pub fn during(&self, attack: impl FnOnce(&Attack) + Send) {
        let state = Attack { stop: AtomicBool::new(false), strikes: AtomicU64::new(0) };
        std::thread::scope(|scope| {
            let attacker = scope.spawn(|| attack(&state));
            let stop = Stop(&state);
            wait_for("the attack to begin", || (state.strikes() > 0 || attacker.is_finished()).then_some(()));
            let began = (Instant::now(), self.pump.received());
            for _ in 0..JUDGEMENTS {
                if attacker.is_finished() {
                    break;
                }
                self.judge();
            }
            let (strikes, took) = (state.strikes(), began.0.elapsed());
            wait_for("another strike", || (state.strikes() > strikes || attacker.is_finished()).then_some(()));
            let ended = attacker.is_finished();
            drop(stop);
            if let Err(panic) = attacker.join() {
                std::panic::resume_unwind(panic);
            }
            assert!(!ended, "the attack ended before it was told to");
            let frames = self.pump.received()[0] - began.1[0];
            let rates = [self.at_rest as f64 / PERIOD.as_secs_f64(), frames as f64 / took.as_secs_f64()];
            println!("{} strikes; honest frames a second each way: {rates:.0?} (at rest, attacked)", state.strikes());
        });
    }

    /// Checks that the honest guests get their frames, and that the control socket answers.
    pub fn judge(&self) {
        self.serves();
        let ports = self.millrace.stats().ports;
        assert!(ports.iter().filter(|port| ["c", "d"].contains(&&*port.name)).all(|port| port.up), "{ports:?}");
        self.millrace.drops();
    }

    /// Checks that the honest guests get their frames.
    pub fn serves(&self) {
        self.pump.wait_for(self.at_rest, STARVED).unwrap();
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
