//! How ports are opened.

use crate::aggregate::Aggregation;
use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;
use vhost_user::Mode;
use virtqueue::features;

/// One port: a vhost-user socket, and what to ask its device for. What the device lacks is done without.
#[derive(Clone, Debug)]
pub struct PortOptions {
    /// Path of the socket.
    pub socket: PathBuf,
    /// Who listens on it.
    pub mode: Mode,
    /// Queue pairs.
    pub queue_pairs: u16,
    /// Descriptors of each queue, at most [`virtqueue::MAX_QUEUE_SIZE`], and a power of two for split rings.
    pub queue_size: u16,
    /// Packed rings.
    pub packed: bool,
    /// Frames longer than a buffer may be received into several.
    pub mergeable: bool,
    /// Buffers are used in order.
    pub in_order: bool,
    /// Notifications are suppressed by index.
    pub event_idx: bool,
    /// What crosses the link are aggregates.
    pub aggregation: Option<Aggregation>,
}

impl PortOptions {
    /// A port that connects to `socket`, with one pair of split queues of 256, mergeable and in order.
    pub fn new(socket: impl Into<PathBuf>) -> PortOptions {
        PortOptions {
            socket: socket.into(),
            mode: Mode::Client,
            queue_pairs: 1,
            queue_size: 256,
            packed: false,
            mergeable: true,
            in_order: true,
            event_idx: false,
            aggregation: None,
        }
    }

    /// What next hops call the port: the file name of its socket, without extension.
    pub fn name(&self) -> Cow<'_, str> {
        self.socket.file_stem().unwrap_or_default().to_string_lossy()
    }

    pub(crate) fn features(&self) -> u64 {
        let wanted = |on, mask| if on { mask } else { 0 };
        wanted(self.packed, features::RING_PACKED)
            | wanted(self.mergeable, features::MRG_RXBUF)
            | wanted(self.in_order, features::IN_ORDER)
            | wanted(self.event_idx, features::EVENT_IDX)
    }
}

/// What all ports that are opened together share.
#[derive(Clone, Debug)]
pub struct Options {
    /// The ports.
    pub ports: Vec<PortOptions>,
    /// Bytes of the longest frame that fits into one buffer.
    pub buffer_size: usize,
    /// Buffers besides those that the queues can hold: for packets that the network function keeps.
    pub spare_buffers: u16,
    /// Put memory on huge pages if there are any.
    pub huge_pages: bool,
    /// When a device goes away, wait for it to come back.
    pub reconnect: bool,
    /// How long a device may take to answer at first; for ever if `None`.
    pub timeout: Option<Duration>,
}

impl Options {
    /// Those `ports`, with buffers of 2 KB, on huge pages if possible, reconnecting, and patient.
    pub fn new(ports: Vec<PortOptions>) -> Options {
        Options { ports, buffer_size: 2048, spare_buffers: 256, huge_pages: true, reconnect: true, timeout: None }
    }
}
