//! An exchange as the switch is configured.

use std::path::PathBuf;
pub use virtqueue::exchange::MAX_BUFFERS as MOST_BUFFERS;

/// vhost-user ports whose functions get each other's buffers or pages instead of copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeSpec {
    /// Names of the ports.
    pub ports: Vec<String>,
    /// Buffers or pages.
    pub mode: ExchangeMode,
    /// Length in bytes from which frames are exchanged; measured if `None`.
    pub threshold: Option<u32>,
}

/// Number of buffers of a group by default.
pub const DEFAULT_BUFFERS: u16 = 16_384;
/// Bytes of frames that fit into a buffer by default.
pub const DEFAULT_BUFFER_SIZE: u32 = 2048;

/// The way in which frames change hands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExchangeMode {
    /// Buffers of a memory that all functions share.
    Group {
        /// Number of buffers: 1 to [`MOST_BUFFERS`].
        buffers: u16,
        /// Length in bytes of the longest frame that fits into one: at most 65,535.
        buffer_size: u32,
    },
    /// Pages of memory that each function has for itself, by the kernel module zcopy.
    Zcopy {
        /// The module's device.
        device: PathBuf,
    },
}

impl ExchangeMode {
    /// A group with enough buffers for a dozen functions with two ports of 256 descriptors each, as long as DPDK's packet buffers.
    pub const DEFAULT_GROUP: ExchangeMode =
        ExchangeMode::Group { buffers: DEFAULT_BUFFERS, buffer_size: DEFAULT_BUFFER_SIZE };

    /// Returns its name in the configuration.
    pub fn name(&self) -> &'static str {
        match self {
            ExchangeMode::Group { .. } => "group",
            ExchangeMode::Zcopy { .. } => "zcopy",
        }
    }
}
