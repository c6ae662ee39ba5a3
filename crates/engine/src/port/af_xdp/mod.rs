//! `AF_XDP` ports: interfaces of the host, by sockets over memory that the switch provides.
//!
//! This memory is a pool of the switch's own, and for a mapped port also the memory of its guests: frames are then
//! received into buffers that a guest posted, and sent from its memory without a copy.

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

/// Whether pushed frames wait for another wake-up because the interface's queue was full. The receive half wakes the
/// kernel for them, since nobody may transmit any more.
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
