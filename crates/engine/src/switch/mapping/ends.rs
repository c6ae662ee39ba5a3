//! The ends of mappings that the queues of a port are.

use super::{Mapping, MappingSlot};
use crate::port::zero_copy::{GuestEnd, PhysicalEnd};
use crate::spec::PortSpec;
use std::sync::Arc;

/// The ends of mappings at a port, by queue.
pub(in crate::switch) enum Ends {
    /// No queue of the port is mapped.
    None,
    /// A physical port: each queue may get a mapping, or lose it, while the port is open.
    Physical(Vec<MappingSlot>),
    /// A guest's port: its mappings stay the same while it is open.
    Guest(Vec<Option<Arc<Mapping>>>),
}

impl Ends {
    /// Returns the ends at a port of a specification with these mappings.
    pub(in crate::switch) fn of(port: &PortSpec, mappings: &[Arc<Mapping>]) -> Ends {
        let queues = 0..port.driver.queues();
        if mappings.iter().any(|mapping| mapping.spec.from.port == port.name) {
            let seat = |queue| MappingSlot::new(queue, physical(mappings, &port.name, queue).cloned());
            return Ends::Physical(queues.map(seat).collect());
        }
        if mappings.iter().any(|mapping| mapping.spec.to.port == port.name) {
            return Ends::Guest(queues.map(|queue| guest(mappings, &port.name, queue).cloned()).collect());
        }
        Ends::None
    }

    /// Gives the queues of a physical port, which may be open, the mappings that they are ends of from now on. Fails if any
    /// queue has failed; the others have their mappings all the same.
    pub(in crate::switch) fn set(&self, port: &str, mappings: &[Arc<Mapping>]) -> Result<(), String> {
        let Ends::Physical(seats) = self else { return Ok(()) };
        let set = |(queue, seat): (usize, &MappingSlot)| seat.set(physical(mappings, port, queue)).err();
        let failed: Vec<_> = seats.iter().enumerate().filter_map(set).collect();
        if failed.is_empty() { Ok(()) } else { Err(format!("{}; the port is being opened again", failed.join("; "))) }
    }

    /// Returns the end that a queue of a physical port is.
    pub(in crate::switch) fn physical(&self, queue: usize) -> Option<&dyn PhysicalEnd> {
        let Ends::Physical(seats) = self else { return None };
        seats.get(queue).map(|seat| seat as &dyn PhysicalEnd)
    }

    /// Returns the end that a queue of a guest is.
    pub(in crate::switch) fn guest(&self, queue: usize) -> Option<&dyn GuestEnd> {
        let Ends::Guest(mappings) = self else { return None };
        mappings.get(queue)?.as_ref().map(|mapping| &**mapping as &dyn GuestEnd)
    }
}

/// Returns the mapping whose physical end a queue is.
fn physical<'m>(mappings: &'m [Arc<Mapping>], port: &str, queue: usize) -> Option<&'m Arc<Mapping>> {
    mappings.iter().find(|mapping| mapping.spec.from.port == port && mapping.queues.physical == queue)
}

/// Returns the mapping whose guest's end a queue is.
fn guest<'m>(mappings: &'m [Arc<Mapping>], port: &str, queue: usize) -> Option<&'m Arc<Mapping>> {
    mappings.iter().find(|mapping| mapping.spec.to.port == port && mapping.queues.guest == queue)
}
