//! The position of a worker: a word that it writes at every step, so that others can tell at which queue it hangs.

use crate::counters::Counter;
use crate::queue_id::QueueId;

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

/// Bits below the lane plus one, the queue, and the port.
const LANE: u32 = 4;
const QUEUE: u32 = 9;
const PORT: u32 = 16;

/// A queue of a port and an activity, in one word. Ports go by their ids, none of which is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    /// Returns the place at a queue.
    pub(crate) fn of(port: u64, queue: usize) -> Place {
        Place(port << PORT | (queue as u64) << QUEUE)
    }

    /// Returns the place at a queue, or at a lane of one.
    pub(crate) fn of_id(id: QueueId) -> Place {
        let lane = id.lane.map_or(0, |lane| lane as u64 + 1);
        Place(Place::of(id.port, id.queue).0 | lane << LANE)
    }

    /// Returns a place at no queue.
    pub(crate) const fn nowhere(activity: Activity) -> Place {
        Place(activity as u64)
    }

    /// Returns the same queue with another activity.
    #[inline(always)]
    pub(crate) fn at(self, activity: Activity) -> Place {
        Place(self.0 & !((1 << LANE) - 1) | activity as u64)
    }

    /// Returns the queue, if it is at one.
    pub(crate) fn queue(self) -> Option<QueueId> {
        let bits = |from: u32, to: u32| (self.0 >> from & ((1 << (to - from)) - 1)) as usize;
        let (port, queue) = (self.0 >> PORT, bits(QUEUE, PORT));
        (port != 0).then_some(QueueId { port, queue, lane: bits(LANE, QUEUE).checked_sub(1) })
    }

    pub(crate) fn activity(self) -> Activity {
        let activity = self.0 & ((1 << LANE) - 1);
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
    use crate::spec::{MAX_QUEUES, MOST_SHARING};

    #[test]
    fn a_place_is_read_as_it_was_written() {
        for activity in Activity::ALL {
            let last = QueueId::new(70_000, usize::from(MAX_QUEUES) - 1);
            for id in [last, last.lane(0), last.lane(MOST_SHARING - 1)] {
                let place = Place::of_id(id).at(Activity::Transmit).at(activity);
                assert_eq!((place.queue(), place.activity()), (Some(id), activity));
            }
            assert_eq!(Place::of(last.port, last.queue), Place::of_id(last));
            assert_eq!((Place::nowhere(activity).queue(), Place::nowhere(activity).activity()), (None, activity));
        }
        let place = CurrentPlace::default();
        place.set(Place::of(2, 1).at(Activity::Notify));
        assert_eq!(place.get(), Place::of(2, 1).at(Activity::Notify));
    }
}
