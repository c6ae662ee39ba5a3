//! Mappings: the guests whose buffers the queues of a physical port receive into.
//!
//! Both ends come and go. Buffers are lent while both are present; before either changes, the physical queue is
//! stopped, so that nothing fills the buffers any more, and they return to the guest. A mapping ends in no other way.
//!
//! The exception is a queue that does not stop: buffers that it may still fill never return. The guest's session ends, so that
//! the guest learns that its device is gone, and its memory stays until the physical port could be opened again.

#[cfg(test)]
mod tests;

use super::tenancy::Verdict;
use crate::drops::Reason;
use crate::port::zero_copy::{Guest, GuestBuffers, Mapped, MappingEnd, ZeroCopyPort};
use crate::port::{Kept, Receive, ReceiveHalf, Site, TransmitHalf, copy_break};
use crate::spec::MappingSpec;
use crate::stats::MappingStats;
use std::sync::{Arc, Mutex};
use virtqueue::BurstStorage;
use virtqueue::memory::Memory;

/// One mapping of a specification.
pub(super) struct Mapping {
    spec: MappingSpec,
    /// State shared with the queues' halves, by queue pair.
    queues: Vec<Arc<Mapped>>,
    /// May be locked for long, while waiting for workers and for the filler of buffers.
    state: Mutex<State>,
    /// Copy of the state for display.
    told: Mutex<Told>,
}

/// State of a mapping. Locked before the fabric is.
struct State {
    physical: Option<(Arc<dyn Site>, Box<dyn ZeroCopyPort>)>,
    /// Running queues of the guest, by vhost-user's index.
    guests: Vec<Option<Guest>>,
    verdict: Verdict,
    /// Reason why nothing is lent although both ends are present.
    refused: Option<String>,
    /// Memories that queues may still fill because they did not stop. While there are any, the physical port is unusable.
    withheld: Vec<Arc<Memory>>,
}

/// A state for display.
#[derive(Default)]
struct Told {
    has_physical: bool,
    /// By vhost-user's index.
    has_guest: Vec<bool>,
    is_withheld: bool,
    refused: Option<String>,
}

impl State {
    fn told(&self) -> Told {
        let verdict = if let Verdict::Copied(why) = &self.verdict { Some(why.clone()) } else { None };
        Told {
            has_physical: self.physical.is_some(),
            has_guest: self.guests.iter().map(Option::is_some).collect(),
            is_withheld: !self.withheld.is_empty(),
            refused: verdict.or_else(|| self.refused.clone()),
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // Nobody is left to learn when the memory is released: leaking it is better than giving it to another guest.
        self.withheld.drain(..).for_each(std::mem::forget);
    }
}

impl Mapping {
    pub(super) fn new(spec: MappingSpec, verdict: Verdict, queues: usize) -> Mapping {
        let copy_break = spec.copy_break.unwrap_or_else(copy_break::measured);
        let mapped = || Arc::new(Mapped::new(spec.pass_through, copy_break));
        let guests = vec![None; 2 * queues];
        let state = State { physical: None, guests, verdict, refused: None, withheld: Vec::new() };
        let told = Mutex::new(state.told());
        Mapping { queues: (0..queues).map(|_| mapped()).collect(), spec, state: Mutex::new(state), told }
    }

    pub(super) fn spec(&self) -> &MappingSpec {
        &self.spec
    }

    /// Sets by how many bytes frames grow on their way to the guest.
    pub(super) fn expect_growth(&self, bytes: i32) {
        self.queues.iter().for_each(|mapped| mapped.set_growth(bytes));
    }

    /// Changes the state, and updates the copy for display.
    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock().unwrap();
        let done = change(&mut state);
        *self.told.lock().unwrap() = state.told();
        done
    }

    /// Applies a new verdict on how frames are received.
    pub(super) fn review(&self, verdict: Verdict) {
        self.change(|state| {
            if state.verdict != verdict {
                state.verdict = verdict;
                self.join(state, Vec::new());
            }
        });
    }

    /// Runs `change`, after which other halves of either end may lend or borrow: nothing is lent meanwhile, and the
    /// queues concerned restart.
    pub(super) fn at_rest(&self, change: impl FnOnce()) {
        self.change(|state| {
            let joined = (0..state.guests.len()).filter(|&index| self.is_joined(index)).collect();
            let rested = self.rest(state, joined);
            change();
            self.join(state, rested);
        });
    }

    /// Removes a queue of the guest from the physical port, if that may have buffers of it. Returns the queues stopped
    /// for that, and an error if any buffer of the guest's memory is still in use.
    fn part(&self, state: &mut State, index: usize) -> (Vec<usize>, Result<(), Kept>) {
        let rested = if self.is_joined(index) { self.rest(state, vec![index]) } else { Vec::new() };
        let guest = state.guests.get_mut(index).and_then(Option::take);
        let withheld = guest.is_some_and(|guest| is_among(&state.withheld, &guest.memory));
        let whole =
            if withheld { Err(Kept(format!("\"{}\" has not let go of its buffers", self.spec.from))) } else { Ok(()) };
        (rested, whole)
    }

    /// Reports whether buffers of the guest's queue may be on loan.
    fn is_joined(&self, index: usize) -> bool {
        let Some(mapped) = self.queues.get(index / 2) else { return false };
        if index.is_multiple_of(2) { mapped.is_reachable() } else { mapped.keeper() != 0 }
    }

    /// Stops physical queues, and returns to the guest what it had lent to them. Returns all queues stopped.
    fn rest(&self, state: &mut State, mut indices: Vec<usize>) -> Vec<usize> {
        let Some((port, physical)) = &mut state.physical else { return Vec::new() };
        if physical.is_coupled() {
            indices = indices.iter().flat_map(|index| [index & !1, index | 1]).collect();
            indices.sort_unstable();
            indices.dedup();
        }
        let halves: Vec<_> = indices.iter().map(|&index| (index, self.halt(&**port, index))).collect();
        // A queue that a worker still has does not count as stopped when its filler has stopped.
        let stop = |(index, half): (usize, Result<Stopped, Kept>)| {
            let half = half.inspect_err(|_| physical.fail()).map_err(|why| why.to_string());
            (index, half.and_then(|half| physical.stop(index).map(|()| half)))
        };
        let stopped: Vec<_> = halves.into_iter().map(stop).collect();
        for (index, stopped) in stopped {
            // A port may have more queues than the mapping.
            let guest = state.guests.get(index).and_then(Option::as_ref).filter(|_| self.is_joined(index));
            let half = match stopped {
                Ok(half) => half,
                Err(why) => {
                    tracing::error!("port \"{}\": queue {} could not be stopped: {why}", port.name(), index / 2);
                    if let Some(Guest { memory, site, .. }) = guest {
                        site.fault().withhold(format!("port \"{}\" has not let go of its buffers: {why}", port.name()));
                        if !is_among(&state.withheld, memory) {
                            state.withheld.push(memory.clone());
                        }
                    }
                    // The loans known to the half are lost with it.
                    self.forget(index);
                    continue;
                }
            };
            match half {
                Stopped::Receive(half) => self.recall(index / 2, half, guest, &**port),
                Stopped::Transmit(half) => self.release(index / 2, half, guest),
            }
        }
        indices
    }

    /// Marks the guest's queue as not lent.
    fn forget(&self, index: usize) {
        let Some(mapped) = self.queues.get(index / 2) else { return };
        if index.is_multiple_of(2) { mapped.set_reachable(false) } else { mapped.set_keeper(0) }
    }

    /// Takes the half of a physical queue from its worker.
    fn halt(&self, port: &dyn Site, index: usize) -> Result<Stopped, Kept> {
        let queue = index / 2;
        Ok(if index.is_multiple_of(2) {
            let mut half = port.detach_receive(queue)?;
            let lost = half.as_mut().map_or(0, |half| half.stop());
            lose(port, lost);
            Stopped::Receive(half)
        } else {
            let mut half = port.detach_transmit(queue)?;
            half.iter_mut().for_each(|half| half.stop());
            Stopped::Transmit(half)
        })
    }

    /// Returns the buffers that a stopped queue has to the guest.
    fn recall(&self, queue: usize, half: Option<ReceiveHalf>, guest: Option<&Guest>, port: &dyn Site) {
        match guest {
            Some(guest) => {
                let recall = || -> Result<(), Kept> {
                    let Some(lender) = guest.site.detach_transmit(guest.queue)? else { return Ok(()) };
                    if let (Some(lend), Some(guest)) = (half.as_ref().and_then(|half| half.lends()), lender.guest()) {
                        lose(port, lend.recall(guest));
                    }
                    guest.site.attach_transmit(guest.queue, lender)
                };
                guest.site.end_session_if(recall());
            }
            None => lose(port, half.map_or(0, |half| waiting(&*half))),
        }
        self.forget(2 * queue);
    }

    /// Returns the chains that a stopped queue has to the guest.
    fn release(&self, queue: usize, half: Option<TransmitHalf>, guest: Option<&Guest>) {
        if let Some(guest) = guest {
            let release = || -> Result<(), Kept> {
                let Some(owner) = guest.site.detach_receive(guest.queue)? else { return Ok(()) };
                half.iter().for_each(|half| half.recall(&mut |id| owner.release(id)));
                owner.recycle();
                guest.site.attach_receive(guest.queue, owner)
            };
            guest.site.end_session_if(release());
        }
        self.forget(2 * queue + 1);
    }

    /// Lets the physical queues reach the memory of the present guests, and restarts the `rested` ones.
    fn join(&self, state: &mut State, mut rested: Vec<usize>) {
        if !state.withheld.is_empty() {
            return;
        }
        let mut memories: Vec<Arc<Memory>> = Vec::new();
        for guest in state.guests.iter().flatten() {
            if !is_among(&memories, &guest.memory) {
                memories.push(guest.memory.clone());
            }
        }
        let Some((port, physical)) = &mut state.physical else { return };
        // The packets of an aggregate need separate buffers: if all were on loan to receive aggregates, none would be left.
        let aggregates = port.aggregates();
        let macs = match &state.verdict {
            Verdict::Steered(macs) if !aggregates => Some(macs.clone()),
            _ => None,
        };
        if physical.rests_to_share(&memories, macs.as_deref()) {
            // All queues of the port, which may have more than the mapping.
            let all = 0..2 * port.queues().max(self.queues.len());
            let others = all.filter(|index| !rested.contains(index)).collect();
            rested.extend(self.rest(state, others));
        }
        if !state.withheld.is_empty() {
            return;
        }
        let Some((port, physical)) = &mut state.physical else { return };
        let shared = physical.share(&memories, macs.as_deref());
        let lends = shared.is_ok() && !aggregates && !matches!(state.verdict, Verdict::Copied(_));
        if let Err(why) = &shared {
            tracing::warn!("port \"{}\" copies: {why}", port.name());
        }
        // A queue restarts, so that all frames after that are in buffers of one kind.
        let takes = |state: &State, queue: usize| lends && state.guests[2 * queue].is_some();
        let sends = |state: &State, queue: usize| {
            state.guests[2 * queue + 1].as_ref().filter(|_| shared.is_ok()).map_or(0, |guest| guest.keeper)
        };
        for (queue, mapped) in self.queues.iter().enumerate() {
            let changed =
                [mapped.is_reachable() != takes(state, queue), mapped.keeper() != 0 && sends(state, queue) == 0];
            for index in [2 * queue, 2 * queue + 1] {
                if changed[index % 2] && !rested.contains(&index) {
                    rested.extend(self.rest(state, vec![index]));
                }
            }
        }
        if !state.withheld.is_empty() {
            return;
        }
        for (queue, mapped) in self.queues.iter().enumerate() {
            mapped.set_reachable(takes(state, queue));
            mapped.set_keeper(sends(state, queue));
        }
        let Some((port, physical)) = &mut state.physical else { return };
        rested.iter().for_each(|&index| start(&**port, &mut **physical, index));
        state.refused = shared.err();
    }

    /// Returns the statistics, by queue. `lends` tells whether a worker can borrow from the guest's queue.
    pub(super) fn stats(&self, lends: impl Fn(usize) -> Result<(), String>) -> Vec<MappingStats> {
        let told = self.told.lock().unwrap();
        let why_not = |queue: usize| -> Option<String> {
            if !told.has_physical {
                return Some(format!("port \"{}\" is down", self.spec.from));
            }
            if !told.has_guest[2 * queue] {
                return Some(format!("no guest has started queue {queue} of \"{}\"", self.spec.to));
            }
            if told.is_withheld {
                return Some(format!("port \"{}\" has not let go of the guest's buffers", self.spec.from));
            }
            let refused = told.refused.clone();
            refused.or_else(|| lends(queue).err()).or_else(|| self.queues[queue].why_none())
        };
        let queues = self.queues.iter().enumerate();
        queues
            .map(|(queue, mapped)| MappingStats {
                from: format!("{}.{queue}", self.spec.from),
                to: format!("{}.{queue}", self.spec.to),
                mode: self.spec.mode().into(),
                zero_copy: why_not(queue).is_none(),
                reason: why_not(queue),
                on_loan: mapped.on_loan.get(),
                longest_loan_us: mapped.longest.get(),
                in_place: mapped.in_place.get(),
                elsewhere: mapped.elsewhere.get(),
                copied: mapped.copied.get(),
                sent_in_place: mapped.sent_in_place.get(),
                sent_copied: mapped.sent_copied.get(),
                copy_break: mapped.copy_break,
            })
            .collect()
    }
}

impl MappingEnd for Mapping {
    fn queue(&self, queue: usize) -> Option<Arc<Mapped>> {
        self.queues.get(queue).cloned()
    }

    fn physical_up(&self, site: Arc<dyn Site>, port: Box<dyn ZeroCopyPort>) {
        self.change(|state| {
            // Its queues could be opened, so nothing uses the old ones any more.
            state.withheld.clear();
            state.physical = Some((site, port));
            self.join(state, Vec::new());
        });
    }

    fn physical_down(&self) {
        self.change(|state| {
            let joined = (0..state.guests.len()).filter(|&index| self.is_joined(index)).collect();
            self.rest(state, joined);
            state.physical = None;
        });
    }

    fn guest_up(&self, index: usize, guest: Guest) {
        self.change(|state| {
            if let Some(known) = state.guests.get_mut(index) {
                *known = Some(guest);
                self.join(state, Vec::new());
            }
        });
    }

    fn guest_receive_down(&self, site: &dyn Site, queue: usize) -> Result<Option<TransmitHalf>, Kept> {
        self.change(|state| {
            let (rested, whole) = self.part(state, 2 * queue);
            let lender = site.detach_transmit(queue);
            if !rested.is_empty() && whole.is_ok() {
                lender.iter().flatten().filter_map(|lender| lender.guest()).for_each(GuestBuffers::close);
            }
            self.join(state, rested);
            whole.and(lender)
        })
    }

    fn guest_transmit_down(&self, site: &dyn Site, queue: usize) -> Result<Option<ReceiveHalf>, Kept> {
        self.change(|state| {
            let (rested, whole) = self.part(state, 2 * queue + 1);
            let owner = site.detach_receive(queue);
            self.join(state, rested);
            whole.and(owner)
        })
    }
}

/// A physical queue's half that was taken from its worker.
enum Stopped {
    Receive(Option<ReceiveHalf>),
    Transmit(Option<TransmitHalf>),
}

fn is_among(memories: &[Arc<Memory>], memory: &Arc<Memory>) -> bool {
    memories.iter().any(|known| Arc::ptr_eq(known, memory))
}

/// Counts received frames that are lost.
fn lose(port: &dyn Site, frames: u64) {
    if frames > 0 {
        port.drops().add(Reason::Down, frames);
    }
}

/// Restarts a stopped queue.
fn start(port: &dyn Site, physical: &mut dyn ZeroCopyPort, index: usize) {
    let (queue, receives) = (index / 2, index.is_multiple_of(2));
    let attached = |attached: Result<(), Kept>| attached.map_err(|why| why.to_string());
    let started = if receives {
        physical
            .start_receive(queue)
            .and_then(|half| attached(port.attach_receive(queue, port.wrap_receive(queue, half))))
    } else {
        physical
            .start_transmit(queue)
            .and_then(|half| attached(port.attach_transmit(queue, port.wrap_transmit(queue, half))))
    };
    if let Err(why) = started {
        let does = if receives { "receive" } else { "send" };
        tracing::error!("port \"{}\": queue {queue} does not {does} again: {why}", port.name());
        physical.fail();
    }
}

/// Drains a stopped queue and returns its number of frames: at most as many as a ring holds, as a device that claims to
/// have stopped may continue.
fn waiting(half: &dyn Receive) -> u64 {
    let mut storage = Box::<BurstStorage>::default();
    let mut frames = 0;
    for _ in 0..virtqueue::MAX_QUEUE_SIZE {
        let mut burst = storage.start();
        let any = half.receive(&mut burst);
        frames += burst.len() as u64;
        half.recycle();
        if !any || frames >= virtqueue::MAX_QUEUE_SIZE.into() {
            break;
        }
    }
    frames
}
