//! Memory that a device may reach.

use crate::shared::Shared;
use std::fmt;
use std::sync::Arc;

/// Memory that a device may reach, until this is dropped: then the device gets no more buffers in it, and an IOMMU refuses access. Take
/// buffers back before ([`Receive::reclaim`](crate::Receive::reclaim)); memory in which the device still has one stays mapped here.
pub struct Region {
    shared: Arc<Shared>,
    number: u64,
}

impl Region {
    pub(crate) fn new(shared: Arc<Shared>, number: u64) -> Region {
        Region { shared, number }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.shared.unshare(self.number);
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region {} of {}", self.number, self.shared.device)
    }
}
