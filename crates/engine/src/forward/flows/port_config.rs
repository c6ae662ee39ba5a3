//! Prohibitions of controllers at a port, as workers see them.

use openflow::PortConfig;
use std::sync::atomic::{AtomicU32, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LivePortConfig(AtomicU32);

impl LivePortConfig {
    /// Sets it. Bursts received after this go by it.
    pub(super) fn set(&self, config: PortConfig) {
        self.0.store(config.0, Ordering::Relaxed);
    }

    /// Returns it.
    #[inline(always)]
    pub(crate) fn get(&self) -> PortConfig {
        PortConfig(self.0.load(Ordering::Relaxed))
    }
}
