//! The receiving end of a flow.

use super::payload;
use super::sequence::{Arrival, Sequence};
use super::stamp::{Phase, SIZE, Stamp};
use super::times::Times;
use super::{AppOptions, Latency, Received, Touch};
use crate::cycles;
use crate::endpoint::{Endpoint, EndpointError, HEADERS};

/// A receiver of stamped packets.
pub struct Receiving {
    flow: u8,
    /// Whether every byte is read.
    whole: bool,
    sequence: Sequence,
    received: Received,
    times: Times,
    /// Packets of all phases.
    all: u64,
}

impl Receiving {
    /// Creates the receiver of flow `flow`.
    pub fn new(options: &AppOptions, flow: u8) -> Receiving {
        Receiving {
            flow,
            whole: options.touch == Touch::Full,
            sequence: Sequence::new(),
            received: Received::default(),
            times: Times::new(),
            all: 0,
        }
    }

    /// Returns the flow's number.
    pub fn flow(&self) -> u8 {
        self.flow
    }

    /// Returns the number before which all packets have arrived or are given up.
    #[inline(always)]
    pub fn next(&self) -> u64 {
        self.sequence.next()
    }

    /// Expects none of the packets before `number` any more.
    pub fn give_up(&mut self, number: u64) {
        self.sequence.give_up(number);
    }

    /// Returns the number of packets of all phases that have arrived.
    pub fn all(&self) -> u64 {
        self.all
    }

    /// Returns the measured packets so far.
    #[inline(always)]
    pub fn received(&self) -> Received {
        self.received
    }

    /// Returns the times of measured packets so far.
    pub fn latency(&mut self, hz: f64) -> Option<Latency> {
        self.times.report(hz)
    }

    /// Receives a burst, and returns the number of packets.
    #[inline(always)]
    pub fn turn<E: Endpoint>(&mut self, endpoint: &mut E) -> Result<usize, EndpointError> {
        let mut now = 0;
        endpoint.receive(&mut |payload, intact| {
            if E::ONE_BY_ONE || now == 0 {
                now = cycles::now();
            }
            self.take(payload, intact, now);
        })
    }

    #[inline(always)]
    fn take(&mut self, payload: &[u8], intact: bool, now: u64) {
        // Its peer announces itself without a stamp.
        let Some(stamp) = Stamp::read(payload).filter(|stamp| stamp.flow == self.flow) else { return };
        self.all += 1;
        let intact = intact && !(self.whole && payload::sum(&payload[SIZE..]) != stamp.sum);
        // The number of a changed packet may be wrong.
        let arrival = if intact { self.sequence.note(stamp.number) } else { Arrival::Impossible };
        if stamp.phase != Phase::Measured {
            return;
        }
        match arrival {
            Arrival::Again => {
                self.received.duplicates += 1;
                return;
            }
            Arrival::InOrder => {}
            Arrival::Late => self.received.reordered += 1,
            Arrival::Impossible => self.received.changed += 1,
        }
        self.received.packets += 1;
        self.received.bytes += (payload.len() + HEADERS) as u64;
        // Clocks of two processors, or of two hosts, may differ.
        self.times.note(now.saturating_sub(stamp.time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{Reflected, Setup, Technique};
    use clap::Parser;

    /// Delivers these payloads, all of them in one burst.
    struct Deliveries(Vec<Vec<u8>>);

    impl Endpoint for Deliveries {
        fn open(_: &str, _: Technique, _: &Setup) -> Result<Deliveries, EndpointError> {
            Ok(Deliveries(Vec::new()))
        }

        fn send(&mut self, lengths: &[u16], fill: &mut impl FnMut(usize, &mut [u8])) -> Result<usize, EndpointError> {
            for (index, &length) in lengths.iter().enumerate() {
                let mut payload = vec![0; usize::from(length) - HEADERS];
                fill(index, &mut payload);
                self.0.push(payload);
            }
            Ok(lengths.len())
        }

        fn receive(&mut self, take: &mut impl FnMut(&[u8], bool)) -> Result<usize, EndpointError> {
            self.0.iter().for_each(|payload| take(payload, true));
            Ok(self.0.drain(..).len())
        }

        fn reflect(&mut self) -> Result<Reflected, EndpointError> {
            Ok(Reflected::default())
        }
    }

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: AppOptions,
    }

    fn options(words: &str) -> AppOptions {
        let always = "app sender-receiver --technique raw --port a --port b ";
        Line::parse_from((always.to_owned() + words).split_whitespace()).options
    }

    #[test]
    fn only_measured_packets_count_and_each_once() {
        use super::super::sending::{Sending, announce};
        let options = options("--size 100 --burst 4");
        let mut sending = Sending::new(&options, 6, u64::MAX, 1e9);
        let mut receiving = Receiving::new(&options, 6);
        let mut wire = Deliveries(Vec::new());
        announce(&mut wire).unwrap();
        for phase in [Phase::WarmUp, Phase::Measured, Phase::CoolDown] {
            assert_eq!(sending.turn(&mut wire, 0, phase, 0).unwrap(), 4);
        }
        // Of the measured packets, the second comes after the third, and the last one is changed after its stamp.
        wire.0.swap(6, 7);
        *wire.0[8].last_mut().unwrap() ^= 1;
        wire.0.push(wire.0[6].clone());
        receiving.turn(&mut wire).unwrap();
        assert_eq!(sending.sent().packets, 4);
        assert_eq!(sending.sent().bytes, 400);
        let expected = Received { packets: 4, bytes: 400, duplicates: 1, reordered: 1, changed: 1 };
        assert_eq!((receiving.received(), receiving.all()), (expected, 13));
        assert!(receiving.latency(1e9).is_some());
    }

    #[test]
    fn flows_of_others_are_strays() {
        use super::super::sending::Sending;
        let options = options("");
        let mut wire = Deliveries(Vec::new());
        Sending::new(&options, 6, u64::MAX, 1e9).turn(&mut wire, 0, Phase::Measured, 0).unwrap();
        let mut receiving = Receiving::new(&options, 4);
        receiving.turn(&mut wire).unwrap();
        assert_eq!((receiving.received(), receiving.all()), (Received::default(), 0));
    }

    #[test]
    fn a_window_is_never_exceeded_and_a_pace_never_waits() {
        use super::super::sending::Sending;
        let mut wire = Deliveries(Vec::new());
        let mut turn =
            |sending: &mut Sending, now, arrived| sending.turn(&mut wire, now, Phase::Measured, arrived).unwrap();
        let mut sending = Sending::new(&options("--burst 4 --window 6"), 0, 6, 1e9);
        let sent = [0, 0, 0, 1, 5].map(|arrived| turn(&mut sending, 0, arrived));
        assert_eq!(sent, [4, 2, 0, 1, 4]);
        // A million packets per second, and cycles of a nanosecond: after 2 ms, those of one are refused.
        let mut sending = Sending::new(&options("--burst 4 --rate 1e6"), 0, 6, 1e9);
        sending.begin(100);
        let sent = [100, 101, 4_099, 4_101, 4_102].map(|now| turn(&mut sending, now, 0));
        assert_eq!(sent, [4, 0, 0, 4, 0]);
        let sent = (0..1000).map(|_| turn(&mut sending, 2_000_101, 0)).sum::<usize>();
        assert_eq!((sent, sending.sent().refused), (1000, 2004 - 8 - 1000));
    }
}
