//! The device's view of a ring, as far as it is the same for both formats and both directions.

use super::chain::{Access, WalkedChain};
use super::taken::TakenChain;
use crate::areas::Areas;
use crate::error::Fatal;
use crate::layout::Descriptor;
use crate::memory::{DirtyLog, Writer};
use std::cell::RefMut;

/// The first descriptor of an available chain. A function that is not inlined takes its parts, in registers.
#[derive(Clone, Copy)]
pub(super) struct Head {
    /// Index in the descriptor table (split) or slot of the ring (packed).
    pub(super) index: u16,
    pub(super) descriptor: Descriptor,
}

/// A ring of either format.
pub(super) trait DeviceRing {
    /// The log of what the device writes.
    type Log: DirtyLog;

    fn areas(&self) -> &Areas;

    /// Returns the writer of the guest's memory: of the ring and of the buffers.
    fn writer(&self) -> &Writer<Self::Log>;

    /// Reports whether the device returns chains in the order in which it took them (VIRTIO_F_IN_ORDER).
    fn in_order(&self) -> bool;

    /// Returns the chain that starts with `head` if that is all of it, in one buffer of this direction.
    fn single(head: Head, access: Access) -> Option<TakenChain>;

    /// Walks the chain that starts with `first` at `index`, in buffers of this direction.
    fn walk(&self, index: u16, first: Descriptor, access: Access) -> Result<RefMut<'_, WalkedChain>, Fatal>;

    /// Enables or disables kicks from the guest.
    fn set_kicks(&self, wanted: bool);

    /// Reports whether the guest wants to be notified of what was published since the previous query.
    fn wants_notification(&self) -> bool;

    /// Returns the position from which a later device resumes.
    fn base(&self) -> u32;
}
