//! DPDK ports: devices of DPDK's drivers, which the switch drives itself.
//!
//! All buffers are the switch's own or, for a mapped port, those of its guests: frames are then received into buffers that a guest
//! posted, and sent from its memory without a copy. The crate `dpdk` lends them to the driver, each with an id, and says which of them
//! came back.

mod control;
mod device;
mod environment;
mod left;
mod queue;
mod reception;
mod restraint;
mod rx;
mod shared;
mod spec;
mod splice;
mod transmission;
mod tx;

pub use environment::{find, places, start};
pub use rx::DpdkReceive;
pub use spec::{KIND, Keys, Settings};
pub use tx::DpdkTransmit;

use std::sync::{Arc, Mutex};

/// Where a direction of a queue is while no half has it.
type Home<T> = Arc<Mutex<Option<Box<T>>>>;

/// Marks the ids of the switch's own buffers, which are indices of chunks; those of a guest's are indices of records.
const OWN: u32 = 1 << 31;

/// Returns the chunk with this id, if it is one of the switch's own.
#[inline(always)]
fn chunk(id: u32) -> Option<u16> {
    (id & OWN != 0).then_some(id as u16)
}
