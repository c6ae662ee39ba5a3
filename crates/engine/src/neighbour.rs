//! Answers to ARP and neighbour discovery, for the switch's own addresses at ports that aggregate or end a tunnel.
//! paflow (`neighbour`) recognises the requests. Workers put answers into a ring, and a control thread sends them,
//! since not every worker can send to the port that it receives from.

use crate::drops::Reason;
use crate::octets::Bytes;
use handover::{EventNotifier, Punt, Ring};
use paflow::neighbour::Station;
use std::sync::{Arc, OnceLock};

/// Words in each queue's ring: about thirty answers. The control thread pauses after each visit, so this also limits
/// how many answers it sends per pause.
const RING: usize = 1 << 9;

/// Answers waiting to be sent at one port.
pub(crate) struct Neighbours {
    /// By queue, for queues that have ever been up.
    rings: Box<[OnceLock<Ring>]>,
    notifier: Arc<EventNotifier>,
}

impl Neighbours {
    pub(crate) fn new(queues: usize, notifier: Arc<EventNotifier>) -> Neighbours {
        Neighbours { rings: (0..queues).map(|_| OnceLock::new()).collect(), notifier }
    }

    /// Creates the ring of a queue if it does not exist.
    pub(crate) fn prepare(&self, queue: usize) {
        self.rings[queue].get_or_init(|| Ring::new(RING));
    }

    /// Answers a frame received by `queue` if it asks for `station`. Returns `None` if it does not, and an error if the
    /// ring is full.
    #[cold]
    pub(crate) fn answer(&self, station: &Station, queue: usize, frame: &Bytes<'_, '_>) -> Option<Result<(), Reason>> {
        let answer = station.answer(frame)?;
        let punt = Punt { total: answer.len() as u32, ..Punt::default() };
        let taken = self.rings[queue].get().is_some_and(|ring| ring.push(&punt, &answer));
        self.notifier.notify();
        Some(if taken { Ok(()) } else { Err(Reason::NeighbourFlood) })
    }

    /// Returns the waiting answers, by queue. Only one thread may call this at a time, after clearing the notifier.
    pub(crate) fn drain(&self) -> impl Iterator<Item = (usize, Vec<Vec<u8>>)> {
        self.rings.iter().enumerate().filter_map(|(queue, ring)| {
            let ring = ring.get()?;
            let mut bytes = Vec::new();
            let next = || ring.pop(&mut bytes).map(|_| bytes.clone());
            // Answers that arrive meanwhile wait until the next time.
            let answers: Vec<_> = std::iter::from_fn(next).take(RING).collect();
            (!answers.is_empty()).then_some((queue, answers))
        })
    }

    /// Returns the number of answers made.
    pub(crate) fn answered(&self) -> u64 {
        self.rings.iter().filter_map(OnceLock::get).map(|ring| ring.pushed.get()).sum()
    }
}
