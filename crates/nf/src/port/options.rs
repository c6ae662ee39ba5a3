//! Options for opening ports.

use crate::aggregate::Aggregation;
use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;
use vhost_user::Mode;
use virtqueue::features;

/// One port: a vhost-user socket, and the features to request. Features that the device lacks are not used.
#[derive(Clone, Debug)]
pub struct PortOptions {
    /// Path of the socket.
    pub socket: PathBuf,
    /// Whether to listen on the socket or connect to it.
    pub mode: Mode,
    /// Number of queue pairs; with [`Options::workers`], of each worker.
    pub queue_pairs: u16,
    /// Descriptors of each queue, at most [`virtqueue::MAX_QUEUE_SIZE`], and a power of two for split rings.
    pub queue_size: u16,
    /// Whether to request packed rings.
    pub packed: bool,
    /// Whether to request mergeable buffers: frames longer than a buffer are received into several.
    pub mergeable: bool,
    /// Whether to request that buffers are used in order.
    pub in_order: bool,
    /// Whether to request suppression of notifications by index.
    pub event_idx: bool,
    /// The aggregation on the link, if any.
    pub aggregation: Option<Aggregation>,
}

impl PortOptions {
    /// Creates options for a port that connects to `socket`: one pair of split queues of size 256, mergeable and in order.
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

    /// Returns the port's name in next hops: the file name of its socket, without extension.
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

/// The way in which a function exchanges frames with others at the ports' device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Exchange {
    /// Nothing: frames are copied.
    #[default]
    None,
    /// Buffers, which come from the group that the device has the ports in. Then there is one worker, and buffers are as the
    /// device made them.
    Group,
    /// Pages: each buffer is one of an area of this device of the kernel module zcopy. Longer frames are received into several.
    Pages(PathBuf),
}

/// The options of all ports that are opened together.
#[derive(Clone, Debug)]
pub struct Options {
    /// The ports.
    pub ports: Vec<PortOptions>,
    /// Bytes of the longest frame that fits into one buffer.
    pub buffer_size: usize,
    /// Buffers beyond those that the queues can hold, for packets that the network function keeps; of each worker.
    pub spare_buffers: u16,
    /// Workers that have queue pairs of each port, and buffers, of their own.
    pub workers: u16,
    /// Whether to use huge pages, if there are any.
    pub huge_pages: bool,
    /// How frames from and to other functions change hands without a copy, if they are to.
    pub exchange: Exchange,
    /// Whether to reconnect when a device disconnects.
    pub reconnect: bool,
    /// Time limit for a device's first answer; none if `None`.
    pub timeout: Option<Duration>,
}

impl Options {
    /// Creates options for `ports` that one worker has, with buffers of 2 KB, on huge pages if possible, reconnecting,
    /// without a time limit.
    pub fn new(ports: Vec<PortOptions>) -> Options {
        Options {
            ports,
            buffer_size: 2048,
            spare_buffers: 256,
            workers: 1,
            huge_pages: true,
            exchange: Exchange::None,
            reconnect: true,
            timeout: None,
        }
    }
}
