//! The port configuration that controllers set (`PORT_DOWN`, `NO_FWD` and others), as workers read it.

use openflow::PortConfig;
use std::sync::atomic::{AtomicU32, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LivePortConfig(AtomicU32);

impl LivePortConfig {
    /// Sets it. It applies to bursts received afterwards.
    pub(super) fn set(&self, config: PortConfig) {
        self.0.store(config.0, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> PortConfig {
        PortConfig(self.0.load(Ordering::Relaxed))
    }
}
