//! Guests that send to each other.

use std::array;
use std::time::{Duration, Instant};

use super::{Guest, Sink, Sizes, Source};
use crate::cpu::rest;
use crate::{Error, Result};

/// Frames sent or received at a time.
const BURST: usize = 32;

/// Frames per direction: from the first guest to the second, and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally<const N: usize = 2> {
    /// Frames sent.
    pub sent: [u64; N],
    /// Frames received, whole and in order.
    pub received: [u64; N],
}

impl<const N: usize> Tally<N> {
    /// Reports whether every frame sent has arrived.
    pub fn is_complete(&self) -> bool {
        self.sent == self.received
    }

    /// Returns the number of frames received.
    pub fn total(&self) -> u64 {
        self.received.iter().sum()
    }
}

/// Two guests with one stream in each direction, or one guest whose frames come back to it.
pub struct Exchange<const N: usize = 2> {
    guests: [Guest; N],
    /// The stream of each guest, which the next guest receives; the last one's goes to the first.
    sources: [Source; N],
    sinks: [Sink; N],
    window: u64,
}

impl<const N: usize> Exchange<N> {
    /// Creates streams of frames of `sizes` between guests with these numbers, with at most `window` frames in flight in each
    /// direction. If the receiver has that many buffers, no frame ever has to be dropped.
    pub fn new(guests: [Guest; N], numbers: [u8; N], sizes: Sizes, window: u64) -> Self {
        let ends = |way: usize| (numbers[way], numbers[(way + 1) % N]);
        let source = |(from, to)| Source::new(from, to, sizes.clone());
        let sink = |(from, to)| Sink::new(from, to, sizes.clone());
        Self {
            guests,
            sources: array::from_fn(|way| source(ends(way))),
            sinks: array::from_fn(|way| sink(ends(way))),
            window,
        }
    }

    /// Accepts frames in any order, each once.
    pub fn in_any_order(self) -> Self {
        Self { sinks: self.sinks.map(Sink::in_any_order), ..self }
    }

    /// Skips frames that nobody sent who takes part, and counts them.
    pub fn among_others(self) -> Self {
        Self { sinks: self.sinks.map(Sink::among_others), ..self }
    }

    /// Returns the number of frames that were skipped.
    pub fn others(&self) -> u64 {
        self.sinks.iter().map(Sink::others).sum()
    }

    /// Returns the frames sent and received so far.
    pub fn tally(&self) -> Tally<N> {
        Tally { sent: self.sources.each_ref().map(Source::sent), received: self.sinks.each_ref().map(Sink::received) }
    }

    /// Sends a burst each way, up to `goal` frames in all, and receives; reports whether anything moved.
    pub fn step(&mut self, goal: u64) -> Result<bool> {
        let window = self.window;
        let sent = self.send(goal, window)?;
        Ok(self.receive()? || sent)
    }

    /// Sends a burst each way even if the other side is full, and receives if `receive`.
    pub fn overrun(&mut self, goal: u64, receive: bool) -> Result<()> {
        let sent = self.send(goal, u64::MAX)?;
        if receive && !self.receive()? || !sent {
            rest();
        }
        Ok(())
    }

    fn send(&mut self, goal: u64, window: u64) -> Result<bool> {
        let mut moved = false;
        for way in 0..N {
            let (source, guest) = (&mut self.sources[way], &mut self.guests[way]);
            guest.reap()?;
            let received = self.sinks[way].received();
            let mut burst = 0;
            while burst < BURST && source.sent() < goal && source.sent() - received < window && source.send(guest)? {
                burst += 1;
            }
            if burst > 0 {
                guest.flush();
                moved = true;
            }
        }
        Ok(moved)
    }

    /// Receives the available frames, both ways; reports whether there were any.
    pub fn receive(&mut self) -> Result<bool> {
        let mut moved = false;
        for (way, sink) in self.sinks.iter_mut().enumerate() {
            moved |= self.guests[(way + 1) % N].receive(2 * BURST, |frame| sink.take(frame))? > 0;
        }
        Ok(moved)
    }

    /// Receives until everything has arrived, or no frame has come for `silence`.
    pub fn drain(&mut self, silence: Duration) -> Result<Tally<N>> {
        let mut last = Instant::now();
        while !self.tally().is_complete() && last.elapsed() < silence {
            if self.receive()? {
                last = Instant::now();
            } else {
                rest();
            }
        }
        Ok(self.tally())
    }

    /// Sends `frames` more each way and waits until all have arrived; an error if none arrives for `silence`. The total time
    /// depends on the machine's load.
    pub fn run(&mut self, frames: u64, silence: Duration) -> Result<Tally<N>> {
        let goal = self.tally().sent.into_iter().max().unwrap_or(0) + frames;
        let (mut before, mut last) = (self.tally().total(), Instant::now());
        loop {
            if !self.step(goal)? {
                rest();
            }
            let tally = self.tally();
            if tally.received == [goal; N] {
                return Ok(tally);
            }
            if tally.total() > before {
                (before, last) = (tally.total(), Instant::now());
            } else if last.elapsed() > silence {
                let problem = format!("of {goal} frames each way, none arrived for {silence:?}: {tally:?}");
                return Err(Error::malformed("the exchange of frames", problem));
            }
        }
    }

    /// Returns the guests, without their streams.
    pub fn into_guests(self) -> [Guest; N] {
        self.guests
    }

    /// Reports whether both guests are still connected.
    pub fn is_connected(&self) -> bool {
        self.guests.iter().all(Guest::is_connected)
    }
}
