//! The device role: serves a frontend on a socket, and hands its queues to their owner.

mod backoff;
mod control;
mod device;
mod handler;
mod inbox;
mod pace;
mod ring;
mod service;
mod session;
mod slots;

use crate::{Access, Event, Mode, SocketError};
use std::path::PathBuf;
use std::sync::Arc;
use virtqueue::memory::Memory;
use virtqueue::{QueueConfig, SetupError};

pub use service::{Hangup, Service};

/// Where and how to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the socket.
    pub socket: PathBuf,
    /// Who listens on it.
    pub mode: Mode,
    /// Most queue pairs that a frontend may use, at least one, at most [`crate::MAX_QUEUE_PAIRS`].
    pub queue_pairs: u16,
    /// Who may connect, if this side listens.
    pub access: Access,
    /// Takes memory that lies in any file. Reading files of other processes may take for ever: these are believed not to.
    pub any_memory: bool,
    /// virtio features that are not offered, of those that the device has.
    pub withheld: u64,
}

impl Options {
    /// A device with all features, for guests that share memory.
    pub fn new(socket: impl Into<PathBuf>, mode: Mode, queue_pairs: u16) -> Options {
        Options { socket: socket.into(), mode, queue_pairs, access: Access::default(), any_memory: false, withheld: 0 }
    }
}

/// A service can't start.
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

/// The owner of the queues: what a session tells it. All calls come from the service's own thread, one at a time, so
/// none may call [`Service::stop`] on it, nor wait for something that does.
pub trait Queues: Send + Sync {
    /// A frontend is there; it has no queues yet.
    fn connected(&self);

    /// Queue `index` may run: even ones carry frames to the guest, odd ones from it. Build it and let workers use it.
    /// There may be work in it already, for which no kick comes. On an error the session logs it, and goes on with this
    /// queue stopped.
    fn start(&self, index: usize, setup: QueueSetup) -> Result<(), SetupError>;

    /// Stop queue `index`: return only when no worker touches it or its memory any more, with all that was taken from
    /// it given back. Returns where it stopped ([`QueueConfig::base`]), or `None` if it was not running.
    ///
    /// An error says why that cannot be: somebody has buffers of it and may still fill them. The frontend is not told that
    /// the queue has stopped, then; the session ends.
    fn stop(&self, index: usize) -> Result<Option<u32>, String>;

    /// Queue `index`, which runs, has another descriptor. Gives it back if that can't be while the queue runs; the queue
    /// is stopped and started again, then.
    fn rewire(&self, _index: usize, wire: Wire) -> Result<(), Wire> {
        Err(wire)
    }

    /// How much others notice when a queue is started or stopped: so many times as much as of a queue that workers only
    /// look at. A frontend may have it done the less often.
    fn weight(&self) -> u32 {
        1
    }

    /// The frontend is gone. Every queue that ran was stopped before.
    fn disconnected(&self, reason: &str);

    /// The state of the session in words, whenever it changed.
    fn describe(&self, line: String);
}

/// What a guest and a queue notify each other by, see [`QueueSetup`].
#[derive(Debug)]
#[allow(missing_docs)] // As the fields of the same names.
pub enum Wire {
    Kick(Option<Event>),
    Call(Option<Arc<Event>>),
}

/// All that it takes to run a queue.
#[derive(Debug)]
pub struct QueueSetup {
    /// The guest's memory, with the rings and the buffers in it.
    pub memory: Arc<Memory>,
    /// Where the rings are, and what was negotiated.
    pub config: QueueConfig,
    /// Becomes readable when the guest kicks; `None` if the guest wants to be polled.
    pub kick: Option<Event>,
    /// Notifies the guest; `None` if the guest polls.
    pub call: Option<Arc<Event>>,
}
