//! Options of a crew.

use super::error::CrewError;
use crate::port::BURST;
use std::time::Duration;

/// Maximum number of workers: their batches must leave buffers to the ports.
const MOST: u16 = 64;
/// Batches for each worker: one that it processes, and some that wait for it or for an earlier batch.
const BATCHES: u16 = 4;

/// How the workers share the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Sharing {
    /// One more thread, the parent, alone talks to the devices; frames keep their order
    StaticRole,
    /// Workers take turns at the ports, under a lock; frames may change their order
    Locked,
}

/// The options of a crew.
#[derive(Clone, Debug)]
pub struct CrewOptions {
    /// Number of workers.
    pub workers: u16,
    /// How they share the ports.
    pub sharing: Sharing,
    /// How long a worker may hold the oldest batch before the parent goes on without it.
    pub patience: Duration,
    /// Processors: the parent's, if there is one, and each worker's. Threads run on any if there are none.
    pub cpus: Vec<usize>,
}

impl CrewOptions {
    /// Creates options with a patience of a second, for threads that run on any processor.
    pub fn new(workers: u16, sharing: Sharing) -> CrewOptions {
        CrewOptions { workers, sharing, patience: Duration::from_secs(1), cpus: Vec::new() }
    }

    /// Returns the number of batches that are published and not released, at most.
    pub(super) fn room(&self) -> usize {
        usize::from(self.workers * BATCHES).next_power_of_two()
    }

    /// Returns the spare buffers that packets of a crew take, for [`crate::Options::spare_buffers`]: with fewer, ports may run
    /// out of buffers to receive into.
    pub fn spare_buffers(&self) -> u16 {
        ((self.room() + usize::from(self.workers)) * BURST) as u16
    }

    pub(super) fn check(&self) -> Result<(), CrewError> {
        if !(1..=MOST).contains(&self.workers) {
            return Err(CrewError::Workers { workers: self.workers, max: MOST });
        }
        let (parents, who) = match self.sharing {
            Sharing::StaticRole => (1, "one for the parent, and one for each worker"),
            Sharing::Locked => (0, "one for each worker"),
        };
        let (given, needed) = (self.cpus.len(), parents + usize::from(self.workers));
        if given > 0 && given != needed {
            return Err(CrewError::Processors { given, needed, who });
        }
        Ok(())
    }
}
