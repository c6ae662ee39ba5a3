//! `AF_XDP` ports: interfaces of the host, by sockets over memory that the switch provides.
//!
//! This memory is a pool of the switch's own, and for a mapped port also the memory of its guests: frames are then
//! received into buffers that a guest posted, and sent from its memory without a copy.

#[cfg(any(test, feature = "analysis"))]
mod by_hand;
mod control;
mod device;
mod in_flight;
mod queue;
mod rings;
mod rx;
mod spec;
mod splice;
mod steered;
#[cfg(test)]
mod tests;
mod tx;
mod umem_view;
mod watched;

#[cfg(any(test, feature = "analysis"))]
pub use by_hand::Nic;
pub use rx::XdpReceive;
pub use spec::{KIND, Keys, MoverKey, Settings};
pub use steered::Steered;
pub use tx::XdpTransmit;
pub use umem_view::UmemView;

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether pushed frames wait for another wake-up because the interface's queue was full. The receive half wakes the kernel
/// for them, since the transmit half may never be called again.
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
