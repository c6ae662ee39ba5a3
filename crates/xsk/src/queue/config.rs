//! How a queue is opened, and what came out.

use std::time::Duration;

use crate::{Error, Result};

/// Who moves frames between the interface and the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The hardware if the driver can, else the kernel.
    #[default]
    Auto,
    /// The hardware; opening fails if the driver can't.
    ZeroCopy,
    /// The kernel.
    Copy,
}

/// How to open a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Who moves frames.
    pub mode: Mode,
    /// Let the driver say when it wants to be woken (`XDP_USE_NEED_WAKEUP`), instead of waking it for each burst.
    pub need_wakeup: bool,
    /// Let frames have several parts, each in a chunk of its own (`XDP_USE_SG`): for an MTU beyond a chunk.
    pub multi_buffer: bool,
    /// Entries of the fill ring: chunks that the kernel holds ready. All four are powers of two.
    pub fill: u32,
    /// Entries of the receive ring.
    pub rx: u32,
    /// Entries of the transmit ring.
    pub tx: u32,
    /// Entries of the completion ring.
    pub completion: u32,
    /// In copy mode, most frames that one wake-up sends, where the kernel lets this be chosen (`XDP_MAX_TX_SKB_BUDGET`,
    /// Linux 6.18). It is cut to the size of the transmit ring, and is [`Self::LEAST_BUDGET`] at least.
    pub tx_budget: u32,
    /// How long to wait for the queue while another socket has it: the kernel frees it some time after it was closed.
    pub busy_wait: Duration,
}

impl QueueConfig {
    /// What a wake-up sends if nothing else is chosen (`TX_BATCH_SIZE` of net/xdp/xsk.c).
    pub const LEAST_BUDGET: u32 = 32;

    /// Most entries of a ring: far beyond use, and no size in bytes overflows.
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

/// What an open queue is bound to, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bound {
    /// The interface.
    pub interface: String,
    /// Its index.
    pub index: u32,
    /// The queue.
    pub queue: u32,
    /// The hardware moves frames; else the kernel copies them.
    pub zero_copy: bool,
    /// The driver says when it wants to be woken.
    pub need_wakeup: bool,
    /// Frames may have several parts.
    pub multi_buffer: bool,
    /// In copy mode, most frames that one wake-up sends.
    pub tx_budget: u32,
}
