//! Frames that workers make in answer to others, and a control thread delivers, since not every worker can send to the port that it
//! receives from.

use crate::drops::{Drops, Reason};
use handover::{EventNotifier, Punt, Ring};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Queues in a lot: a port may have thousands with their lanes, of which few are ever up.
const LOT: usize = 64;

/// Rings of a lot of queues, for those that have ever been up.
type Lot = Box<[OnceLock<Box<Ring>>; LOT]>;

/// Answers waiting at one port.
pub(crate) struct Answers {
    /// By queue, in lots.
    rings: Box<[OnceLock<Lot>]>,
    words: usize,
    notifier: Arc<EventNotifier>,
}

impl Answers {
    /// Returns room for `words` words at each queue: the control thread pauses after each visit, so this also limits how many answers it
    /// delivers per pause.
    pub(crate) fn new(queues: usize, words: usize, notifier: Arc<EventNotifier>) -> Answers {
        Answers { rings: (0..queues.div_ceil(LOT)).map(|_| OnceLock::new()).collect(), words, notifier }
    }

    /// Creates the ring of a queue if it does not exist.
    pub(crate) fn prepare(&self, queue: usize) {
        let lot = self.rings[queue / LOT].get_or_init(|| Box::new([const { OnceLock::new() }; LOT]));
        lot[queue % LOT].get_or_init(|| Box::new(Ring::new(self.words)));
    }

    fn ring(&self, queue: usize) -> Option<&Ring> {
        self.rings[queue / LOT].get()?[queue % LOT].get().map(Box::as_ref)
    }

    /// Returns the rings that exist, with their queues.
    fn all(&self) -> impl Iterator<Item = (usize, &Ring)> {
        let lots = (0..).step_by(LOT).zip(&self.rings);
        let made = lots.filter_map(|(first, lot)| Some((first..).zip(&**lot.get()?)));
        made.flatten().filter_map(|(queue, ring)| Some((queue, &**ring.get()?)))
    }

    /// Leaves an answer. Only the worker of the queue may call this. Returns false if there is no room.
    #[cold]
    pub(crate) fn leave(&self, queue: usize, answer: &[u8]) -> bool {
        let punt = Punt { total: answer.len() as u32, ..Punt::default() };
        let taken = self.ring(queue).is_some_and(|ring| ring.push(&punt, answer));
        self.notifier.notify();
        taken
    }

    pub(crate) fn is_empty(&self, queue: usize) -> bool {
        self.ring(queue).is_none_or(|ring| ring.waiting() == 0)
    }

    /// Returns the waiting answers, by queue. Only one thread may call this at a time, after clearing the notifier.
    pub(crate) fn drain(&self) -> impl Iterator<Item = (usize, Vec<Vec<u8>>)> {
        self.all().filter_map(|(queue, ring)| {
            let mut bytes = Vec::new();
            let next = || ring.pop(&mut bytes).map(|_| bytes.clone());
            // Answers that arrive meanwhile wait until the next time.
            let answers: Vec<_> = std::iter::from_fn(next).take(self.words).collect();
            (!answers.is_empty()).then_some((queue, answers))
        })
    }

    pub(crate) fn count(&self) -> u64 {
        self.all().map(|(_, ring)| ring.pushed.get()).sum()
    }
}

/// Answers on their way to one of several workers.
pub(crate) struct Delivery {
    frames: Vec<Vec<u8>>,
    is_taken: AtomicBool,
    drops: Arc<Drops>,
}

impl Delivery {
    /// Returns answers, which `drops` counts if no worker takes them.
    pub(crate) fn new(frames: Vec<Vec<u8>>, drops: Arc<Drops>) -> Delivery {
        Delivery { frames, is_taken: AtomicBool::new(false), drops }
    }

    /// Returns them to the first caller only.
    pub(crate) fn take(&self) -> Option<&[Vec<u8>]> {
        (!self.is_taken.swap(true, Ordering::Relaxed)).then_some(&self.frames)
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if !*self.is_taken.get_mut() {
            self.drops.add(Reason::Down, self.frames.len() as u64);
        }
    }
}
