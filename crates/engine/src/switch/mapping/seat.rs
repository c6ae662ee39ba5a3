//! The place of a physical queue in the switch's mappings. A reload gives the queue a mapping, takes it away or replaces it.
//! The port stays open, and only this queue rests meanwhile.
//!
//! Without a mapping the queue runs with buffers of the switch. It changes its mapping at rest: the old mapping stops both
//! directions and returns all buffers to its guest, and only then does the new one start the queue. A queue that does not
//! stop, or does not start, has failed: its port is opened again. Until then the old mapping keeps the guest's memory, if the
//! queue may still fill it, and the queue does not run under the new one.

use super::Mapping;
use super::physical::PhysicalQueue;
use crate::port::Site;
use crate::port::zero_copy::{Direction, PhysicalEnd, ZeroCopyQueue};
use std::sync::{Arc, Mutex};

/// The place of a physical queue.
pub(in crate::switch) struct MappingSlot {
    /// Index of the queue in its port.
    index: usize,
    /// May be locked for as long as the state of a mapping, before which it is locked.
    state: Mutex<SlotState>,
}

struct SlotState {
    /// The mapping that the queue is an end of, which also has the queue while the port is up.
    mapping: Option<Arc<Mapping>>,
    /// The queue while the port is up, if there is no mapping.
    unmapped: Option<PhysicalQueue>,
    /// Reason why the queue failed, until the port could be opened again.
    failed: Option<String>,
    /// Former mappings for which the queue did not stop: it may still fill the memory of their guests.
    withholding: Vec<Arc<Mapping>>,
}

impl MappingSlot {
    pub(super) fn new(index: usize, mapping: Option<Arc<Mapping>>) -> MappingSlot {
        MappingSlot {
            index,
            state: Mutex::new(SlotState { mapping, unmapped: None, failed: None, withholding: Vec::new() }),
        }
    }

    /// Makes the queue an end of this mapping from now on, or of none. Fails if the queue has failed, so that its port is
    /// opened again.
    pub(super) fn set(&self, mapping: Option<&Arc<Mapping>>) -> Result<(), String> {
        let mut state = self.state.lock().unwrap();
        if state.mapping.as_ref().map(Arc::as_ptr) == mapping.map(Arc::as_ptr) {
            return Ok(());
        }
        let (queue, rested) = match std::mem::replace(&mut state.mapping, mapping.cloned()) {
            None => (state.unmapped.take(), Vec::new()),
            Some(before) => {
                let queue = before.leave();
                if before.withholds_any() {
                    state.withholding.push(before);
                }
                (queue, Direction::BOTH.to_vec())
            }
        };
        match queue {
            Some(queue) => state.run(queue, rested),
            // The port may have noticed the failure before this.
            None => state.failed.clone().map_or(Ok(()), Err),
        }
    }

    /// Returns the present mapping.
    #[cfg(test)]
    pub(in crate::switch) fn mapping(&self) -> Option<Arc<Mapping>> {
        self.state.lock().unwrap().mapping.clone()
    }
}

impl SlotState {
    /// Runs the queue, of which these directions are at rest, with the present mapping. Fails if the queue has failed, or
    /// fails now.
    fn run(&mut self, physical: PhysicalQueue, rested: Vec<Direction>) -> Result<(), String> {
        if let Some(mapping) = &self.mapping {
            return mapping.enter(physical, rested);
        }
        let physical = self.unmapped.insert(physical);
        physical.works()?;
        if let Err(why) = physical.queue.share(&[], None) {
            physical.fail(&format!("may keep access to a guest's memory: {why}"));
        }
        physical.start(&rested, None);
        physical.works()
    }
}

impl PhysicalEnd for MappingSlot {
    fn physical_up(&self, site: Arc<dyn Site>, queue: Box<dyn ZeroCopyQueue>) -> Result<(), String> {
        let mut state = self.state.lock().unwrap();
        // The port could be opened again, so nothing uses its old queues any more.
        state.failed = None;
        let SlotState { mapping, withholding, .. } = &mut *state;
        withholding.drain(..).chain(mapping.clone()).for_each(|mapping| mapping.release_withheld(site.drops()));
        state.run(PhysicalQueue::new(site, self.index, queue), Direction::BOTH.to_vec())
    }

    fn physical_down(&self) {
        let mut state = self.state.lock().unwrap();
        let unmapped = state.unmapped.take().and_then(|queue| queue.failed);
        let failed = state.mapping.as_ref().and_then(|mapping| mapping.physical_down()).or(unmapped);
        state.failed = failed.or(state.failed.take());
    }
}
