//! Listening sockets of services: loopback TCP, or unix.

use crate::config::ListenAddress;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use vhost_user::{Access, SocketError};

/// Permissions of unix sockets: for their owner only, from the beginning.
const PRIVATE: Access = Access { mode: Some(0o600), owner: None, group: None };

/// Error that keeps a service from listening.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The unix socket could not be created.
    #[error(transparent)]
    Unix(#[from] SocketError),
    /// The TCP port could not be bound.
    #[error("cannot listen on {address}: {source}; free the port, or set another in [{section}] listen")]
    Tcp {
        /// The address.
        address: SocketAddr,
        /// The section of the configuration that gives it.
        section: &'static str,
        /// The cause.
        source: io::Error,
    },
}

/// A listening socket. Dropping it removes the file of a unix socket.
#[derive(Debug)]
pub enum Listener {
    /// Loopback TCP.
    Tcp(Arc<TcpListener>),
    /// A unix socket.
    Unix(vhost_user::Listener),
}

impl Listener {
    /// Listens on `address`, given in `section` of the configuration.
    pub fn bind(address: &ListenAddress, section: &'static str) -> Result<Arc<Self>, ListenError> {
        Ok(Arc::new(match address {
            ListenAddress::Unix(path) => {
                let _alone = lock(path);
                Self::Unix(vhost_user::Listener::bind(path, &PRIVATE)?)
            }
            ListenAddress::Tcp(address) => {
                let failed = |source| ListenError::Tcp { address: *address, section, source };
                let listener = TcpListener::bind(address).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                Self::Tcp(Arc::new(listener))
            }
        }))
    }

    /// Returns the TCP address it listens on, with the port that the system chose for port 0; `None` for a unix socket.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    /// Returns the present socket. A waiter on one that was replaced meanwhile wakes.
    pub(super) fn socket(&self) -> Arc<dyn AsFd + Send + Sync> {
        match self {
            Self::Tcp(listener) => listener.clone(),
            Self::Unix(listener) => listener.socket(),
        }
    }

    /// Recreates a unix socket that another process has removed or replaced. Returns its path if that was the case, and the
    /// error if it failed.
    pub fn mend(&self) -> Option<(&Path, Result<(), SocketError>)> {
        let Self::Unix(listener) = self else { return None };
        match listener.mend() {
            Ok(false) => None,
            done => Some((listener.path(), done.map(drop))),
        }
    }
}

/// Locks the directory of a socket, if it can be opened: two processes that start must not both find the same stale socket, and
/// remove each other's new one.
fn lock(path: &Path) -> Option<OwnedFd> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let directory = open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    flock(&directory, FlockOperation::LockExclusive).ok().map(|()| directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_unix_socket_is_private_and_comes_back_when_it_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = Listener::bind(&ListenAddress::Unix(path.clone()), "metrics").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(listener.mend().is_none());
        fs::remove_file(&path).unwrap();
        let (mended, outcome) = listener.mend().unwrap();
        assert!(mended == path && outcome.is_ok() && listener.mend().is_none());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = Listener::bind(&ListenAddress::Unix("/nonexistent/s".into()), "metrics").unwrap_err();
        assert!(error.to_string().starts_with("cannot listen on /nonexistent/s: "), "{error}");
    }
}
