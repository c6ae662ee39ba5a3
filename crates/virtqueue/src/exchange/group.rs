//! A group: its memory, and the owner of each buffer.

use super::counts::Counts;
use super::geometry::Geometry;
use super::grid::Grid;
use crate::memory::{Arena, Memory, MemoryError};
use rustix::fd::OwnedFd;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use trials::Trials;

/// The owner of a free buffer.
const NOBODY: u16 = 0;

/// Settings of a group.
#[derive(Clone, Copy, Debug)]
pub struct GroupOptions {
    /// Number of ports.
    pub ports: u16,
    /// The buffers.
    pub geometry: Geometry,
    /// Length in bytes from which frames are exchanged; `None` if trials find it.
    pub threshold: Option<u32>,
    /// Whether to use huge pages, if there are any.
    pub huge: bool,
}

/// Length in bytes from which frames are exchanged before the first trial.
pub const UNTRIED: u32 = 256;

/// A group of functions that exchange buffers.
#[derive(Debug)]
pub struct Group {
    options: GroupOptions,
    memory: Arc<Memory>,
    /// The seat that owns each buffer. An exchange swaps two of them, so that each seat keeps the number of buffers that it was
    /// given, whatever its function claims.
    pub(super) owners: Box<[AtomicU16]>,
    seats: Mutex<Seats>,
    grid: Grid,
    trials: Arc<Trials>,
}

#[derive(Debug)]
struct Seats {
    /// Free buffers, the one that was freed first in front: a function that lost its connection may still read it.
    free: VecDeque<u16>,
    by_token: BTreeMap<u64, Weak<Seat>>,
    last: u16,
}

/// Error: a function can't join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The message explains the fields.
#[error(
    "it asks for {wanted} buffers, and {free} of the group's {count} are free; raise `buffers` of the [[exchange]]"
)]
pub struct TooFewBuffers {
    pub wanted: u16,
    pub free: usize,
    pub count: u16,
}

impl Group {
    /// Makes a group and its memory.
    pub fn new(options: GroupOptions) -> Result<Arc<Group>, MemoryError> {
        let memory = Arena::new(options.geometry.bytes(), options.huge)?.memory().clone();
        let count = options.geometry.count();
        Ok(Arc::new(Group {
            options,
            memory,
            owners: (0..count).map(|_| AtomicU16::new(NOBODY)).collect(),
            seats: Mutex::new(Seats { free: (0..count).collect(), by_token: BTreeMap::new(), last: NOBODY }),
            grid: Grid::new(options.ports),
            trials: Arc::new(Trials::new(options.threshold.unwrap_or(UNTRIED), trials::SETTLE)),
        }))
    }

    /// Returns its counters.
    #[inline(always)]
    pub(super) fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns its settings.
    #[inline(always)]
    pub fn options(&self) -> &GroupOptions {
        &self.options
    }

    /// Returns the length in bytes from which frames are exchanged, as configured or as last found.
    pub fn threshold(&self) -> u32 {
        self.trials.found()
    }

    /// Returns the trials in which its queues find that length, unless it is configured.
    #[inline(always)]
    pub(super) fn trials(&self) -> &Arc<Trials> {
        &self.trials
    }

    /// Returns the file of its memory.
    pub fn file(&self) -> &Arc<OwnedFd> {
        &self.memory.regions()[0].file
    }

    /// Returns the seat of the function with this token, which gets `wanted` buffers if it is new.
    pub fn join(self: &Arc<Group>, token: u64, wanted: u16) -> Result<Arc<Seat>, TooFewBuffers> {
        let mut seats = self.seats();
        if let Some(seat) = seats.by_token.get(&token).and_then(Weak::upgrade) {
            return Ok(seat);
        }
        let (free, count) = (seats.free.len(), self.options.geometry.count());
        if wanted == 0 || usize::from(wanted) > free {
            return Err(TooFewBuffers { wanted, free, count });
        }
        seats.by_token.retain(|_, seat| seat.strong_count() > 0);
        // Each seat has a buffer at least, and there are fewer buffers than numbers.
        let taken = |number: u16| self.owners.iter().any(|owner| owner.load(Ordering::Relaxed) == number);
        let mut numbers = (1..u16::MAX).map(|step| seats.last.wrapping_add(step)).filter(|number| *number != NOBODY);
        let number = numbers.find(|number| !taken(*number)).expect("a buffer is free, and so is a number");
        seats.last = number;
        for buffer in seats.free.drain(..usize::from(wanted)) {
            self.owners[usize::from(buffer)].store(number, Ordering::Relaxed);
        }
        let seat = Arc::new(Seat { group: self.clone(), number });
        seats.by_token.insert(token, Arc::downgrade(&seat));
        Ok(seat)
    }

    /// Returns the number of free buffers.
    pub fn free(&self) -> usize {
        self.seats().free.len()
    }

    /// Returns the number of functions.
    pub fn functions(&self) -> usize {
        self.seats().by_token.values().filter(|seat| seat.strong_count() > 0).count()
    }

    /// Returns the numbers of frames from one port to another; those from outside come from the port behind the last.
    pub fn counts(&self, from: u16, to: u16) -> Counts {
        self.grid.counts(from, to)
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owned_by(&self, seat: u16) -> impl Iterator<Item = u16> {
        (0..)
            .zip(&self.owners)
            .filter(move |(_, owner)| owner.load(Ordering::Relaxed) == seat)
            .map(|(buffer, _)| buffer)
    }
}

/// A function's place in a group. When the last of its queues is gone, its buffers are free for others.
#[derive(Debug)]
pub struct Seat {
    group: Arc<Group>,
    number: u16,
}

impl Seat {
    /// Returns the group.
    #[inline(always)]
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// Returns its number, by which the buffers that it has are marked.
    #[inline(always)]
    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// Returns the numbers of the buffers that it has. They change while its queues run.
    pub fn buffers(&self) -> Vec<u16> {
        self.group.owned_by(self.number).collect()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.group.seats();
        for buffer in self.group.owned_by(self.number) {
            self.group.owners[usize::from(buffer)].store(NOBODY, Ordering::Relaxed);
            seats.free.push_back(buffer);
        }
    }
}
