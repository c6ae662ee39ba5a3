//! Errors of opening and configuring sockets; the data path returns outcomes instead.

use std::io;
use std::time::Duration;

/// Result of opening or configuring.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason why a socket, its memory or the redirect program is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The interface does not exist.
    #[error("interface {interface:?} does not exist in this network namespace; see `ip link`")]
    NoInterface {
        /// Name that was looked up.
        interface: String,
    },
    /// The memory cannot be used as described.
    #[error("the memory for AF_XDP does not fit: {problem}")]
    Memory {
        /// The mismatch, and a value that would fit.
        problem: String,
    },
    /// The configuration does not fit or refers to something that does not exist.
    #[error("interface {interface:?}: {problem}")]
    Config {
        /// Interface to be opened.
        interface: String,
        /// The mismatch, and a value that would fit.
        problem: String,
    },
    /// Another socket owns the queue.
    #[error(
        "interface {interface:?}: queue {queue} was taken for all of {waited:?} by another AF_XDP socket; a queue serves \
         one memory only: stop the program that has it, or choose another queue; if none has it, the kernel is too busy to \
         release it: stop programs that take all processors, and open it again"
    )]
    QueueBusy {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
        /// Time that was spent waiting for its release.
        waited: Duration,
    },
    /// Another XDP program is attached.
    #[error(
        "interface {interface:?} already has an XDP program ({source}); `ip link show dev {interface}` says which one: \
         stop the program that attached it, or detach it with `ip link set dev {interface} xdp off`"
    )]
    ProgramBusy {
        /// The interface.
        interface: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The driver or the kernel does not support the request.
    #[error("interface {interface:?} does not support {what}: {source}; {help}")]
    Unsupported {
        /// The interface.
        interface: String,
        /// Requested feature.
        what: &'static str,
        /// Alternative to choose.
        help: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The process lacks a capability.
    #[error("cannot {action}: {source}; the process needs {capability}")]
    Permission {
        /// Attempted action.
        action: &'static str,
        /// Required capabilities.
        capability: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel's verifier refused the redirect program.
    #[error("the kernel refused the XDP program: {source}; the verifier says:\n{log}")]
    Program {
        /// The kernel's answer.
        source: io::Error,
        /// The verifier's log.
        log: String,
    },
    /// The kernel refused a request for some other reason.
    #[error("interface {interface:?}: cannot {action}: {source}; {help}")]
    System {
        /// Interface to be opened or configured.
        interface: String,
        /// Attempted action.
        action: &'static str,
        /// Setting to check or change.
        help: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl Error {
    /// Returns a constructor for `map_err` after a refused system call.
    pub(crate) fn system<E: Into<io::Error>>(
        interface: &str,
        action: &'static str,
        help: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::System { interface: interface.to_owned(), action, help, source: source.into() }
    }
}
