//! `AF_XDP` ports: interfaces of the host, by sockets over memory that the switch brings.
//!
//! That memory is a pool of the switch's own, and for a mapped port the memory of its guests as well: frames are then
//! received into the buffers that a guest posted, and sent from where they lie in its memory.

mod memory;
mod outside;
mod pool;
mod receive;
mod steered;
mod transmit;

pub use memory::Reach;
pub use pool::Pool;
pub use receive::XdpReceive;
pub use steered::Steered;
pub use transmit::XdpTransmit;

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether frames that were pushed wait for another wake-up, for want of room in the interface's own queue. Whoever
/// receives from the queue sees to it, as nobody may send there any more.
#[derive(Debug, Default)]
pub struct Stuck(AtomicBool);

impl Stuck {
    fn set(&self, stuck: bool) {
        self.0.store(stuck, Ordering::Relaxed);
    }

    #[inline(always)]
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
