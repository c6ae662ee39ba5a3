//! The loop over all ports, and what is measured around it.

use super::frame::Touch;
use super::port::{Counts, Port};
use super::ring::OutOfOrder;
use crate::cycles;

/// Rounds without a frame after which devices are looked at that may sleep.
const KICK_ROUNDS: u64 = 64;

/// How a run ended early.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum PumpError {
    #[error("port {port}: {source}")]
    Order { port: usize, source: OutOfOrder },
    #[error("port {port}: the switch could not be woken: {source}")]
    Kick { port: usize, source: std::io::Error },
    #[error("the switch closed the connection")]
    Disconnected,
}

/// Where the time went. A round looks once at every port.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Rounds that moved a frame, and their cycles.
    pub busy_rounds: u64,
    pub busy_cycles: u64,
    /// Rounds that found nothing to do, and their cycles.
    pub idle_rounds: u64,
    pub idle_cycles: u64,
}

/// Drives all ports.
pub struct Pump<'a> {
    ports: Vec<Port>,
    window: u64,
    /// Cycles without any frame after which those under way are given up.
    patience: u64,
    alive: &'a dyn Fn() -> bool,
    tally: Tally,
}

impl<'a> Pump<'a> {
    /// Ports 0 and 1 are each other's peers, as are 2 and 3; a single port is its own. At most `window` frames are
    /// under way in each direction. `alive` tells whether all switches are still there.
    pub fn new(ports: Vec<Port>, window: u64, patience: u64, alive: &'a dyn Fn() -> bool) -> Pump<'a> {
        Pump { ports, window, patience, alive, tally: Tally::default() }
    }

    /// Pumps for about `duration` cycles.
    pub fn run<T: Touch>(&mut self, duration: u64) -> Result<(), PumpError> {
        let start = cycles::now();
        let mut last = start;
        let mut last_moved = start;
        let mut idle_rounds = 0;
        while last.wrapping_sub(start) < duration {
            let moved = self.round::<T>()?;
            let now = cycles::now();
            if moved > 0 {
                self.tally.busy_rounds += 1;
                self.tally.busy_cycles += now.wrapping_sub(last);
                last_moved = now;
                idle_rounds = 0;
            } else {
                self.tally.idle_rounds += 1;
                self.tally.idle_cycles += now.wrapping_sub(last);
                idle_rounds += 1;
                if idle_rounds % KICK_ROUNDS == 0 {
                    self.wait(now.wrapping_sub(last_moved) > self.patience)?;
                }
                std::hint::spin_loop();
            }
            last = now;
        }
        Ok(())
    }

    #[inline(always)]
    fn round<T: Touch>(&mut self) -> Result<u64, PumpError> {
        let mut moved = 0;
        for port in 0..self.ports.len() {
            let broken = |source| PumpError::Order { port, source };
            moved += self.ports[port].receive::<T>().map_err(broken)?;
            let under_way = self.ports[port].sent().saturating_sub(self.ports[peer(port, self.ports.len())].next());
            moved += self.ports[port].send::<T>(self.window.saturating_sub(under_way)).map_err(broken)?;
        }
        Ok(moved)
    }

    /// Nothing moved for a while.
    #[cold]
    fn wait(&mut self, give_up: bool) -> Result<(), PumpError> {
        if !(self.alive)() {
            return Err(PumpError::Disconnected);
        }
        for port in 0..self.ports.len() {
            self.ports[port].kick().map_err(|e| PumpError::Kick { port, source: e.into() })?;
            if give_up {
                let sent = self.ports[peer(port, self.ports.len())].sent();
                self.ports[port].give_up(sent);
            }
        }
        Ok(())
    }

    /// What every port counted so far.
    pub fn counts(&self) -> Vec<Counts> {
        self.ports.iter().map(Port::counts).collect()
    }

    /// Where the time went so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }
}

/// The port that receives what `port` sends.
pub fn peer(port: usize, ports: usize) -> usize {
    if ports == 1 { 0 } else { port ^ 1 }
}
