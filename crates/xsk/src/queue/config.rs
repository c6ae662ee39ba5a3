//! Queue configuration, and the resulting binding.

use std::time::Duration;

use crate::{Error, Result};

/// Mode of moving frames between the interface and the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The hardware moves frames if the driver supports it, else the kernel.
    #[default]
    Auto,
    /// The hardware moves frames; opening fails if the driver does not support it.
    ZeroCopy,
    /// The kernel copies frames.
    Copy,
}

/// Parameters for opening a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Mode of moving frames.
    pub mode: Mode,
    /// The driver tells when it needs a wake-up (`XDP_USE_NEED_WAKEUP`), instead of being woken for each burst.
    pub need_wakeup: bool,
    /// Frames may have several parts, each in its own chunk (`XDP_USE_SG`): for an MTU larger than a chunk.
    pub multi_buffer: bool,
    /// Entries of the fill ring: chunks that the kernel holds ready. All four sizes are powers of two.
    pub fill: u32,
    /// Entries of the receive ring.
    pub rx: u32,
    /// Entries of the transmit ring.
    pub tx: u32,
    /// Entries of the completion ring.
    pub completion: u32,
    /// In copy mode, most frames sent per wake-up, where the kernel allows a choice (`XDP_MAX_TX_SKB_BUDGET`, Linux
    /// 6.18). Limited to the size of the transmit ring, and at least [`Self::LEAST_BUDGET`].
    pub tx_budget: u32,
    /// Longest wait for a queue that another socket owns: the kernel frees it some time after that socket was closed.
    pub busy_wait: Duration,
}

impl QueueConfig {
    /// Frames sent per wake-up by default (`TX_BATCH_SIZE` of net/xdp/xsk.c).
    pub const LEAST_BUDGET: u32 = 32;

    /// Most entries of a ring: far beyond practical use, and no size in bytes overflows.
    const MOST_ENTRIES: u32 = 1 << 20;

    pub(super) fn check(&self, interface: &str) -> Result<()> {
        let rings = [("fill", self.fill), ("receive", self.rx), ("transmit", self.tx), ("completion", self.completion)];
        for (name, size) in rings {
            if !size.is_power_of_two() || size > Self::MOST_ENTRIES {
                return Err(Error::Config {
                    interface: interface.to_owned(),
                    problem: format!(
                        "a {name} ring of {size} entries is not possible; choose a power of two up to {}",
                        Self::MOST_ENTRIES
                    ),
                });
            }
        }
        Ok(())
    }
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            need_wakeup: true,
            multi_buffer: false,
            fill: 2048,
            rx: 2048,
            tx: 2048,
            completion: 2048,
            tx_budget: 256,
            busy_wait: Duration::from_secs(2),
        }
    }
}

/// Binding of an open queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bound {
    /// The interface.
    pub interface: String,
    /// Its index.
    pub index: u32,
    /// The queue.
    pub queue: u32,
    /// The hardware moves frames; otherwise the kernel copies them.
    pub zero_copy: bool,
    /// The driver tells when it needs a wake-up.
    pub need_wakeup: bool,
    /// Frames may have several parts.
    pub multi_buffer: bool,
    /// In copy mode, most frames sent per wake-up.
    pub tx_budget: u32,
}
