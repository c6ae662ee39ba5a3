//! The driver side of a queue, which a network function has: it offers buffers and gets them back when the device has
//! sent or filled them.

mod ids;
mod packed;
mod split;

use crate::config::{Format, QueueConfig};
use crate::error::{Fatal, SetupError};
use crate::memory::Arena;

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

/// A buffer that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedBuffer {
    /// What [`Queue::add`] returned for it.
    pub id: u16,
    /// Bytes that the device wrote.
    pub len: u32,
}

/// One queue, driver side.
pub enum Queue {
    /// On a split ring.
    Split(split::Ring),
    /// On a packed ring.
    Packed(packed::Ring),
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
    /// Lays a queue of `size` descriptors out in `arena`; `None` if the arena is too small.
    pub fn layout(arena: &mut Arena, size: u16, negotiated: crate::Negotiated) -> Option<QueueConfig> {
        let format = negotiated.format();
        let (descriptors, driver, device) = QueueConfig::area_sizes(format, size);
        // Each area on lines of its own: the two sides write different ones.
        Some(QueueConfig {
            size,
            descriptors: arena.allocate(descriptors, 64)?,
            driver: arena.allocate(driver, 64)?,
            device: arena.allocate(device, 64)?,
            base: QueueConfig::initial_base(format),
            negotiated,
        })
    }

    /// The queue that `config` describes, in `arena`, all of it free. Clears what the ring held before.
    pub fn new(arena: &Arena, config: &QueueConfig) -> Result<Queue, SetupError> {
        let memory = arena.memory().clone();
        Ok(match config.negotiated.format() {
            Format::Split => Queue::Split(split::Ring::new(memory, config)?),
            Format::Packed => Queue::Packed(packed::Ring::new(memory, config)?),
        })
    }

    /// Descriptors that can be added.
    #[inline(always)]
    pub fn free(&self) -> u16 {
        each!(self, r => r.free())
    }

    /// Adds a chain of `buffers`; it becomes visible by [`Queue::publish`]. `None` if there are too few free
    /// descriptors, or no buffer at all.
    #[inline(always)]
    pub fn add(&mut self, buffers: &[Buffer]) -> Option<u16> {
        if buffers.is_empty() || buffers.len() > usize::from(self.free()) {
            return None;
        }
        Some(each!(self, r => r.add(buffers)))
    }

    /// Makes everything that was added available to the device at once.
    #[inline(always)]
    pub fn publish(&mut self) {
        each!(self, r => r.publish())
    }

    /// The next chain that the device is done with. An error says that the device broke the ring.
    #[inline(always)]
    pub fn pop_used(&mut self) -> Result<Option<UsedBuffer>, Fatal> {
        each!(self, r => r.pop_used())
    }

    /// The device wants to be kicked for what was published since this was asked last. Call
    /// [`crate::ordering::before_asking`] in between.
    #[inline(always)]
    pub fn wants_kick(&mut self) -> bool {
        each!(self, r => r.wants_kick())
    }

    /// Asks the device to notify us of used buffers, or not to. After asking for it,
    /// [`crate::ordering::before_asking`] and [`Queue::has_used`] must be called before sleeping.
    pub fn set_interrupts(&mut self, wanted: bool) {
        each!(self, r => r.set_interrupts(wanted))
    }

    /// There is something for [`Queue::pop_used`].
    pub fn has_used(&self) -> bool {
        each!(self, r => r.has_used())
    }
}
