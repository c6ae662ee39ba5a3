//! Answers to ARP and neighbour discovery, for the addresses that the switch itself has at ports that aggregate or end a
//! tunnel. Who asks is paflow's matter (`neighbour`). Workers leave what is to be answered in a ring, and the control side
//! sends it: not every worker can send to the port that it receives from.

use crate::drops::Reason;
use crate::octets::Bytes;
use crate::punt::{Bell, Punt, Ring};
use paflow::neighbour::Station;
use std::sync::{Arc, OnceLock};

/// Words of each queue's ring: about thirty answers. The control side takes some time off after it has looked, so this also
/// is how many it sends in that time.
const RING: usize = 1 << 9;

/// Answers that wait to be sent at one port.
pub(crate) struct Neighbours {
    /// By queue, of those that have ever been up.
    rings: Box<[OnceLock<Ring>]>,
    bell: Arc<Bell>,
}

impl Neighbours {
    pub(crate) fn new(queues: usize, bell: Arc<Bell>) -> Neighbours {
        Neighbours { rings: (0..queues).map(|_| OnceLock::new()).collect(), bell }
    }

    /// Makes the ring of a queue, if it is not there.
    pub(crate) fn prepare(&self, queue: usize) {
        self.rings[queue].get_or_init(|| Ring::new(RING));
    }

    /// Answers a frame that `queue` received, if it asks for `station`; `None` if it does not, and an error if too many ask.
    #[cold]
    pub(crate) fn answer(&self, station: &Station, queue: usize, frame: &Bytes<'_, '_>) -> Option<Result<(), Reason>> {
        let answer = station.answer(frame)?;
        let punt = Punt { total: answer.len() as u32, ..Punt::default() };
        let taken = self.rings[queue].get().is_some_and(|ring| ring.push(&punt, &answer));
        self.bell.ring();
        Some(if taken { Ok(()) } else { Err(Reason::NeighbourFlood) })
    }

    /// The answers that wait, by queue. One thread at a time, after the bell was answered.
    pub(crate) fn drain(&self) -> impl Iterator<Item = (usize, Vec<Vec<u8>>)> {
        self.rings.iter().enumerate().filter_map(|(queue, ring)| {
            let ring = ring.get()?;
            let mut bytes = Vec::new();
            let next = || ring.pop(&mut bytes).map(|_| bytes.clone());
            // What comes meanwhile can wait until the next time.
            let answers: Vec<_> = std::iter::from_fn(next).take(RING).collect();
            (!answers.is_empty()).then_some((queue, answers))
        })
    }

    /// Answers that were made.
    pub(crate) fn answered(&self) -> u64 {
        self.rings.iter().filter_map(OnceLock::get).map(|ring| ring.pushed.get()).sum()
    }
}
