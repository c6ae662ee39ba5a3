//! Options of a crew.

use super::error::CrewError;
use crate::port::{BURST, Options};
use std::time::Duration;

/// Maximum number of workers: their batches must leave buffers to the ports.
const MOST: u16 = 64;
/// Batches for each worker: one that it processes, and some that wait for it or for an earlier batch.
const BATCHES: u16 = 4;

/// Ways for workers to share the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Sharing {
    /// One thread, the parent, alone talks to the devices; frames keep their order
    StaticRole,
    /// Workers take turns at the ports, under a lock; frames may change their order
    Locked,
    /// Each worker has queue pairs of its own of each port; the switch chooses the queue of a frame, and frames of a queue keep
    /// their order
    Rss,
}

/// The part of a parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ParentRole {
    /// It is one more thread, which receives and sends
    #[default]
    Separate,
    /// It is one of the workers, and receives and sends between two batches
    Works,
}

/// The options of a crew.
#[derive(Clone, Debug)]
pub struct CrewOptions {
    /// Number of workers: with a parent that works, of all threads.
    pub workers: u16,
    /// The way in which they share the ports.
    pub sharing: Sharing,
    /// The part of the parent, if there is one.
    pub parent: ParentRole,
    /// Time that a worker may hold the oldest batch before the parent continues without it.
    pub patience: Duration,
    /// Processors: the parent's, if there is one, and each other worker's. Threads run on any if there are none.
    pub cpus: Vec<usize>,
}

impl CrewOptions {
    /// Creates options with a separate parent and a patience of a second, for threads that run on any processor.
    pub fn new(workers: u16, sharing: Sharing) -> CrewOptions {
        let (parent, patience) = (ParentRole::Separate, Duration::from_secs(1));
        CrewOptions { workers, sharing, parent, patience, cpus: Vec::new() }
    }

    /// Returns the number of batches that are published and not released, at most.
    pub(super) fn room(&self) -> usize {
        usize::from(self.workers * BATCHES).next_power_of_two()
    }

    /// Returns options of ports that meet the needs of the crew: spare buffers for the packets of its batches, or ports of
    /// its own for each worker.
    pub fn adapt(&self, options: Options) -> Options {
        let batches = if self.sharing == Sharing::Rss { 1 } else { self.room() + usize::from(self.workers) };
        let spare_buffers = options.spare_buffers.max((batches * BURST) as u16);
        Options { workers: self.port_workers(), spare_buffers, ..options }
    }

    /// Returns the number of workers that need ports of their own.
    pub(super) fn port_workers(&self) -> u16 {
        if self.sharing == Sharing::Rss { self.workers } else { 1 }
    }

    pub(super) fn check(&self) -> Result<(), CrewError> {
        if !(1..=MOST).contains(&self.workers) {
            return Err(CrewError::Workers { workers: self.workers, max: MOST });
        }
        let (parents, who) = match (self.sharing, self.parent) {
            (Sharing::StaticRole, ParentRole::Separate) => (1, "one for the parent, and one for each worker"),
            (Sharing::StaticRole, ParentRole::Works) => (0, "one for the parent, and one for each other worker"),
            (Sharing::Locked | Sharing::Rss, ParentRole::Separate) => (0, "one for each worker"),
            (Sharing::Locked | Sharing::Rss, ParentRole::Works) => return Err(CrewError::NoParent),
        };
        let (given, needed) = (self.cpus.len(), parents + usize::from(self.workers));
        if given > 0 && given != needed {
            return Err(CrewError::Processors { given, needed, who });
        }
        Ok(())
    }
}
