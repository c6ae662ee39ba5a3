//! Errors of opening and configuring; the data path reports outcomes instead.

use std::io;
use std::time::Duration;

/// The result of opening or configuring.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a socket, its memory or the redirect program could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The interface does not exist.
    #[error("interface {interface:?} does not exist in this network namespace; see `ip link`")]
    NoInterface {
        /// The name that was looked up.
        interface: String,
    },
    /// The memory can't be used as it was described.
    #[error("the memory for AF_XDP does not fit: {problem}")]
    Memory {
        /// What does not fit, and what would.
        problem: String,
    },
    /// The configuration asks for something that does not exist or does not fit.
    #[error("interface {interface:?}: {problem}")]
    Config {
        /// The interface that was to be opened.
        interface: String,
        /// What does not fit, and what would.
        problem: String,
    },
    /// Another socket has the queue.
    #[error(
        "interface {interface:?}: queue {queue} was taken for all of {waited:?} by another AF_XDP socket; a queue serves \
         one memory only: stop the program that has it, or choose another queue"
    )]
    QueueBusy {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
        /// How long its release was waited for.
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
    /// The driver or the kernel can't do it.
    #[error("interface {interface:?} does not support {what}: {source}; {help}")]
    Unsupported {
        /// The interface.
        interface: String,
        /// What was asked for.
        what: &'static str,
        /// What to choose instead.
        help: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The process lacks a right.
    #[error("cannot {action}: {source}; the process needs {capability}")]
    Permission {
        /// What was tried.
        action: &'static str,
        /// The capabilities that it takes.
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
    /// The kernel refused a request for another reason.
    #[error("interface {interface:?}: cannot {action}: {source}; {help}")]
    System {
        /// The interface that was to be opened or configured.
        interface: String,
        /// What was tried.
        action: &'static str,
        /// What to check or change.
        help: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl Error {
    /// A constructor to hand to `map_err` for a refused system call.
    pub(crate) fn system<E: Into<io::Error>>(
        interface: &str,
        action: &'static str,
        help: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::System { interface: interface.to_owned(), action, help, source: source.into() }
    }
}
