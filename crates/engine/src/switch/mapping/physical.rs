//! A physical queue: taking its halves from their workers, and starting it again.

use crate::drops::Reason;
use crate::port::zero_copy::{Direction, Mapped, ZeroCopyQueue};
use crate::port::{Kept, LifeCycle, ReceiveHalf, Site, TransmitHalf};
use std::sync::Arc;

/// A physical queue whose port is up.
pub(super) struct PhysicalQueue {
    pub(super) site: Arc<dyn Site>,
    /// Its index in its port.
    pub(super) index: usize,
    pub(super) queue: Box<dyn ZeroCopyQueue>,
    /// Reason why it cannot reach the guest's memory.
    pub(super) refused: Option<String>,
}

/// A half that was taken from its worker.
pub(super) enum Stopped {
    Receive(Option<ReceiveHalf>),
    Transmit(Option<TransmitHalf>),
}

impl PhysicalQueue {
    /// Stops these directions. When this returns, nothing fills or reads the buffers of those whose half is returned.
    pub(super) fn stop(&mut self, directions: &[Direction]) -> Vec<(Direction, Result<Stopped, String>)> {
        let halves: Vec<_> = directions.iter().map(|&direction| (direction, self.halt(direction))).collect();
        // A half that a worker still has does not count as stopped when its filler has stopped.
        let stop = |(direction, half): (Direction, Result<Stopped, Kept>)| {
            let half = half.inspect_err(|_| self.queue.fail()).map_err(|why| why.to_string());
            (direction, half.and_then(|half| self.queue.stop(direction).map(|()| half)))
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

    /// Starts a direction that is new or has stopped, with the state of the mapping that it belongs to from now on.
    pub(super) fn start(&mut self, direction: Direction, mapped: Option<&Arc<Mapped>>) {
        let (site, index, mapped) = (&self.site, self.index, mapped.cloned());
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
        if let Err(why) = started {
            tracing::error!("port \"{}\": queue {index} does not {does}: {why}", site.name());
            self.queue.fail();
        }
    }
}

/// Counts received frames that are lost.
pub(super) fn lose(site: &dyn Site, frames: u64) {
    if frames > 0 {
        site.drops().add(Reason::Down, frames);
    }
}
