//! Runs of chains of one buffer: many are taken back or added in one loop, with all state in locals.
//!
//! This is the driver's part of a splice ([`crate::device::Spliced`]). Anything else than a chain of one buffer ends a run, and is left
//! as it is for [`super::Queue::pop_used`] and [`super::Queue::add`].

use super::Buffer;
use super::ids::{Entry, Ids, Outstanding, OutstandingChain};

/// A ring whose chains of one buffer are taken back and added in runs.
pub(crate) trait Run {
    /// Returns the number of free descriptors.
    fn free(&self) -> u16;

    /// Makes all added chains available to the device at once.
    fn publish(&mut self);

    /// Passes the id and the bytes written of up to `most` used chains to `take`, in the order in which the device returned them.
    /// Ends before one that `take` refuses, or that is not of one buffer. Takes none of a ring that exchanges buffers. Returns their
    /// number.
    fn take_back(&mut self, most: u16, take: impl FnMut(u16, u32) -> bool) -> u16;

    /// Passes the ids of up to `most` of the chains that [`Run::take_back`] would take next to `look`, unchecked: as a hint.
    fn peek(&mut self, most: u16, look: impl FnMut(u16));

    /// Adds chains of one buffer, up to `most` and as far as there are free descriptors: asks `next` for each, with the id that it will
    /// have, until there is none. [`super::Queue::publish`] makes them visible. Returns their number.
    fn add_each(&mut self, most: u16, next: impl FnMut(u16) -> Option<Buffer>) -> u16;
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

/// See [`Run::peek`].
#[inline(always)]
pub(super) fn peek(used: &mut impl UsedEntries, ids: &Ids, most: u16, mut look: impl FnMut(u16)) {
    let mut oldest = ids.oldest();
    for _ in 0..most {
        let Some(entry) = used.read() else { break };
        look(oldest.unwrap_or(entry.id as u16));
        oldest = oldest.map(|id| ids.after(id));
        used.pass();
    }
}

/// See [`Run::take_back`]. `take` has one call, so that it becomes part of the loop.
#[inline(always)]
pub(super) fn take_back(
    used: &mut impl UsedEntries,
    ids: &mut Ids,
    outstanding: &mut Outstanding,
    most: u16,
    mut take: impl FnMut(u16, u32) -> bool,
) -> u16 {
    let mut batch = outstanding.batch;
    let mut taken = 0;
    while taken < most {
        // In order, an entry may stand for all chains up to the one that it names.
        let Some(last) = batch.or_else(|| used.read()) else { break };
        let oldest = ids.oldest().filter(|&oldest| u32::from(oldest) != last.id);
        let id = oldest.map_or(last.id, u32::from);
        let Some(chain) = outstanding.chains.get_mut(id as usize) else { break };
        let id = id as u16;
        let len = if oldest.is_some() { chain.writable } else { last.len };
        if chain.descriptors != 1 || last.id >= ids.size() || !take(id, len) {
            break;
        }
        chain.descriptors = 0;
        batch = oldest.map(|_| last);
        ids.give_back(id);
        used.prepare(id);
        used.pass();
        taken += 1;
    }
    outstanding.batch = batch;
    taken
}

/// See [`Run::add_each`]; `put` writes a chain's descriptor.
#[inline(always)]
pub(super) fn add(
    ids: &mut Ids,
    outstanding: &mut Outstanding,
    most: u16,
    mut next: impl FnMut(u16) -> Option<Buffer>,
    mut put: impl FnMut(u16, Buffer),
) -> u16 {
    let mut added = 0;
    while added < most
        && let Some(id) = ids.take()
    {
        let Some(buffer) = next(id) else {
            ids.put_back(id);
            break;
        };
        let writable = if buffer.writable { buffer.len } else { 0 };
        outstanding.chains[usize::from(id)] = OutstandingChain { descriptors: 1, writable };
        put(id, buffer);
        added += 1;
    }
    added
}
