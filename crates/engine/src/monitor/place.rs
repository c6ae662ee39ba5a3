//! The position of a worker: a word that it writes at every step, so that others can tell at which queue it hangs.

use crate::counters::Counter;
use crate::queue_key::QueueKey;

/// Activity of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Activity {
    /// Between two rounds.
    Between,
    Receive,
    Forward,
    Transmit,
    Recycle,
    Notify,
    /// Taking back batches that other workers have processed, and sending their frames.
    Release,
    /// Running jobs of the control side.
    Jobs,
    /// Asleep until woken.
    Asleep,
}

impl Activity {
    const ALL: [Activity; 9] = [
        Activity::Between,
        Activity::Receive,
        Activity::Forward,
        Activity::Transmit,
        Activity::Recycle,
        Activity::Notify,
        Activity::Release,
        Activity::Jobs,
        Activity::Asleep,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Activity::Between => "between two rounds",
            Activity::Receive => "receive",
            Activity::Forward => "forward",
            Activity::Transmit => "transmit",
            Activity::Recycle => "recycle",
            Activity::Notify => "notify",
            Activity::Release => "release",
            Activity::Jobs => "jobs of the control side",
            Activity::Asleep => "asleep",
        }
    }
}

const QUEUE: u32 = 4;
const PORT: u32 = 16;

/// A queue of a port and an activity, in one word. Ports go by their ids, none of which is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    /// Returns the place at a queue.
    pub(crate) fn of(port: u64, queue: usize) -> Place {
        Place(port << PORT | (queue as u64) << QUEUE)
    }

    /// Returns a place at no queue.
    pub(crate) const fn nowhere(activity: Activity) -> Place {
        Place(activity as u64)
    }

    /// Returns the same queue with another activity.
    #[inline(always)]
    pub(crate) fn at(self, activity: Activity) -> Place {
        Place(self.0 & !((1 << QUEUE) - 1) | activity as u64)
    }

    pub(crate) fn queue(self) -> Option<QueueKey> {
        let (port, queue) = (self.0 >> PORT, (self.0 & ((1 << PORT) - 1)) >> QUEUE);
        (port != 0).then_some(QueueKey { port, queue: queue as usize })
    }

    pub(crate) fn activity(self) -> Activity {
        let activity = self.0 & ((1 << QUEUE) - 1);
        Activity::ALL[activity as usize % Activity::ALL.len()]
    }
}

/// Current place of a worker, which the worker writes.
#[derive(Debug, Default)]
pub(crate) struct CurrentPlace(Counter);

impl CurrentPlace {
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
        for activity in Activity::ALL {
            let place = Place::of(70_000, 255).at(Activity::Transmit).at(activity);
            let queue = QueueKey { port: 70_000, queue: 255 };
            assert_eq!((place.queue(), place.activity()), (Some(queue), activity));
            assert_eq!((Place::nowhere(activity).queue(), Place::nowhere(activity).activity()), (None, activity));
        }
        let place = CurrentPlace::default();
        place.set(Place::of(2, 1).at(Activity::Notify));
        assert_eq!(place.get(), Place::of(2, 1).at(Activity::Notify));
    }
}
