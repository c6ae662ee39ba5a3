//! The sending end of a flow.

use super::lengths::Lengths;
use super::payload::Noise;
use super::stamp::{Phase, SHORTEST, SIZE, Stamp};
use super::{AppOptions, Arrivals, Rate, Sent, Touch};
use crate::cycles;
use crate::endpoint::{Endpoint, EndpointError};
use crate::pace::{Intervals, Pace};

/// Bursts that may be due and not sent yet.
const LATE_BURSTS: u64 = 4;
/// Seconds that packets may be due and not sent yet, if that is more.
const LATE: f64 = 1e-3;

/// A sender of stamped packets.
pub struct Sending {
    flow: u8,
    burst: u64,
    lengths: Lengths,
    noise: Option<Noise>,
    /// Number of the next packet.
    next: u64,
    /// Maximum number of packets in flight, if the rate is the greatest possible.
    window: u64,
    /// Measured packets at most, if the rate is the greatest possible.
    packets: u64,
    timing: Option<Timing>,
    sent: Sent,
}

/// Due times of packets.
struct Timing {
    rate: f64,
    hz: f64,
    intervals: Intervals,
    pace: Pace,
    /// Packets that were sent or refused.
    done: u64,
    /// Packets that may be due and not sent yet.
    late: u64,
}

impl Timing {
    fn pace(&self, burst: u64, now: u64) -> Pace {
        Pace::new(now, self.rate, self.hz, burst as u16, self.intervals)
    }
}

impl Sending {
    /// Creates the sender of flow `flow`; `hz` is the frequency of the cycle counter.
    pub fn new(options: &AppOptions, flow: u8, window: u64, hz: f64) -> Sending {
        let burst = u64::from(options.burst);
        let intervals = match options.arrivals {
            Arrivals::Constant => Intervals::Equal,
            Arrivals::Poisson => Intervals::Random { seed: flow.into() },
            Arrivals::OnOff { on, off } => {
                Intervals::Interrupted { on: f64::from(on) * 1e-3, off: f64::from(off) * 1e-3 }
            }
        };
        let timing = match options.rate {
            Rate::Max => None,
            Rate::PerSecond(rate) => {
                let late = (LATE_BURSTS * burst).max((rate * LATE) as u64);
                let pace = Pace::new(0, rate, hz, options.burst, intervals);
                Some(Timing { rate, hz, intervals, pace, done: 0, late })
            }
        };
        Sending {
            flow,
            burst,
            lengths: Lengths::of(options.size),
            noise: (options.touch == Touch::Full).then(Noise::new),
            next: 0,
            window,
            packets: if options.packets > 0 { options.packets } else { u64::MAX },
            timing,
            sent: Sent::default(),
        }
    }

    /// Returns the flow's number.
    pub fn flow(&self) -> u8 {
        self.flow
    }

    /// Returns the number of the next packet, if a window may hold it up until those before have arrived.
    pub fn waits_for(&self) -> Option<u64> {
        (self.timing.is_none() && self.window < u64::MAX).then_some(self.next)
    }

    /// Returns the measured packets so far.
    pub fn sent(&mut self) -> &mut Sent {
        &mut self.sent
    }

    /// Begins to count due packets: the first burst is due now.
    pub fn begin(&mut self, now: u64) {
        if let Some(timing) = &mut self.timing {
            timing.pace = timing.pace(self.burst, now);
        }
    }

    /// Goes on `cycles` later: the thread was not running.
    pub fn postpone(&mut self, cycles: u64) {
        if let Some(timing) = &mut self.timing {
            timing.pace.postpone(cycles);
        }
    }

    /// Sends the packets that are due, or those that the window allows if there is no rate, at most a burst. All packets
    /// before number `arrived` have arrived or are given up. Returns how many were sent.
    #[inline(always)]
    pub fn turn<E: Endpoint>(
        &mut self,
        endpoint: &mut E,
        now: u64,
        phase: Phase,
        arrived: u64,
    ) -> Result<usize, EndpointError> {
        let measured = u64::from(phase == Phase::Measured);
        let Some(timing) = &mut self.timing else {
            let room = self.window.saturating_sub(self.next.saturating_sub(arrived));
            let left = if phase == Phase::Measured { self.packets - self.sent.packets } else { u64::MAX };
            return self.send(endpoint, phase, self.burst.min(room).min(left));
        };
        let mut waiting = timing.pace.due(now) - timing.done;
        if waiting > timing.late {
            // The port takes fewer packets than are due.
            let refused = waiting - timing.late;
            timing.done += refused;
            self.sent.refused += measured * refused;
            waiting = timing.late;
        }
        let count = self.burst.min(waiting);
        timing.done += count;
        let sent = self.send(endpoint, phase, count)?;
        self.sent.refused += measured * (count - sent as u64);
        Ok(sent)
    }

    /// Sends a packet that does not count, to find out whether one comes through.
    pub fn probe<E: Endpoint>(&mut self, endpoint: &mut E) -> Result<usize, EndpointError> {
        self.send(endpoint, Phase::WarmUp, 1)
    }

    #[inline(always)]
    fn send<E: Endpoint>(&mut self, endpoint: &mut E, phase: Phase, count: u64) -> Result<usize, EndpointError> {
        if count == 0 {
            return Ok(0);
        }
        let lengths = self.lengths.from(self.next, count as usize);
        let (flow, first) = (self.flow, self.next);
        let mut time = cycles::now();
        let sent = endpoint.send(lengths, &mut |index, payload| {
            if E::ONE_BY_ONE {
                time = cycles::now();
            }
            let number = first + index as u64;
            let sum = self.noise.as_ref().map_or(0, |noise| noise.fill(number, &mut payload[SIZE..]));
            Stamp { number, time, phase, flow, sum }.write(payload);
        })?;
        self.next += sent as u64;
        if phase == Phase::Measured {
            self.sent.packets += sent as u64;
            self.sent.bytes += lengths[..sent].iter().map(|&length| u64::from(length)).sum::<u64>();
        }
        Ok(sent)
    }
}

/// Sends a packet without a stamp, so that a switch learns where its sender is.
pub fn announce<E: Endpoint>(endpoint: &mut E) -> Result<(), EndpointError> {
    endpoint.send(&[SHORTEST], &mut |_, payload| payload.fill(0)).map(drop)
}
