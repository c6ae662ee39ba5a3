//! Errors of opening and configuring; the data path reports outcomes instead.

use std::io;

/// The result of opening or configuring an interface.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a tap device, a packet socket or an interface setting could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name can't be that of a network interface.
    #[error("interface name {name:?} is not usable: {reason}; choose another name")]
    Name {
        /// The refused name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There is no interface of this name.
    #[error("interface {interface:?} does not exist in this network namespace; see `ip link`")]
    Missing {
        /// The name that was looked up.
        interface: String,
    },
    /// The process lacks a right.
    #[error(
        "interface {interface:?}: cannot {action}: {source}; the process needs {capability}: it was started without, or \
         has given it up"
    )]
    Denied {
        /// The interface that was to be opened or configured.
        interface: String,
        /// What was tried.
        action: &'static str,
        /// The capability that it takes.
        capability: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel can't be asked for interfaces at all.
    #[error("cannot {action}: {source}; check the limit on open files")]
    Netlink {
        /// What was tried.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The configuration asks for something that does not exist or does not fit.
    #[error("interface {interface:?}: {problem}")]
    Config {
        /// The interface that was to be opened.
        interface: String,
        /// What does not fit, and what would.
        problem: String,
    },
    /// The kernel refused a request.
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

    /// As [`Self::system`], for what takes a capability.
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

    /// As [`Self::system`], for what is of no interface.
    pub(crate) fn netlink(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Netlink { action, source }
    }
}
