//! Simulated switches for tests of searches.

use super::TrialRequest;
use crate::search::record::Trial;

/// A switch that carries a number of packets per second, and a load before it.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// Packets per second that it carries.
    pub capacity: f64,
    /// Greatest deviation of a trial's capacity, relative.
    pub varies: f64,
    /// Share of packets that it loses at every rate.
    pub loses: f64,
    /// One in this number of trials loses a burst: a tenth of a second of packets. 0: none.
    pub bursts: u32,
    /// Packets that it holds beyond its capacity.
    pub buffer: f64,
    /// Packets per second that the load can send.
    pub load: f64,
    /// One in this number of trials has a load that is held up. 0: none.
    pub held_up: u32,
    /// State of the random numbers.
    pub random: u64,
}

impl Simulated {
    /// Returns a switch that carries exactly `capacity`.
    pub fn new(capacity: f64) -> Simulated {
        let load = f64::INFINITY;
        Simulated { capacity, varies: 0.0, loses: 0.0, bursts: 0, buffer: 0.0, load, held_up: 0, random: 1 }
    }

    /// Returns a random number from 0 to 1 (Knuth's linear congruential generator).
    fn random(&mut self) -> f64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn one_in(&mut self, trials: u32) -> bool {
        trials > 0 && self.random() * f64::from(trials) < 1.0
    }

    /// Makes a trial.
    pub fn trial(&mut self, request: &TrialRequest) -> Trial {
        let (rate, packets) = match *request {
            TrialRequest::Rate { rate, seconds } => (rate, rate.min(self.load) * seconds),
            TrialRequest::Burst { frames } => (self.load, frames as f64),
        };
        let mut offered = rate.min(self.load);
        let seconds = packets / offered;
        if self.one_in(self.held_up) {
            offered /= 2.0;
        }
        let capacity = self.capacity * (1.0 + self.varies * (2.0 * self.random() - 1.0));
        let sent = (offered * seconds).round().max(1.0);
        let mut lost = sent - sent.min((capacity * seconds).round() + self.buffer);
        if self.one_in(self.bursts) {
            lost += (offered * 0.1).min(sent - lost);
        }
        // Each packet that is lost on its own is a whole one; a share of it is the probability.
        let alone = (sent - lost) * self.loses;
        lost += alone.floor() + f64::from(u8::from(self.random() < alone.fract()));
        Trial { rate, offered, seconds, loss: lost / sent, latency: None }
    }
}
