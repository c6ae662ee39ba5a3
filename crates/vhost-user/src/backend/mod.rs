//! The device role: serves a frontend on a socket and hands its queues to their owner.

mod answer;
mod backoff;
mod control;
mod device;
mod filling;
mod handler;
mod holes;
mod inbox;
mod mem_table;
mod numbers;
mod offer;
mod pace;
mod regions;
mod repeats;
mod service;
mod session;
mod vring;

use crate::{Access, Event, Mode, SharedObject, SocketError};
use packet::offload::Offloads;
use rustix::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use virtqueue::memory::Memory;
use virtqueue::{QueueConfig, SetupError};

pub use holes::Holes;
pub use service::{Hangup, Service};

/// The newest version of the set of virtio features that devices offer; the first is 1.
pub const NEWEST: u8 = 2;

/// Configuration of a device.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the socket.
    pub socket: PathBuf,
    /// The side that listens.
    pub mode: Mode,
    /// Largest number of queue pairs that a frontend may use: 1 to [`crate::MAX_QUEUE_PAIRS`].
    pub queue_pairs: u16,
    /// Permissions of the socket, if this side listens.
    pub access: Access,
    /// Accepts any file as guest memory. Reads may block forever on the process behind a file; these are trusted not
    /// to.
    pub any_memory: bool,
    /// Treatment of pages that do not exist when a guest shares its memory.
    pub holes: Holes,
    /// Bytes of the longest frame of a guest, without its Ethernet header, if the guest can ask for it: VIRTIO_NET_F_MTU.
    pub mtu: Option<u16>,
    /// Version of the set of virtio features that is offered: 1 to [`NEWEST`].
    pub offers: u8,
    /// Work that the guest may leave to the device, and the device to the guest.
    pub offloads: Offloads,
    /// Features of that version that are not offered.
    pub withheld: u64,
    /// Exchange of the buffers or pages of frames, if the owner of the queues has one.
    pub exchange: Option<Exchange>,
}

/// Kinds of exchange that replace copies of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// By their buffers, within a group ([`Queues::shared_object`]).
    Group,
    /// By their pages, which are memory of a character device.
    Pages {
        /// The device's number: its memory is accepted besides files in memory.
        device: u64,
    },
}

impl Options {
    /// Returns options with all features, for guests that share memory.
    pub fn new(socket: impl Into<PathBuf>, mode: Mode, queue_pairs: u16) -> Options {
        Options {
            socket: socket.into(),
            mode,
            queue_pairs,
            access: Access::default(),
            any_memory: false,
            holes: Holes::default(),
            mtu: None,
            offers: NEWEST,
            offloads: Offloads::NONE,
            withheld: 0,
            exchange: None,
        }
    }
}

/// Error from starting a service.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum Error {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("{0} queue pairs; a vhost-user device has 1 to {max}", max = crate::MAX_QUEUE_PAIRS)]
    QueuePairs(u16),
    #[error("cannot {action}: {source}")]
    System { action: &'static str, source: std::io::Error },
}

/// The owner of the queues, as called by a session. All calls come from the service's own thread, one at a time, so
/// none may call [`Service::stop`] on that service, nor wait for something that does.
pub trait Queues: Send + Sync {
    /// A frontend has connected; it has no queues yet.
    fn connected(&self);

    /// Builds queue `index` and lets workers use it: even ones carry frames to the guest, odd ones from it. The ring
    /// may already hold work for which no kick comes. On an error the session logs it and continues with this queue
    /// stopped.
    fn start(&self, index: usize, setup: QueueSetup) -> Result<(), SetupError>;

    /// Stops queue `index`. Must return only when no worker touches it or its memory any more and all buffers taken from it
    /// are returned. Returns where it stopped ([`QueueConfig::base`]), or `None` if it was not running.
    ///
    /// An error says why it cannot stop: some of its buffers are still in use and may still be filled. The session then ends
    /// without telling the frontend that the queue has stopped.
    fn stop(&self, index: usize) -> Result<Option<u32>, String>;

    /// Replaces a descriptor of running queue `index`. Returns the descriptor if that is not possible while the queue
    /// runs; the session then restarts the queue.
    fn rewire(&self, _index: usize, wire: Wire) -> Result<(), Wire> {
        Err(wire)
    }

    /// Returns a file for a function that exchanges buffers; called before its queues start, if it may join a group ([`Exchange::Group`]).
    /// An error says why it gets none.
    fn shared_object(&self, _object: SharedObject) -> Result<OwnedFd, String> {
        Err("nothing is exchanged here".into())
    }

    /// Returns the cost to others of starting or stopping a queue, relative to a queue that workers only poll. The
    /// higher it is, the less often a frontend may restart queues.
    fn weight(&self) -> u32 {
        1
    }

    /// The frontend has disconnected. Every running queue was stopped before.
    fn disconnected(&self, reason: &str);

    /// Receives the state of the session in words, whenever it changes.
    fn describe(&self, line: String);
}

/// A replacement kick or call descriptor for a running queue, see [`QueueSetup`].
#[derive(Debug)]
#[allow(missing_docs)] // As the fields of the same names.
pub enum Wire {
    Kick(Option<Event>),
    Call(Option<Event>),
}

/// Everything needed to run a queue.
#[derive(Debug)]
pub struct QueueSetup {
    /// The guest's memory, which holds the rings and the buffers.
    pub memory: Arc<Memory>,
    /// Location of the rings, and the negotiated features.
    pub config: QueueConfig,
    /// Becomes readable when the guest kicks; `None` if the queue must be polled.
    pub kick: Option<Event>,
    /// Notifies the guest; `None` if the guest polls.
    pub call: Option<Event>,
}
