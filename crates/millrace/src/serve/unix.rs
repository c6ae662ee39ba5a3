//! Unix sockets at a path: private from creation, never taken from a live owner, removed on drop.

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Pending connections.
const BACKLOG: i32 = 16;

/// Error that keeps a socket from being created.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process listens there.
    #[error("{}: another process already listens on this socket; stop it, or configure another path", .0.display())]
    InUse(PathBuf),
    /// Another kind of file is there.
    #[error("{}: a file that is not a socket is in the way; remove it, or configure another path", .0.display())]
    NotASocket(PathBuf),
    /// A system call failed.
    #[error("{}: cannot create the socket: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// A listening unix socket, mode 0600; dropping it removes its file.
#[derive(Debug)]
pub struct UnixSocket {
    fd: OwnedFd,
    path: PathBuf,
    /// Device and inode of the file, so that another process's file is not removed.
    identity: (u64, u64),
}

impl UnixSocket {
    /// Listens at `path`. Replaces a socket on which no process listens.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        let failed = |source: io::Error| BindError::Io { path: path.to_owned(), source };
        let address = SocketAddrUnix::new(path).map_err(|errno| failed(errno.into()))?;
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        // Lock it, so that two processes cannot both find the same stale socket and remove each other's new one.
        let lock = open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .and_then(|fd| flock(&fd, FlockOperation::LockExclusive).map(|()| fd))
            .map_err(|errno| failed(errno.into()))?;
        remove_stale(path, &address)?;
        let listener = stream_socket().and_then(|fd| {
            // bind(2) gives the file the mode of the socket's inode, less the umask: never accessible to others.
            rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
            bind(&fd, &address)?;
            listen(&fd, BACKLOG)?;
            Ok(fd)
        });
        let fd = listener.map_err(|errno| failed(errno.into()))?;
        drop(lock);
        let identity = fs::symlink_metadata(path).map(|meta| (meta.dev(), meta.ino())).map_err(failed)?;
        Ok(Self { fd, path: path.to_owned(), identity })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for UnixSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let is_ours = |meta: &fs::Metadata| (meta.dev(), meta.ino()) == self.identity;
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| is_ours(&meta)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn stream_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Removes the socket at `path` if no process listens on it.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> Result<(), BindError> {
    let failed = |source: io::Error| BindError::Io { path: path.to_owned(), source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(meta) if !meta.file_type().is_socket() => return Err(BindError::NotASocket(path.to_owned())),
        Ok(_) => {}
    }
    match stream_socket().and_then(|fd| connect(&fd, address)) {
        Err(Errno::CONNREFUSED) => fs::remove_file(path).map_err(failed),
        // EAGAIN: the owner is alive, but its backlog is full.
        Ok(()) | Err(Errno::AGAIN) => Err(BindError::InUse(path.to_owned())),
        Err(errno) => Err(failed(errno.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_live_socket_is_left_alone_and_a_stale_one_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let first = UnixSocket::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(UnixSocket::bind(&path), Err(BindError::InUse(_))));
        drop(first);
        assert!(!path.exists());

        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "the standard library leaves the file");
        let second = UnixSocket::bind(&path).unwrap();

        fs::remove_file(&path).unwrap();
        fs::write(&path, "mine").unwrap();
        drop(second);
        assert!(path.exists(), "removed a file that it did not make");
        assert!(matches!(UnixSocket::bind(&path), Err(BindError::NotASocket(_))));
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = UnixSocket::bind(Path::new("/nonexistent/s")).unwrap_err();
        assert!(error.to_string().starts_with("/nonexistent/s: cannot create the socket: "), "{error}");
    }
}
