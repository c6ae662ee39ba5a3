//! Errors from opening and configuring; the data path returns outcomes instead.

use std::io;

/// The result of opening or configuring an interface.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error from opening a tap device or a packet socket, or from configuring an interface.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name is not valid for a network interface.
    #[error("interface name {name:?} is not usable: {reason}; choose another name")]
    Name {
        /// The refused name.
        name: String,
        /// The reason.
        reason: &'static str,
    },
    /// There is no interface of this name.
    #[error("interface {interface:?} does not exist in this network namespace; see `ip link`")]
    Missing {
        /// The name that was looked up.
        interface: String,
    },
    /// The process lacks a capability.
    #[error(
        "interface {interface:?}: cannot {action}: {source}; the process needs {capability}: it was started without, or \
         has given it up"
    )]
    Denied {
        /// The interface to be opened or configured.
        interface: String,
        /// The action attempted.
        action: &'static str,
        /// The capability needed.
        capability: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A netlink socket could not be opened.
    #[error("cannot {action}: {source}; check the limit on open files")]
    Netlink {
        /// The action attempted.
        action: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The configuration asks for something that does not exist or does not fit.
    #[error("interface {interface:?}: {problem}")]
    Config {
        /// The interface to be opened.
        interface: String,
        /// The value that does not fit, and one that would.
        problem: String,
    },
    /// The kernel refused a request.
    #[error("interface {interface:?}: cannot {action}: {source}; {help}")]
    System {
        /// The interface to be opened or configured.
        interface: String,
        /// The action attempted.
        action: &'static str,
        /// Advice on what to check or change.
        help: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Error {
    /// Returns a constructor for `map_err` of a refused system call.
    pub(crate) fn system<E: Into<io::Error>>(
        interface: &str,
        action: &'static str,
        help: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::System { interface: interface.to_owned(), action, help, source: source.into() }
    }

    /// As [`Self::system`], for calls that need a capability.
    pub(crate) fn refused<E: Into<io::Error>>(
        interface: &str,
        action: &'static str,
        capability: &'static str,
        help: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |source| {
            let (interface, source) = (interface.to_owned(), source.into());
            if matches!(source.raw_os_error(), Some(libc::EPERM | libc::EACCES)) {
                return Self::Denied { interface, action, capability, source };
            }
            Self::System { interface, action, help, source }
        }
    }

    /// As [`Self::system`], for calls that concern no interface.
    pub(crate) fn netlink(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Netlink { action, source }
    }
}
