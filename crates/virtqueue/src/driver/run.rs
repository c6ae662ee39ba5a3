//! Runs of chains of one buffer: many are taken back or added in one loop, with all state in locals.
//!
//! This is the driver's part of a splice ([`crate::device::Spliced`]). Anything else than a chain of one buffer ends a run, and is left
//! as it is for the driver's usual calls: those of [`super::Queue`] are [`super::Queue::pop_used`] and [`super::Queue::add`].

use super::Buffer;
use super::ids::{Entry, Ids, Outstanding, OutstandingChain};
use std::hint::cold_path;

/// A ring whose chains of one buffer are taken back and added in runs: that of a virtio driver ([`super::Queue`] has one of two), or any
/// other of a driver that is given buffers and returns them. Its methods should be inlined: what they are passed is called for every frame.
pub trait Run {
    /// Whether each filled buffer comes back with a valid virtio header, of a frame in one buffer and without offloads. If not, the switch
    /// writes the header.
    const WRITES_HEADERS: bool;

    /// Tells where the device reaches buffers.
    type Reach: Reach;

    /// Returns what tells where the device reaches buffers, for the next [`Run::add_each`].
    fn reach(&self) -> Self::Reach;

    /// Reports whether frames may come whose sender left their checksums to others, if headers do not tell ([`Run::WRITES_HEADERS`]).
    fn leaves_checksums(&self) -> bool {
        false
    }

    /// Returns the maximum number of chains that can be added now.
    fn free(&self) -> u16;

    /// Makes all added chains available to the device at once, if [`Run::add_each`] has not done that.
    fn publish(&mut self);

    /// Passes the id and the bytes written, virtio header included, of up to `most` used chains to `take`, in the order in which the
    /// device returned them. Stops before one that `take` refuses, that is not of one buffer, or that breaks the rules. Takes none of a
    /// ring that exchanges buffers.
    fn take_back(&mut self, most: u16, take: impl Take) -> TakenBack;

    /// Passes the ids of up to `most` of the chains that [`Run::take_back`] would take next to `look`, unchecked: as a hint. Passes
    /// none if it cannot read ahead.
    #[inline(always)]
    fn peek(&mut self, _most: u16, _look: impl FnMut(u16)) {}

    /// Adds chains of one buffer, up to `most` and as far as there is room: asks `offer` for each, with the id that it will have, until
    /// there is none. A buffer has the address that [`Run::reach`] gave. Returns their number.
    fn add_each(&mut self, most: u16, offer: impl Offer) -> u16;
}

/// Takes chains that come back. Closures do. Where several rings call the same one, it is not inlined, and a type with a method that
/// always is has to take its place.
pub trait Take {
    /// Takes the chain with this id, in which the device has written this number of bytes, or refuses it.
    fn take(&mut self, id: u16, written: u32) -> bool;
}

impl<F: FnMut(u16, u32) -> bool> Take for F {
    #[inline(always)]
    fn take(&mut self, id: u16, written: u32) -> bool {
        self(id, written)
    }
}

/// Offers buffers to add. Closures do, but for what [`Take`] says of them.
pub trait Offer {
    /// Returns the next buffer, of the chain that will have this id, if there is one.
    fn offer(&mut self, id: u16) -> Option<Buffer>;
}

impl<F: FnMut(u16) -> Option<Buffer>> Offer for F {
    #[inline(always)]
    fn offer(&mut self, id: u16) -> Option<Buffer> {
        self(id)
    }
}

/// Result of [`Run::take_back`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenBack {
    /// Number of chains.
    pub chains: u16,
    /// Whether the next one was left to the driver's usual calls.
    pub stopped: bool,
}

/// Where a device reaches the memory of this process.
pub trait Reach: Copy {
    /// Returns the device's address of a buffer that it is to fill or to send, virtio header included: `len` bytes at the address `at` of
    /// this process. `None` if the device cannot do that.
    fn address(&self, at: u64, len: u32) -> Option<u64>;
}

/// The device has the addresses of this process.
#[derive(Clone, Copy, Debug)]
pub struct HostAddresses;

impl Reach for HostAddresses {
    #[inline(always)]
    fn address(&self, at: u64, _: u32) -> Option<u64> {
        Some(at)
    }
}

/// Used entries that a call reads, from the oldest on.
pub(super) trait UsedEntries {
    /// Reads the present one, if the device has written it. It has written all those of a batch that it announced.
    fn read(&self) -> Option<Entry>;

    /// Prepares for writing where the next buffer of the chain of one descriptor with this id goes, once the present one was passed.
    fn prepare(&self, id: u16);

    /// Passes the present one, of a chain of one descriptor.
    fn pass(&mut self);
}

/// Entries that a call makes available, behind those before.
pub(super) trait NewEntries {
    /// Writes that of the chain with this id.
    fn put(&mut self, id: u16, buffer: Buffer);
}

/// See [`Run::peek`].
#[inline(always)]
pub(super) fn peek(used: &mut impl UsedEntries, ids: &Ids, most: u16, mut look: impl FnMut(u16)) {
    let (in_sequence, mut next) = (ids.in_sequence(), ids.tail());
    for _ in 0..most {
        let Some(entry) = used.read() else { break };
        let (place, oldest) = ids.at(next);
        look(if in_sequence { oldest } else { entry.id as u16 });
        next = place + 1;
        used.pass();
    }
}

/// See [`Run::take_back`].
#[inline(always)]
pub(super) fn take_back(
    used: &mut impl UsedEntries,
    ids: &mut Ids,
    outstanding: &mut Outstanding,
    most: u16,
    take: impl Take,
) -> TakenBack {
    let Outstanding { chains, batch, .. } = outstanding;
    let mut returning = Returning { used, chains, take, tail: ids.tail(), left: most };
    let stopped = if ids.in_sequence() { returning.in_sequence(batch) } else { returning.in_any_order(ids) };
    let (tail, chains) = (returning.tail, most - returning.left);
    ids.given_back(tail, chains);
    TakenBack { chains, stopped }
}

/// Chains that come back.
struct Returning<'r, U, T> {
    used: &'r mut U,
    chains: &'r mut [OutstandingChain],
    take: T,
    /// Place of the next one's id ([`Ids::tail`]).
    tail: usize,
    /// Maximum number of those to take.
    left: u16,
}

impl<U: UsedEntries, T: Take> Returning<'_, U, T> {
    /// Takes chains in any order. Reports whether it stopped before one.
    #[inline(always)]
    fn in_any_order(&mut self, ids: &mut Ids) -> bool {
        while self.left > 0
            && let Some(Entry { id, len, .. }) = self.used.read()
        {
            if !self.take(id as usize, len) {
                return true;
            }
            self.tail = ids.put(self.tail, id as u16);
        }
        false
    }

    /// Takes chains in sequence. Reports whether it stopped before one. An entry may stand for all chains up to the one that it names:
    /// `batch` is one that stands for the next ones. Such chains have a loop of their own.
    #[inline(always)]
    fn in_sequence(&mut self, batch: &mut Option<Entry>) -> bool {
        let mut present = *batch;
        let stopped = 'run: loop {
            let last = match present {
                Some(last) => last,
                None => loop {
                    let entry = if self.left > 0 { self.used.read() } else { None };
                    let Some(entry) = entry else { break 'run false };
                    let oldest = self.oldest();
                    if entry.id as usize != oldest {
                        break entry;
                    }
                    if !self.take(oldest, entry.len) {
                        break 'run true;
                    }
                    self.tail = oldest + 1;
                },
            };
            if last.id as usize >= self.chains.len() {
                break true;
            }
            loop {
                if self.left == 0 {
                    break 'run false;
                }
                let oldest = self.oldest();
                let is_last = last.id as usize == oldest;
                let len = if is_last { last.len } else { self.chains[oldest].writable };
                if !self.take(oldest, len) {
                    break 'run true;
                }
                self.tail = oldest + 1;
                present = (!is_last).then_some(last);
                if is_last {
                    break;
                }
            }
        };
        *batch = present;
        stopped
    }

    /// Returns the id of the chain that comes back next in sequence.
    #[inline(always)]
    fn oldest(&self) -> usize {
        wrapped(self.tail, self.chains.len())
    }

    /// Takes the chain with this id. Returns false if it is not of one buffer, or is refused.
    #[inline(always)]
    fn take(&mut self, id: usize, len: u32) -> bool {
        let Some(chain) = self.chains.get_mut(id).filter(|chain| chain.descriptors == 1) else { return false };
        if !self.take.take(id as u16, len) {
            return false;
        }
        chain.descriptors = 0;
        self.used.prepare(id as u16);
        self.used.pass();
        self.left -= 1;
        true
    }
}

/// Returns a place of so many, of which the one behind the last is the first.
#[inline(always)]
fn wrapped(place: usize, places: usize) -> usize {
    if place < places {
        return place;
    }
    cold_path();
    0
}

/// See [`Run::add_each`]. Each order of ids has a loop of its own.
#[inline(always)]
pub(super) fn add(
    entries: &mut impl NewEntries,
    ids: &mut Ids,
    outstanding: &mut Outstanding,
    most: u16,
    offer: impl Offer,
) -> u16 {
    let most = most.min(ids.free());
    let (mut head, mut left) = (ids.head(), most);
    let mut adding = Adding { entries, chains: &mut outstanding.chains, offer };
    if ids.in_sequence() {
        while left > 0 {
            let id = wrapped(head, adding.chains.len());
            if !adding.add(id) {
                break;
            }
            head = id + 1;
            left -= 1;
        }
    } else {
        while left > 0 {
            let (place, id) = ids.at(head);
            if !adding.add(id.into()) {
                break;
            }
            head = place + 1;
            left -= 1;
        }
    }
    ids.taken(head, most - left);
    most - left
}

/// Chains to add.
struct Adding<'a, E, O> {
    entries: &'a mut E,
    chains: &'a mut [OutstandingChain],
    offer: O,
}

impl<E: NewEntries, O: Offer> Adding<'_, E, O> {
    /// Adds the next chain, which gets this id. Returns false if there is none.
    #[inline(always)]
    fn add(&mut self, id: usize) -> bool {
        let Some(buffer) = self.offer.offer(id as u16) else { return false };
        let writable = if buffer.writable { buffer.len } else { 0 };
        self.chains[id] = OutstandingChain { descriptors: 1, writable };
        self.entries.put(id as u16, buffer);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Returns;
    use crate::exchange::Instead;

    /// Used entries of a device, as (id, bytes), by the number of chains before them.
    struct Fake {
        entries: Vec<Option<(u32, u32)>>,
        at: usize,
    }

    impl UsedEntries for Fake {
        fn read(&self) -> Option<Entry> {
            let &(id, len) = self.entries.get(self.at)?.as_ref()?;
            Some(Entry { id, len, instead: Instead::OWN })
        }

        fn prepare(&self, _: u16) {}

        fn pass(&mut self) {
            self.at += 1;
        }
    }

    impl NewEntries for Vec<u16> {
        fn put(&mut self, id: u16, _: Buffer) {
            self.push(id);
        }
    }

    struct Rig {
        ids: Ids,
        outstanding: Outstanding,
    }

    impl Rig {
        fn new(size: u16, returns: Returns) -> Rig {
            Rig { ids: Ids::new(size, returns), outstanding: Outstanding::new(size, returns) }
        }

        /// Adds up to `most` chains of 100 bytes. Returns their ids.
        fn add(&mut self, most: u16) -> Vec<u16> {
            let mut ids = Vec::new();
            let buffer = Buffer { addr: 0, len: 100, writable: true };
            let added = add(&mut ids, &mut self.ids, &mut self.outstanding, most, |_: u16| Some(buffer));
            assert_eq!(ids.len(), usize::from(added));
            ids
        }

        /// Takes up to `most` chains back but for the one with the id `refused`. Returns them, and whether it stopped.
        fn take_back(&mut self, used: &mut Fake, most: u16, refused: u16) -> (Vec<(u16, u32)>, bool) {
            let mut taken = Vec::new();
            let take = |id, len| {
                if id != refused {
                    taken.push((id, len));
                }
                id != refused
            };
            let back = take_back(used, &mut self.ids, &mut self.outstanding, most, take);
            assert_eq!(taken.len(), usize::from(back.chains));
            (taken, back.stopped)
        }
    }

    const NONE: u16 = u16::MAX;

    #[test]
    fn a_batch_goes_on_where_a_run_ended() {
        let mut rig = Rig::new(5, Returns::InOrder);
        assert_eq!(rig.add(9), [0, 1, 2, 3, 4]);
        let mut used = Fake { entries: vec![Some((3, 7)), None, None, None, Some((4, 8))], at: 0 };
        assert_eq!(rig.take_back(&mut used, 9, 0), (vec![], true));
        assert!(!rig.outstanding.in_batch(), "the general way reads the entry again");
        assert_eq!(rig.take_back(&mut used, 2, NONE), (vec![(0, 100), (1, 100)], false));
        assert_eq!(rig.take_back(&mut used, 9, 2), (vec![], true));
        assert!(rig.outstanding.in_batch());
        assert_eq!(rig.take_back(&mut used, 9, NONE), (vec![(2, 100), (3, 7), (4, 8)], false));
        assert!(!rig.outstanding.in_batch());
        assert_eq!((rig.add(3), rig.ids.free()), (vec![0, 1, 2], 2));
    }

    #[test]
    fn a_batch_of_no_chain_is_left() {
        let mut rig = Rig::new(5, Returns::InOrder);
        rig.add(5);
        let mut used = Fake { entries: vec![Some((0, 7)), Some((5, 7))], at: 0 };
        assert_eq!(rig.take_back(&mut used, 9, NONE), (vec![(0, 7)], true));
        assert!(!rig.outstanding.in_batch());
    }

    #[test]
    fn in_any_order_ids_are_added_as_they_came_back() {
        let mut rig = Rig::new(5, Returns::AnyOrder);
        assert_eq!(rig.add(9), [0, 1, 2, 3, 4]);
        let back = [3, 0, 4, 0, 1];
        let mut used = Fake { entries: back.iter().map(|&id| Some((id, 9))).collect(), at: 0 };
        assert_eq!(rig.take_back(&mut used, 2, NONE), (vec![(3, 9), (0, 9)], false));
        assert_eq!(rig.take_back(&mut used, 9, NONE), (vec![(4, 9)], true), "0 comes back once");
        assert_eq!(rig.add(2), [3, 0]);
        assert_eq!(rig.take_back(&mut used, 9, NONE), (vec![(0, 9), (1, 9)], false));
        assert_eq!(rig.add(9), [4, 0, 1]);
    }
}
