//! The two ways to get a connection, neither of which ever blocks.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs::{remove_file, symlink_metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A socket can't be had.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum SocketError {
    #[error("{} is taken: another process listens there; stop it or choose another path", .0.display())]
    InUse(PathBuf),
    #[error("{} exists and is not a socket; remove it or choose another path", .0.display())]
    NotASocket(PathBuf),
    #[error("cannot {action} {}: {source}", .path.display())]
    Failed { action: &'static str, path: PathBuf, source: io::Error },
}

/// A socket in the file system that we listen on; dropping it removes the file, unless that is another's by then.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: UnixListener,
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl Listener {
    /// Listens at `path`. Takes the place of a socket that nobody listens on any more, and of nothing else.
    pub(crate) fn bind(path: &Path) -> Result<Listener, SocketError> {
        let failed = |action| move |source| SocketError::Failed { action, path: path.to_owned(), source };
        let socket = match UnixListener::bind(path) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                make_room(path)?;
                UnixListener::bind(path)
            }
            done => done,
        }
        .map_err(failed("listen on"))?;
        socket.set_nonblocking(true).map_err(failed("listen on"))?;
        Ok(Listener { socket, path: path.to_owned(), identity: identity(path) })
    }

    /// The next connection, if one waits.
    pub(crate) fn accept(&self) -> io::Result<Option<UnixStream>> {
        match self.socket.accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => Ok(None),
                _ => Err(e),
            },
        }
    }
}

impl rustix::fd::AsFd for Listener {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            let _ = remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    symlink_metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

/// Removes a socket that a process left behind.
fn make_room(path: &Path) -> Result<(), SocketError> {
    let failed = |action| move |source| SocketError::Failed { action, path: path.to_owned(), source };
    let gone = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
    match symlink_metadata(path) {
        Ok(m) if !m.file_type().is_socket() => return Err(SocketError::NotASocket(path.to_owned())),
        Err(e) if gone(&e) => return Ok(()),
        done => done.map_err(failed("look at"))?,
    };
    match connect(path) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => match remove_file(path) {
            Err(e) if !gone(&e) => Err(failed("remove the stale socket")(e)),
            _ => Ok(()),
        },
        Err(e) if gone(&e) => Ok(()),
        // A full backlog is somebody's too.
        Ok(_) => Err(SocketError::InUse(path.to_owned())),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Err(SocketError::InUse(path.to_owned())),
        Err(e) => Err(failed("find out who listens on")(e)),
    }
}

/// Connects to whoever listens at `path`, or fails at once.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address)).map_err(|e: Errno| io::Error::from(e))?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_the_file_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        drop(UnixListener::bind(&path).unwrap()); // std leaves the file behind
        let listener = Listener::bind(&path).unwrap();
        connect(&path).unwrap();
        assert!(listener.accept().unwrap().is_some());
        assert!(listener.accept().unwrap().is_none());
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_in_use_is_not_stolen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let first = Listener::bind(&path).unwrap();
        assert!(matches!(Listener::bind(&path), Err(SocketError::InUse(_))));
        drop(first);
        Listener::bind(&path).unwrap();
    }

    #[test]
    fn other_files_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(Listener::bind(&path), Err(SocketError::NotASocket(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_file_that_became_anothers_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = Listener::bind(&path).unwrap();
        remove_file(&path).unwrap();
        let successor = Listener::bind(&path).unwrap();
        drop(listener);
        connect(&path).expect("the successor's socket is still there");
        drop(successor);
    }
}
