//! Honest traffic beside an attack, judged while the attack goes on.
//!
//! [`Live`] is a Millrace with one worker, on which two honest guests at the ports `c` and `d` exchange frames all the
//! time. The test adds the ports that are attacked. [`Live::during`] runs the attack on a thread of its own and judges
//! until it has seen enough: frames of the honest guests keep arriving, the control socket answers, and the attacker
//! was still at it at the end. Only then is the attack told to end. [`Live::finish`] asks whether a frame was lost.
//!
//! ```ignore
//! let mut live = Live::new(&support::patch("a", "b"));
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

use super::{Home, Millrace, SOON, patch, poller, wait_for};
use e2e::virtio::{Exchange, Options, Pump};

/// The honest guests' frames are counted at rest for so long, and must arrive again, as many, in each judgement.
const WINDOW: Duration = Duration::from_millis(50);

/// Windows at rest. The slowest one counts: the machine may have other things to do.
const WINDOWS: u32 = 5;

/// Who gets so few frames that those of a window take this long is starved.
const STARVED: Duration = Duration::from_secs(20);

/// How often the switch is judged while an attack goes on.
const JUDGEMENTS: u32 = 4;

/// A Millrace with honest traffic.
pub struct Live {
    pub home: Home,
    pub millrace: Millrace,
    pump: Pump,
    /// Frames that arrive each way within [`WINDOW`] if nobody attacks.
    at_rest: u64,
}

/// An attack, as the attacker sees it.
pub struct Attack {
    stop: AtomicBool,
    strikes: AtomicU64,
}

impl Attack {
    /// It has to go on: it is being judged what it does.
    pub fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// The attacker did something: it was connected, and the switch had to look at it. A strike that waits for the
    /// switch shows that the switch still serves the attacker.
    pub fn strike(&self) {
        self.strikes.fetch_add(1, Ordering::Relaxed);
    }

    fn strikes(&self) -> u64 {
        self.strikes.load(Ordering::Relaxed)
    }
}

/// Tells the attacker to end when the judge is done, also if it panics.
struct Stop<'a>(&'a Attack);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

impl Live {
    /// Starts Millrace with the honest patch, one worker, and `attacked` besides: ports, and what joins them.
    pub fn new(attacked: &str) -> Live {
        Live::start(Home::new(), attacked)
    }

    /// The same in a home that the test made.
    pub fn start(home: Home, attacked: &str) -> Live {
        let millrace = home.start(&[attacked, &patch("c", "d"), &poller()].concat());
        let [c, d] = ["c", "d"].map(|port| Options::new(home.socket(port)).connect().unwrap());
        millrace.wait_up(&["c", "d"]);
        let pump = Pump::start(Exchange::new([c, d], [3, 4], 60..=1500, 64));
        pump.wait_for(100, SOON).unwrap();
        let window = || {
            let before = pump.received();
            std::thread::sleep(WINDOW);
            pump.received().iter().zip(before).map(|(now, before)| now - before).min().unwrap_or(0)
        };
        let at_rest = (0..WINDOWS).map(|_| window()).min().unwrap_or(0).max(1);
        Live { home, millrace, pump, at_rest }
    }

    /// Runs `attack` on a thread of its own until the switch was judged beside it.
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
            let rates = [self.at_rest as f64 / WINDOW.as_secs_f64(), frames as f64 / took.as_secs_f64()];
            println!("{} strikes; honest frames a second each way: {rates:.0?} (at rest, attacked)", state.strikes());
        });
    }

    /// The honest guests get their frames, and the control socket answers.
    pub fn judge(&self) {
        self.serves();
        let ports = self.millrace.stats().ports;
        assert!(ports.iter().filter(|port| ["c", "d"].contains(&&*port.name)).all(|port| port.up), "{ports:?}");
        self.millrace.drops();
    }

    /// The honest guests get their frames.
    pub fn serves(&self) {
        self.pump.wait_for(self.at_rest, STARVED).unwrap();
    }

    /// Ends the honest traffic, of which nothing may be lost, and then Millrace, which must end well.
    pub fn finish(self) {
        self.pump.wait_for(100, SOON).unwrap();
        let tally = self.pump.stop().unwrap();
        assert!(tally.is_complete(), "the honest guests lost frames: {tally:?}");
        for (port, sent) in [("c", 0), ("d", 1)] {
            let port = self.millrace.port(port);
            assert_eq!((port.rx(), port.tx()), (tally.sent[sent], tally.received[1 - sent]), "{:?}", port.0);
            assert!(port.drops().is_empty(), "{:?}", port.0);
        }
        self.millrace.stop();
    }
}
