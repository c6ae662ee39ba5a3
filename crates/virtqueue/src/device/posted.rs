//! Posted receive buffers, read and checked ahead of the frames that will fill them.

use super::chain::WalkedChain;
use super::taken::TakenChain;
use crate::config::MAX_CHAIN;
use std::cell::Cell;
use std::hint::cold_path;
use std::slice;

/// One buffer. A chain is one or more of them; the last one carries its id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    pub(super) ptr: *mut u8,
    pub(super) len: u32,
    /// Head (split) or buffer id (packed) of the chain, valid in its last buffer.
    pub(super) id: u16,
    /// Ring slots of the chain in its last buffer; zero in all others.
    pub(super) slots: u16,
}

// SAFETY: it only names guest memory, which any thread may access; code that follows the pointer keeps the memory mapped.
unsafe impl Send for Posted {}

impl Posted {
    /// No buffer.
    pub(super) const NONE: Posted = Posted { ptr: std::ptr::null_mut(), len: 0, id: 0, slots: 0 };

    #[inline(always)]
    pub(super) fn is_last(&self) -> bool {
        self.slots != 0
    }

    /// Returns the chain that it ends.
    pub(super) fn chain(&self) -> TakenChain {
        TakenChain { id: self.id, slots: self.slots }
    }
}

/// A FIFO of posted buffers. It normally occupies a few cache lines; when a guest posts chains of several buffers, or
/// more buffers are wanted or come back than fit there, it grows to its full capacity.
///
/// The full capacity always suffices: buffers are read, a chain at a time, only while there are at most `most`, and the chains
/// that come back from loans never exceed the ring's slots, as the guest cannot offer a chain again before it is returned.
pub(super) struct PostedQueue {
    entries: Box<[Cell<Posted>]>,
    /// Entries in use, less one: a power of two, less one.
    mask: Cell<u32>,
    /// Highest length at which any chain still fits that does not make the queue grow.
    most: Cell<u32>,
    /// Descriptors of the ring.
    size: u16,
    head: Cell<u32>,
    tail: Cell<u32>,
}

/// A walk over entries of the queue, in locals: after each write to guest memory, a cell has to be read again.
pub(super) struct Entries<'q> {
    queue: &'q PostedQueue,
    /// The next of them, as far as they lie one after the other in memory.
    run: slice::Iter<'q, Cell<Posted>>,
    /// Queue positions where `run` ends, and where all of them end.
    run_end: u32,
    end: u32,
}

impl<'q> Entries<'q> {
    /// Returns the next entries, as far as they lie one after the other.
    #[inline(always)]
    pub(super) fn run(&mut self) -> &'q [Cell<Posted>] {
        if self.run.as_slice().is_empty() {
            cold_path();
            *self = self.queue.entries(self.run_end, self.end.wrapping_sub(self.run_end));
        }
        self.run.as_slice()
    }

    /// Passes `count` entries of this run.
    #[inline(always)]
    pub(super) fn pass(&mut self, count: usize) {
        self.run = self.run.as_slice()[count..].iter();
    }

    /// Returns the next entry, and passes it.
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<&'q Cell<Posted>> {
        if let Some(next) = self.run.next() {
            return Some(next);
        }
        cold_path();
        *self = self.queue.entries(self.run_end, self.end.wrapping_sub(self.run_end));
        self.run.next()
    }

    /// Goes back to the entry that [`Entries::next`] has returned.
    pub(super) fn back(&mut self) {
        let last = self.position().wrapping_sub(1);
        *self = self.queue.entries(last, self.end.wrapping_sub(last));
    }

    /// Returns the queue position of the next entry.
    #[inline(always)]
    fn position(&self) -> u32 {
        self.run_end.wrapping_sub(self.run.len() as u32)
    }
}

/// Entries in use until the queue grows.
const SMALL: usize = 128;

/// Entries kept free below [`SMALL`].
const SHORT: usize = 32;

/// Least number of buffers to read ahead, however small the ring: more than one frame may fill within
/// [`super::budget`].
const FRAME: usize = 512;

impl PostedQueue {
    /// Creates the queue for a ring of `size` descriptors.
    pub(super) fn new(size: u16) -> Self {
        let none = Posted { ptr: std::ptr::null_mut(), len: 0, id: 0, slots: 0 };
        let room = Self::read_ahead(size) + usize::from(MAX_CHAIN) + usize::from(size);
        PostedQueue {
            entries: vec![Cell::new(none); room.next_power_of_two()].into(),
            mask: Cell::new(SMALL as u32 - 1),
            most: Cell::new((SMALL - SHORT) as u32),
            size,
            head: Cell::new(0),
            tail: Cell::new(0),
        }
    }

    /// Returns the length up to which another chain is read after growing: at least one buffer for each chain of the ring.
    fn read_ahead(size: u16) -> usize {
        usize::from(size).max(FRAME)
    }

    /// Returns the number of buffers.
    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        self.tail.get().wrapping_sub(self.head.get())
    }

    /// Reports whether a chain of one buffer still fits; [`PostedQueue::push_chain`] makes room for a longer one.
    #[inline(always)]
    fn has_room(&self) -> bool {
        self.len() <= self.most.get()
    }

    #[inline(always)]
    fn entry(&self, at: u32) -> &Cell<Posted> {
        &self.entries[(at & self.mask.get()) as usize]
    }

    /// Returns the buffer `ahead` places from the front; `ahead` must be less than [`PostedQueue::len`].
    #[inline(always)]
    pub(super) fn peek(&self, ahead: u32) -> Posted {
        self.entry(self.head.get().wrapping_add(ahead)).get()
    }

    #[inline(always)]
    pub(super) fn pop(&self, count: u32) {
        self.head.set(self.head.get().wrapping_add(count));
    }

    /// Returns `count` entries from queue position `at` on.
    #[inline(always)]
    fn entries(&self, at: u32, count: u32) -> Entries<'_> {
        let mask = self.mask.get();
        let start = at & mask;
        let in_run = count.min(mask + 1 - start);
        let run = self.entries[start as usize..(start + in_run) as usize].iter();
        Entries { queue: self, run, run_end: at.wrapping_add(in_run), end: at.wrapping_add(count) }
    }

    /// Returns all buffers, to be used from the front; [`PostedQueue::pop_to`] removes those used.
    #[inline(always)]
    pub(super) fn front(&self) -> Entries<'_> {
        self.entries(self.head.get(), self.len())
    }

    /// Removes the buffers in front of those `left` of [`PostedQueue::front`].
    #[inline(always)]
    pub(super) fn pop_to(&self, left: &Entries<'_>) {
        self.head.set(left.position());
    }

    /// Returns free entries behind the last buffer, up to a length of `wanted` and as long as the queue has room;
    /// [`PostedQueue::push_to`] adds those filled with chains of one buffer.
    #[inline(always)]
    pub(super) fn vacant(&self, wanted: u32) -> Entries<'_> {
        let most = wanted.min(self.most.get() + 1);
        self.entries(self.tail.get(), most.saturating_sub(self.len()))
    }

    /// Adds the buffers in front of those entries `left` of [`PostedQueue::vacant`].
    #[inline(always)]
    pub(super) fn push_to(&self, left: &Entries<'_>) {
        self.tail.set(left.position());
    }

    #[inline(always)]
    fn push(&self, posted: Posted) {
        let tail = self.tail.get();
        self.entry(tail).set(posted);
        self.tail.set(tail.wrapping_add(1));
    }

    /// Returns a chain of one buffer to the front. At most as many are returned as were taken.
    pub(super) fn push_front(&self, posted: Posted) {
        if self.len() > self.mask.get() {
            self.grow();
        }
        debug_assert!(self.len() <= self.mask.get(), "there is room for all loans besides what was read");
        let head = self.head.get().wrapping_sub(1);
        self.entry(head).set(posted);
        self.head.set(head);
    }

    /// Grows if the queue is too full to read on and has not grown yet.
    pub(super) fn make_room(&self) {
        if !self.has_room() {
            self.grow();
        }
    }

    /// Grows if the queue has no room for this number of buffers and has not grown yet.
    pub(super) fn make_room_for(&self, buffers: u32) {
        if buffers > self.most.get() {
            self.grow();
        }
    }

    /// Adds a chain. One without any usable byte still takes its turn, as a buffer of length zero.
    pub(super) fn push_chain(&self, walked: &WalkedChain) {
        let TakenChain { id, slots } = walked.chain;
        if walked.buffers.len() > 1 {
            self.grow();
        }
        match walked.buffers.split_last() {
            Some((last, before)) if walked.good => {
                for b in before {
                    self.push(Posted { ptr: b.ptr, len: b.len, id: 0, slots: 0 });
                }
                self.push(Posted { ptr: last.ptr, len: last.len, id, slots });
            }
            _ => self.push(Posted { ptr: std::ptr::null_mut(), len: 0, id, slots }),
        }
    }

    /// Puts all entries in use.
    #[cold]
    fn grow(&self) {
        if self.mask.get() != SMALL as u32 - 1 {
            return;
        }
        let mut live = [Posted { ptr: std::ptr::null_mut(), len: 0, id: 0, slots: 0 }; SMALL];
        let count = self.len().min(SMALL as u32);
        (0..count).for_each(|i| live[i as usize] = self.peek(i));
        self.mask.set(self.entries.len() as u32 - 1);
        self.most.set(Self::read_ahead(self.size) as u32);
        self.head.set(0);
        self.tail.set(0);
        live[..count as usize].iter().for_each(|&posted| self.push(posted));
    }
}

#[cfg(test)]
mod tests {
    use super::super::chain::MappedBuffer;
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[derive(Clone, Debug)]
    enum Step {
        /// Reads the guest's next chain: the number of buffers, and whether all are good.
        Read(u16, bool),
        /// Reads chains of one buffer until no more are read.
        Fill,
        /// Reads chains of one buffer in one walk, until the queue has this length.
        Walk(u32),
        /// Uses the chain at the front.
        Use,
        /// Uses up to this many chains of one buffer from the front, in one walk.
        UseRun(u16),
        /// Lends this many chains of one buffer from the front.
        Lend(u16),
        /// Returns this many loans.
        GiveBack(u16),
        MakeRoom,
    }

    fn step() -> impl Strategy<Value = Step> {
        let buffers = prop_oneof![Just(1), 0..4u16, 1..=MAX_CHAIN, Just(MAX_CHAIN)];
        prop_oneof![
            3 => (buffers, prop::bool::weighted(0.9)).prop_map(|(buffers, good)| Step::Read(buffers, good)),
            1 => Just(Step::Fill),
            2 => (0..300u32).prop_map(Step::Walk),
            2 => (0..300u16).prop_map(Step::UseRun),
            2 => Just(Step::Use),
            2 => (1..300u16).prop_map(Step::Lend),
            2 => (1..300u16).prop_map(Step::GiveBack),
            1 => Just(Step::MakeRoom),
        ]
    }

    /// Returns a chain of buffers of one byte, the first of which has this number as its address.
    fn walked(buffers: usize, number: usize, good: bool) -> WalkedChain {
        let buffer = |i| MappedBuffer { ptr: std::ptr::without_provenance_mut(number + i), len: 1 };
        let buffers: Vec<_> = (0..buffers).map(buffer).collect();
        WalkedChain { chain: TakenChain { id: 0, slots: 1 }, descriptors: buffers.len() as u32, buffers, good }
    }

    /// Returns the identity of a buffer, and whether it ends its chain.
    fn known(posted: Posted) -> (usize, u16) {
        (posted.ptr.addr(), posted.slots)
    }

    /// The queue, a plain queue to compare with, and a guest that has no more chains than slots.
    struct Rig {
        queue: PostedQueue,
        model: VecDeque<(usize, u16)>,
        lent: Vec<Posted>,
        free: u16,
        number: usize,
    }

    impl Rig {
        fn read(&mut self, buffers: u16, good: bool) -> bool {
            if !self.queue.has_room() || self.free == 0 {
                return false;
            }
            self.free -= 1;
            let chain = walked(usize::from(buffers), self.number + 1, good);
            self.number += chain.buffers.len();
            self.queue.push_chain(&chain);
            match &chain.buffers[..] {
                [before @ .., last] if good => {
                    self.model.extend(before.iter().map(|b| (b.ptr.addr(), 0)));
                    self.model.push_back((last.ptr.addr(), 1));
                }
                _ => self.model.push_back((0, 1)),
            }
            true
        }

        fn step(&mut self, step: &Step) {
            match *step {
                Step::Read(buffers, good) => drop(self.read(buffers, good)),
                Step::Fill => while self.read(1, true) {},
                Step::Walk(wanted) => {
                    let mut vacant = self.queue.vacant(wanted);
                    while self.free > 0
                        && let Some(entry) = vacant.run().first()
                    {
                        self.free -= 1;
                        self.number += 1;
                        let ptr = std::ptr::without_provenance_mut(self.number);
                        entry.set(Posted { ptr, len: 1, id: 0, slots: 1 });
                        vacant.pass(1);
                        self.model.push_back((self.number, 1));
                        assert!(self.model.len() <= wanted as usize);
                    }
                    self.queue.push_to(&vacant);
                }
                Step::UseRun(most) => {
                    let mut front = self.queue.front();
                    for _ in 0..most {
                        let Some(buffer) = front.next() else { break };
                        if !buffer.get().is_last() {
                            front.back();
                            break;
                        }
                        assert_eq!(Some(known(buffer.get())), self.model.pop_front());
                        self.free += 1;
                    }
                    self.queue.pop_to(&front);
                }
                Step::Use => {
                    let Some(last) = self.model.iter().position(|buffer| buffer.1 > 0) else { return };
                    self.queue.pop(last as u32 + 1);
                    self.model.drain(..=last);
                    self.free += 1;
                }
                Step::Lend(count) => {
                    for _ in 0..count {
                        if self.model.front().is_none_or(|front| front.1 == 0) {
                            return;
                        }
                        self.lent.push(self.queue.peek(0));
                        self.queue.pop(1);
                        self.model.pop_front();
                    }
                }
                Step::GiveBack(count) => {
                    for _ in 0..count {
                        let Some(loan) = self.lent.pop() else { return };
                        self.queue.push_front(loan);
                        self.model.push_front(known(loan));
                    }
                }
                Step::MakeRoom => self.queue.make_room(),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 500 }, failure_persistence: None, ..Default::default() })]

        /// For any posted chains and returned loans, the queue stays first in, first out, and nothing is lost for lack of room.
        #[test]
        fn it_is_a_queue(
            size in prop::sample::select(if cfg!(miri) { &[4u16][..] } else { &[1, 4, 256, 1024, 2048] }),
            steps in prop::collection::vec(step(), 1..if cfg!(miri) { 10 } else { 120 }),
        ) {
            let mut rig = Rig {
                queue: PostedQueue::new(size),
                model: VecDeque::new(),
                lent: Vec::new(),
                free: size,
                number: 0,
            };
            for step in &steps {
                rig.step(step);
                prop_assert_eq!(rig.queue.len() as usize, rig.model.len(), "after {:?}", step);
                prop_assert!(rig.queue.len() <= rig.queue.mask.get() + 1);
                let ends = [0, rig.queue.len() / 2, rig.queue.len().saturating_sub(1)];
                for at in ends.into_iter().filter(|&at| at < rig.queue.len()) {
                    prop_assert_eq!(known(rig.queue.peek(at)), rig.model[at as usize]);
                }
            }
            let all: Vec<_> = (0..rig.queue.len()).map(|at| known(rig.queue.peek(at))).collect();
            prop_assert_eq!(all, Vec::from(rig.model));
        }
    }

    /// Fills the queue to its limit: read up to `most`, plus one longest chain, plus every slot of the ring back from loan.
    #[test]
    #[cfg_attr(miri, ignore = "too many buffers")]
    fn the_fullest_has_room() {
        for size in [1, 256, 1024, crate::MAX_QUEUE_SIZE] {
            let queue = PostedQueue::new(size);
            queue.push_chain(&walked(2, 1, true));
            while queue.has_room() {
                let left = queue.most.get() - queue.len();
                let next = if left == 0 { MAX_CHAIN.into() } else { left.min(MAX_CHAIN.into()) };
                queue.push_chain(&walked(next as usize, 1, true));
            }
            let loan = Posted { ptr: std::ptr::without_provenance_mut(1), len: 1, id: 0, slots: 1 };
            (0..size).for_each(|_| queue.push_front(loan));
            assert!(queue.len() as usize <= queue.entries.len());
        }
    }
}
