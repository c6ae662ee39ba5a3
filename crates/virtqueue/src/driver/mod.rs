//! The driver side of a queue, used by a network function: it offers buffers and gets them back when the device has
//! sent or filled them.

mod ids;
mod packed;
mod run;
mod split;

use crate::config::{Format, QueueConfig};
use crate::error::{Fatal, SetupError};
use crate::memory::Arena;

pub use packed::PackedDriver;
pub use run::{HostAddresses, Offer, Reach, Run, Take, TakenBack};
pub use split::SplitDriver;

/// A run of the driver's memory that a descriptor points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Guest address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// The device may write to it, and only write.
    pub writable: bool,
}

/// A used buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedBuffer {
    /// The id that [`Queue::add`] returned for it.
    pub id: u16,
    /// Bytes written by the device.
    pub len: u32,
    /// Number of the group's buffer that came back instead, if it is not the one that was added ([`crate::exchange`]).
    pub instead: Option<u16>,
}

/// One queue, driver side.
pub enum Queue {
    /// A split ring.
    Split(SplitDriver),
    /// A packed ring.
    Packed(PackedDriver),
}

macro_rules! each {
    ($self:ident, $ring:ident => $body:expr) => {
        match $self {
            Self::Split($ring) => $body,
            Self::Packed($ring) => $body,
        }
    };
}

impl Queue {
    /// Lays out a queue of `size` descriptors in `arena`; returns `None` if the arena is too small.
    pub fn layout(arena: &mut Arena, size: u16, negotiated: crate::Negotiated) -> Option<QueueConfig> {
        let format = negotiated.format();
        let sizes = QueueConfig::area_sizes(format, size);
        // Each area starts a cache line: the two sides write different areas.
        Some(QueueConfig {
            size,
            descriptors: arena.allocate(sizes.descriptors, 64)?,
            driver: arena.allocate(sizes.driver, 64)?,
            device: arena.allocate(sizes.device, 64)?,
            base: QueueConfig::initial_base(format),
            negotiated,
        })
    }

    /// Opens the queue that `config` describes, in `arena`, with all descriptors free. Clears the ring.
    pub fn new(arena: &Arena, config: &QueueConfig) -> Result<Queue, SetupError> {
        let memory = arena.memory().clone();
        Ok(match config.negotiated.format() {
            Format::Split => Queue::Split(SplitDriver::new(memory, config)?),
            Format::Packed => Queue::Packed(PackedDriver::new(memory, config)?),
        })
    }

    /// Returns the number of free descriptors.
    #[inline(always)]
    pub fn free(&self) -> u16 {
        each!(self, r => r.free())
    }

    /// Adds a chain of `buffers`, which [`Queue::publish`] makes visible. Returns `None` if `buffers` is empty or there
    /// are too few free descriptors.
    #[inline(always)]
    pub fn add(&mut self, buffers: &[Buffer]) -> Option<u16> {
        if buffers.is_empty() || buffers.len() > usize::from(self.free()) {
            return None;
        }
        Some(each!(self, r => r.add(buffers)))
    }

    /// Makes all added chains available to the device at once.
    #[inline(always)]
    pub fn publish(&mut self) {
        each!(self, r => r.publish())
    }

    /// Returns the next used chain. Fails if the device broke the ring.
    #[inline(always)]
    pub fn pop_used(&mut self) -> Result<Option<UsedBuffer>, Fatal> {
        each!(self, r => r.pop_used())
    }

    /// Reports whether the device wants a kick for the chains published since the previous query. Call
    /// [`crate::ordering::before_asking`] between publishing and this.
    #[inline(always)]
    pub fn wants_kick(&mut self) -> bool {
        each!(self, r => r.wants_kick())
    }

    /// Enables or disables notifications of used buffers. After enabling them, call [`crate::ordering::before_asking`]
    /// and [`Queue::has_used`] before sleeping.
    pub fn set_interrupts(&mut self, wanted: bool) {
        each!(self, r => r.set_interrupts(wanted))
    }

    /// Reports whether [`Queue::pop_used`] has something to return.
    pub fn has_used(&self) -> bool {
        each!(self, r => r.has_used())
    }
}
