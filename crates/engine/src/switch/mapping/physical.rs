//! A physical queue: taking its halves from their workers, and starting it again.

use crate::drops::Reason;
use crate::port::zero_copy::{Direction, Mapped, ZeroCopyQueue};
use crate::port::{Kept, LifeCycle, ReceiveHalf, Site, TransmitHalf};
use std::sync::Arc;

/// A physical queue whose port is up.
///
/// A queue that could not be stopped or started has failed: nobody uses it any more, and its port is opened again.
pub(super) struct PhysicalQueue {
    pub(super) site: Arc<dyn Site>,
    /// Its index in its port.
    index: usize,
    pub(super) queue: Box<dyn ZeroCopyQueue>,
    /// Reason why it cannot reach the guest's memory.
    pub(super) refused: Option<String>,
    /// Reason why it has failed.
    pub(super) failed: Option<String>,
}

/// A half that was taken from its worker.
pub(super) enum Stopped {
    Receive(Option<ReceiveHalf>),
    Transmit(Option<TransmitHalf>),
}

impl PhysicalQueue {
    /// Returns a queue that has not started.
    pub(super) fn new(site: Arc<dyn Site>, index: usize, queue: Box<dyn ZeroCopyQueue>) -> PhysicalQueue {
        PhysicalQueue { site, index, queue, refused: None, failed: None }
    }

    /// Stops these directions. When this returns, nothing fills or reads the buffers of those whose half is returned.
    pub(super) fn stop(&mut self, directions: &[Direction]) -> Vec<(Direction, Result<Stopped, String>)> {
        let halves: Vec<_> = directions.iter().map(|&direction| (direction, self.halt(direction))).collect();
        // A half that a worker still has does not count as stopped when its filler has stopped.
        let stop = |(direction, half): (Direction, Result<Stopped, Kept>)| {
            let half = half.map_err(|why| why.to_string());
            let stopped = half.and_then(|half| self.queue.stop(direction).map(|()| half));
            (direction, stopped.inspect_err(|why| self.fail(&format!("could not be stopped: {why}"))))
        };
        halves.into_iter().map(stop).collect()
    }

    /// Takes a half from its worker.
    fn halt(&self, direction: Direction) -> Result<Stopped, Kept> {
        let stop = |half: Option<&mut dyn LifeCycle>| lose(&*self.site, half.map_or(0, LifeCycle::stop));
        Ok(match direction {
            Direction::ToGuest => {
                let mut half = self.site.detach_receive(self.index)?;
                stop(half.as_mut().and_then(|half| half.life_cycle()));
                Stopped::Receive(half)
            }
            Direction::FromGuest => {
                let mut half = self.site.detach_transmit(self.index)?;
                stop(half.as_mut().and_then(|half| half.life_cycle()));
                Stopped::Transmit(half)
            }
        })
    }

    /// Starts directions that are new or have stopped, with the state of the mapping that they belong to from now on.
    pub(super) fn start(&mut self, directions: &[Direction], mapped: Option<&Arc<Mapped>>) {
        for &direction in directions {
            // A second direction would only wait as long as the first for what does not come.
            if self.failed.is_none()
                && let Err(why) = self.try_start(direction, mapped.cloned())
            {
                self.fail(&why);
            }
        }
    }

    fn try_start(&mut self, direction: Direction, mapped: Option<Arc<Mapped>>) -> Result<(), String> {
        let (site, index) = (&self.site, self.index);
        let attached = |attached: Result<(), Kept>| attached.map_err(|why| why.to_string());
        let (started, does) = match direction {
            Direction::ToGuest => {
                let half = self.queue.start_receive(mapped);
                (half.and_then(|half| attached(site.attach_receive(index, half))), "receive")
            }
            Direction::FromGuest => {
                let half = self.queue.start_transmit(mapped);
                (half.and_then(|half| attached(site.attach_transmit(index, half))), "send")
            }
        };
        started.map_err(|why| format!("does not {does}: {why}"))
    }

    /// Gives up the queue, and has its port opened again. `why` follows its name.
    pub(super) fn fail(&mut self, why: &str) {
        let why = format!("queue {} {why}", self.index);
        tracing::error!("port \"{}\": {why}", self.site.name());
        self.queue.fail();
        self.failed.get_or_insert(why);
    }

    /// Returns the reason as an error if it has failed.
    pub(super) fn works(&self) -> Result<(), String> {
        self.failed.clone().map_or(Ok(()), Err)
    }
}

/// Counts received frames that are lost.
pub(super) fn lose(site: &dyn Site, frames: u64) {
    if frames > 0 {
        site.drops().add(Reason::Down, frames);
    }
}
