//! The position of a worker: a word that it writes at every step, so that others can tell at which queue it hangs.

use crate::counters::Counter;

/// Stage of a worker's round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Stage {
    /// Between two rounds.
    Between,
    Receive,
    Forward,
    Transmit,
    Recycle,
    Notify,
    /// Running jobs of the control side.
    Jobs,
    /// Asleep until woken.
    Asleep,
}

impl Stage {
    const ALL: [Stage; 8] = [
        Stage::Between,
        Stage::Receive,
        Stage::Forward,
        Stage::Transmit,
        Stage::Recycle,
        Stage::Notify,
        Stage::Jobs,
        Stage::Asleep,
    ];

    /// Returns its name for display.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Stage::Between => "between two rounds",
            Stage::Receive => "receive",
            Stage::Forward => "forward",
            Stage::Transmit => "transmit",
            Stage::Recycle => "recycle",
            Stage::Notify => "notify",
            Stage::Jobs => "jobs of the control side",
            Stage::Asleep => "asleep",
        }
    }
}

const QUEUE: u32 = 4;
const PORT: u32 = 16;

/// A queue of a port and a stage, in one word. Ports go by their ids, none of which is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    /// Returns the place at a queue.
    pub(crate) fn of(port: u64, queue: usize) -> Place {
        Place(port << PORT | (queue as u64) << QUEUE)
    }

    /// Returns a place at no queue.
    pub(crate) const fn nowhere(stage: Stage) -> Place {
        Place(stage as u64)
    }

    /// Returns the same queue at another stage.
    #[inline(always)]
    pub(crate) fn at(self, stage: Stage) -> Place {
        Place(self.0 & !((1 << QUEUE) - 1) | stage as u64)
    }

    /// Returns the port and the queue, if it is at one.
    pub(crate) fn queue(self) -> Option<(u64, usize)> {
        let queue = (self.0 & ((1 << PORT) - 1)) >> QUEUE;
        (self.0 >> PORT != 0).then_some((self.0 >> PORT, queue as usize))
    }

    pub(crate) fn stage(self) -> Stage {
        Stage::ALL[self.0 as usize % Stage::ALL.len()]
    }
}

/// Current place of a worker, which the worker writes.
#[derive(Debug, Default)]
pub(crate) struct Whereabouts(Counter);

impl Whereabouts {
    #[inline(always)]
    pub(crate) fn set(&self, place: Place) {
        self.0.set(place.0);
    }

    pub(crate) fn get(&self) -> Place {
        Place(self.0.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        for stage in Stage::ALL {
            let place = Place::of(70_000, 255).at(Stage::Transmit).at(stage);
            assert_eq!((place.queue(), place.stage()), (Some((70_000, 255)), stage));
            assert_eq!((Place::nowhere(stage).queue(), Place::nowhere(stage).stage()), (None, stage));
        }
        let place = Whereabouts::default();
        place.set(Place::of(2, 1).at(Stage::Notify));
        assert_eq!(place.get(), Place::of(2, 1).at(Stage::Notify));
    }
}
