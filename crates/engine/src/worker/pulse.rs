//! Heartbeats: tell a worker that hangs from one that works or sleeps, without asking it.

use crate::monitor::{Activity, WorkerCounters};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time without a round after which a worker counts as hung.
pub(crate) const STILL: Duration = Duration::from_secs(1);

/// Time that a control thread waits for a worker, once. After a timeout, requests do not wait until the worker has made
/// another round.
const PATIENCE: Duration = Duration::from_secs(5);

/// Number of slices of that time.
const SLICES: u32 = 50;

/// Interval of looks at a heartbeat.
const BEAT: Duration = Duration::from_micros(100);

/// A worker did not respond in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("worker {0} does not respond")]
pub(crate) struct Unresponsive(pub(crate) usize);

/// State of a worker that can be seen from outside.
#[derive(Debug)]
pub(crate) struct Pulse {
    pub(crate) index: usize,
    pub(crate) counters: Arc<WorkerCounters>,
    is_unpinned: AtomicBool,
    /// Jobs that the worker was asked for.
    #[cfg(test)]
    pub(crate) jobs: AtomicU64,
    /// Heartbeat plus one at which a control thread gave up waiting, or zero.
    given_up: AtomicU64,
    watched: Mutex<Watched>,
}

/// Last observation of the watchdog.
#[derive(Debug)]
struct Watched {
    beat: u64,
    since: Instant,
    told: bool,
}

/// A sign of life, or of its lack, that the watchdog found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// The worker has made no round for this long.
    Hangs(Duration),
    /// It makes rounds again, after this long.
    GoesOn(Duration),
}

impl Pulse {
    pub(super) fn new(index: usize, counters: Arc<WorkerCounters>) -> Pulse {
        let watched = Mutex::new(Watched { beat: 0, since: Instant::now(), told: false });
        Pulse {
            index,
            counters,
            is_unpinned: AtomicBool::new(false),
            #[cfg(test)]
            jobs: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            watched,
        }
    }

    /// Notes that the worker runs on any CPU, as it can't be pinned to its own.
    pub(super) fn unpin(&self) {
        self.is_unpinned.store(true, Ordering::Relaxed);
    }

    /// Reports whether the worker could not be pinned.
    pub(crate) fn is_unpinned(&self) -> bool {
        self.is_unpinned.load(Ordering::Relaxed)
    }

    /// Returns a number that differs after every round.
    fn beat(&self) -> u64 {
        // Every round takes cycles, whether or not it moves frames.
        self.counters.busy.get().wrapping_add(self.counters.idle.get()).wrapping_add(self.counters.sleeps.get())
    }

    /// Reports whether a control thread gave up waiting, and the worker has made no round since.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed) == self.beat().wrapping_add(1)
    }

    /// Waits until the worker makes a round or sleeps; does not wait if it was given up.
    pub(crate) fn feel(&self) -> Result<(), Unresponsive> {
        if self.is_given_up() {
            return Err(Unresponsive(self.index));
        }
        let beat = self.beat();
        // Looks are counted, not the time: see [`Pulse::wait`].
        for _ in 0..PATIENCE.as_micros() / BEAT.as_micros() {
            if self.beat() != beat || self.counters.place.get().activity() == Activity::Asleep {
                return Ok(());
            }
            std::thread::sleep(BEAT);
        }
        self.given_up.store(beat.wrapping_add(1), Ordering::Relaxed);
        Err(Unresponsive(self.index))
    }

    /// Waits for a result of the worker; does not wait if it was given up.
    pub(super) fn wait<R>(&self, result: &Receiver<R>) -> Result<R, Unresponsive> {
        // In slices: if the whole process was stopped for a while, the worker still gets time afterwards.
        let slices = if self.is_given_up() { 1 } else { SLICES };
        let slice = if self.is_given_up() { Duration::ZERO } else { PATIENCE / SLICES };
        for _ in 0..slices {
            match result.recv_timeout(slice) {
                Ok(done) => return Ok(done),
                // The worker has ended.
                Err(RecvTimeoutError::Disconnected) => return Err(Unresponsive(self.index)),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        self.given_up.store(self.beat().wrapping_add(1), Ordering::Relaxed);
        Err(Unresponsive(self.index))
    }

    /// Checks the worker, as the watchdog does regularly. Reports each hang twice: when it begins and when it ends.
    pub(crate) fn look(&self, now: Instant) -> Option<Life> {
        let mut watched = self.watched.lock().unwrap();
        let (beat, still) = (self.beat(), now.saturating_duration_since(watched.since));
        if beat != watched.beat || self.counters.place.get().activity() == Activity::Asleep {
            let told = watched.told;
            *watched = Watched { beat, since: now, told: false };
            return told.then_some(Life::GoesOn(still));
        }
        let hangs = still >= STILL && !watched.told;
        watched.told |= hangs;
        hangs.then_some(Life::Hangs(still))
    }

    /// Returns how long the worker has hung, if the watchdog found that it hangs.
    pub(crate) fn hung(&self) -> Option<Duration> {
        let watched = self.watched.lock().unwrap();
        watched.told.then(|| watched.since.elapsed())
    }
}

/// Pending result of a job.
pub(crate) struct Answer<R> {
    pub(super) pulse: Arc<Pulse>,
    pub(super) result: Receiver<R>,
}

impl<R> Answer<R> {
    /// Returns the pulse of the worker that was asked.
    pub(crate) fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    /// Waits until the job is done. After a timeout the worker still does it when it can, and drops the result.
    pub(crate) fn wait(self) -> Result<R, Unresponsive> {
        self.pulse.wait(&self.result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Place;

    #[test]
    fn a_worker_that_stands_still_is_told_of_once_and_so_is_its_return() {
        let counters = Arc::new(WorkerCounters::default());
        let pulse = Pulse::new(3, counters.clone());
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        counters.idle.add(10);
        assert_eq!(pulse.look(at(0)), None);
        assert_eq!((pulse.look(at(900)), pulse.hung()), (None, None));
        assert_eq!(pulse.look(at(1200)), Some(Life::Hangs(Duration::from_millis(1200))));
        assert!(pulse.hung().is_some());
        assert_eq!(pulse.look(at(5000)), None);
        counters.busy.add(10);
        assert_eq!(pulse.look(at(6000)), Some(Life::GoesOn(Duration::from_secs(6))));
        assert_eq!((pulse.look(at(6100)), pulse.hung()), (None, None));
        counters.place.set(Place::nowhere(Activity::Asleep));
        assert_eq!(pulse.look(at(60_000)), None, "it may sleep as long as it likes");
    }

    #[test]
    fn a_worker_that_was_given_up_is_waited_for_again_when_it_has_made_a_round() {
        let counters = Arc::new(WorkerCounters::default());
        let pulse = Pulse::new(3, counters.clone());
        assert!(!pulse.is_given_up());
        pulse.given_up.store(pulse.beat() + 1, Ordering::Relaxed);
        let (_sender, never) = std::sync::mpsc::sync_channel::<()>(1);
        assert!(pulse.is_given_up() && pulse.wait(&never) == Err(Unresponsive(3)));
        counters.idle.add(1);
        assert!(!pulse.is_given_up());
    }
}
