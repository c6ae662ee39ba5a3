//! Two guests that send to each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Guest, Sink, Sizes, Source};
use crate::rest;
use lab::{Error, Result};

/// Frames sent or received at a time.
const BURST: usize = 32;

/// Pause of a pump after each step: others get the processors meanwhile.
const PACE: Duration = Duration::from_micros(500);

/// Silence after which no more frames are expected. It is waited out only when frames are lost.
const LAST: Duration = Duration::from_secs(5);

/// Frames per direction: from the first guest to the second, and back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames sent.
    pub sent: [u64; 2],
    /// Frames received, whole and in order.
    pub received: [u64; 2],
}

impl Tally {
    /// Reports whether every frame sent has arrived.
    pub fn is_complete(&self) -> bool {
        self.sent == self.received
    }

    /// Returns the number of frames received.
    pub fn total(&self) -> u64 {
        self.received.iter().sum()
    }
}

/// Two guests with one stream in each direction.
pub struct Exchange {
    guests: [Guest; 2],
    sources: [Source; 2],
    sinks: [Sink; 2],
    window: u64,
}

impl Exchange {
    /// Creates streams of frames of `sizes` between guests with these numbers, with at most `window` frames in flight in each
    /// direction. If the receiver has that many buffers, no frame ever has to be dropped.
    pub fn new(guests: [Guest; 2], numbers: [u8; 2], sizes: Sizes, window: u64) -> Self {
        let [a, b] = numbers;
        let sources = [Source::new(a, b, sizes.clone()), Source::new(b, a, sizes.clone())];
        let sinks = [Sink::new(a, b, sizes.clone()), Sink::new(b, a, sizes)];
        Self { guests, sources, sinks, window }
    }

    /// Accepts frames in any order, each once.
    pub fn in_any_order(self) -> Self {
        Self { sinks: self.sinks.map(Sink::in_any_order), ..self }
    }

    /// Returns the frames sent and received so far.
    pub fn tally(&self) -> Tally {
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
        for way in 0..2 {
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
        for (sink, guest) in self.sinks.iter_mut().zip(self.guests.iter_mut().rev()) {
            moved |= guest.receive(2 * BURST, |frame| sink.take(frame))? > 0;
        }
        Ok(moved)
    }

    /// Receives until everything has arrived, or no frame has come for `silence`.
    pub fn drain(&mut self, silence: Duration) -> Result<Tally> {
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
    pub fn run(&mut self, frames: u64, silence: Duration) -> Result<Tally> {
        let goal = self.tally().sent[0].max(self.tally().sent[1]) + frames;
        let (mut before, mut last) = (self.tally().total(), Instant::now());
        loop {
            if !self.step(goal)? {
                rest();
            }
            let tally = self.tally();
            if tally.received == [goal; 2] {
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
    pub fn into_guests(self) -> [Guest; 2] {
        self.guests
    }

    /// Reports whether both guests are still connected.
    pub fn is_connected(&self) -> bool {
        self.guests.iter().all(Guest::is_connected)
    }
}

/// An exchange on a separate thread, of a burst at a time, until it is stopped.
pub struct Pump {
    stop: Arc<AtomicBool>,
    received: Arc<[AtomicU64; 2]>,
    thread: Option<JoinHandle<Result<Tally>>>,
}

impl Pump {
    /// Starts the exchange.
    pub fn start(mut exchange: Exchange) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let received: Arc<[AtomicU64; 2]> = Arc::default();
        let (stopping, counters) = (stop.clone(), received.clone());
        let thread = std::thread::spawn(move || {
            while !stopping.load(Ordering::Relaxed) {
                exchange.step(u64::MAX)?;
                std::thread::sleep(PACE);
                let tally = exchange.tally();
                counters.iter().zip(tally.received).for_each(|(c, n)| c.store(n, Ordering::Relaxed));
            }
            exchange.drain(LAST)
        });
        Self { stop, received, thread: Some(thread) }
    }

    /// Returns the number of frames received so far, each way.
    pub fn received(&self) -> [u64; 2] {
        self.received.each_ref().map(|counter| counter.load(Ordering::Relaxed))
    }

    /// Waits until `frames` more have arrived each way.
    pub fn wait_for(&self, frames: u64, timeout: Duration) -> Result<()> {
        let before = self.received();
        let deadline = Instant::now() + timeout;
        loop {
            let now = self.received();
            if before.iter().zip(now).all(|(before, now)| now >= before + frames) {
                return Ok(());
            }
            let ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
            if ended || Instant::now() > deadline {
                let problem = format!("{frames} more frames each way did not arrive: from {before:?} to {now:?}");
                return Err(Error::malformed("the pump", problem));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops sending, receives the frames in flight, and returns the tally or the error.
    pub fn stop(mut self) -> Result<Tally> {
        self.stop.store(true, Ordering::Relaxed);
        let panicked = || Error::malformed("the pump", "its thread panicked");
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            _ => Err(panicked()),
        }
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The test failed already, or it would have stopped the pump.
            let _ = thread.join();
        }
    }
}
