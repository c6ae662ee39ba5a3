//! The state of one queue as set by the frontend so far, in any order.

use super::QueueSetup;
use crate::Event;
use std::sync::Arc;
use virtqueue::memory::Memory;
use virtqueue::{Negotiated, QueueConfig, SetupError, features};

/// Vring addresses in the frontend's own address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) descriptors: u64,
    pub(super) driver: u64,
    pub(super) device: u64,
}

/// The guest's way to kick. Setting it starts a ring (vhost-user, "Ring states").
#[derive(Debug, Default)]
pub(super) enum Kick {
    /// Not set yet, or not since GET_VRING_BASE stopped the ring.
    #[default]
    Unknown,
    /// The guest does not kick; the ring has to be polled.
    Polled,
    Event(Event),
}

/// One queue, called a vring by the protocol.
#[derive(Debug, Default)]
pub(super) struct Vring {
    pub(super) size: Option<u16>,
    pub(super) addresses: Option<Addresses>,
    pub(super) base: u32,
    pub(super) kick: Kick,
    pub(super) call: Option<Event>,
    pub(super) enabled: bool,
    /// Whether the owner runs it.
    pub(super) running: bool,
    /// Whether the queue ran before, so that a notification may have been lost since.
    pub(super) resumed: bool,
    /// Why the queue failed to start.
    pub(super) refused: Option<String>,
}

/// Error from starting a ring.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("the ring address {0:#x} is in none of the memory regions that the frontend shared")]
    Unmapped(u64),
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl Vring {
    /// Returns the setup, or `None` if the frontend has not set everything yet or has not enabled the ring.
    pub(super) fn setup(&self, negotiated: u64, memory: &Arc<Memory>) -> Result<Option<QueueSetup>, StartError> {
        // Without protocol features there is no message to enable a ring; it starts out enabled.
        let enabled = self.enabled || negotiated & features::PROTOCOL_FEATURES == 0;
        let (Some(size), Some(addresses), true) = (self.size, self.addresses, enabled) else { return Ok(None) };
        let kick = match &self.kick {
            Kick::Unknown => return Ok(None),
            Kick::Polled => None,
            Kick::Event(fd) => Some(fd.clone()),
        };
        let find = |addr| memory.guest_addr(addr).ok_or(StartError::Unmapped(addr));
        let config = QueueConfig {
            size,
            descriptors: find(addresses.descriptors)?,
            driver: find(addresses.driver)?,
            device: find(addresses.device)?,
            base: self.base,
            negotiated: Negotiated(negotiated),
        };
        Ok(Some(QueueSetup { memory: memory.clone(), config, kick, call: self.call.clone() }))
    }
}
