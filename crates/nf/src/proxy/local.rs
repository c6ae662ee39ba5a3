//! Local sockets: non-blocking streams and listeners, over unix sockets or loopback TCP.

use super::options::Endpoint;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen,
    recv, send, shutdown, socket_with, sockopt,
};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

/// Connections that may wait at a listener.
const BACKLOG: i32 = 128;

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// The outcome of reading or writing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// This many bytes, at least one.
    Bytes(usize),
    /// The peer sends no more.
    End,
    /// Not now.
    Later,
    /// The peer is gone.
    Reset,
}

/// A connected or connecting socket.
#[derive(Debug)]
pub(super) struct Stream {
    socket: OwnedFd,
    is_tcp: bool,
}

impl Stream {
    /// Begins to connect to a service. Whether it succeeded is known once the stream is writable: see [`Self::outcome`].
    pub(super) fn connect(endpoint: &Endpoint) -> io::Result<Stream> {
        let socket = socket(endpoint)?;
        let outcome = match endpoint {
            Endpoint::Unix(path) => connect(&socket, &SocketAddrUnix::new(path)?),
            Endpoint::Tcp(address) => connect(&socket, address),
        };
        match outcome {
            Ok(()) | Err(Errno::INPROGRESS) => Stream::new(socket, matches!(endpoint, Endpoint::Tcp(_))),
            Err(error) => Err(error.into()),
        }
    }

    /// Wraps a socket, which must not block.
    pub(super) fn new(socket: OwnedFd, is_tcp: bool) -> io::Result<Stream> {
        if is_tcp {
            // The two ends have chosen how to cut their stream.
            sockopt::set_tcp_nodelay(&socket, true)?;
        }
        Ok(Stream { socket, is_tcp })
    }

    /// Returns the outcome of the attempt to connect.
    pub(super) fn outcome(&self) -> io::Result<()> {
        Ok(sockopt::socket_error(&self.socket)??)
    }

    /// Reads into `room`, which is not empty.
    pub(super) fn read(&self, room: &mut [u8]) -> Moved {
        match recv(&self.socket, room, RecvFlags::empty()) {
            Ok((0, _)) => Moved::End,
            Ok((bytes, _)) => Moved::Bytes(bytes),
            Err(error) => Moved::failed(error),
        }
    }

    /// Writes from `bytes`, which are not empty.
    pub(super) fn write(&self, bytes: &[u8]) -> Moved {
        match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
            Ok(bytes) => Moved::Bytes(bytes),
            Err(error) => Moved::failed(error),
        }
    }

    /// Tells the peer that no more comes.
    pub(super) fn finish(&self) {
        // A peer that is gone already is noticed by reading.
        let _ = shutdown(&self.socket, Shutdown::Write);
    }

    /// Closes the socket as after a failure: over TCP the peer sees a reset. Unix sockets know none, and end.
    pub(super) fn reset(self) {
        if self.is_tcp {
            // Without the option the peer sees an orderly end.
            let _ = sockopt::set_socket_linger(&self.socket, Some(std::time::Duration::ZERO));
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Moved {
    fn failed(error: Errno) -> Moved {
        match error {
            Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM => Moved::Later,
            _ => Moved::Reset,
        }
    }
}

/// A listening socket. Dropping it removes the file of a unix socket.
#[derive(Debug)]
pub(super) struct Listener {
    socket: OwnedFd,
    path: Option<PathBuf>,
}

impl Listener {
    /// Listens. Replaces a stale unix socket file, on which no process listens.
    pub(super) fn bind(endpoint: &Endpoint) -> io::Result<Listener> {
        let socket = socket(endpoint)?;
        let mut path = None;
        match endpoint {
            Endpoint::Unix(file) => {
                if is_stale(file) {
                    fs::remove_file(file)?;
                }
                bind(&socket, &SocketAddrUnix::new(file)?)?;
                path = Some(file.clone());
            }
            Endpoint::Tcp(address) => {
                sockopt::set_socket_reuseaddr(&socket, true)?;
                bind(&socket, address)?;
            }
        }
        listen(&socket, BACKLOG)?;
        Ok(Listener { socket, path })
    }

    /// Accepts a connection; `None` if none waits.
    pub(super) fn accept(&self) -> io::Result<Option<Stream>> {
        match rustix::net::accept_with(&self.socket, FLAGS) {
            Ok(socket) => Stream::new(socket, self.path.is_none()).map(Some),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // It may have been removed already.
            let _ = fs::remove_file(path);
        }
    }
}

fn socket(endpoint: &Endpoint) -> io::Result<OwnedFd> {
    let family = match endpoint {
        Endpoint::Unix(_) => AddressFamily::UNIX,
        Endpoint::Tcp(SocketAddr::V4(_)) => AddressFamily::INET,
        Endpoint::Tcp(SocketAddr::V6(_)) => AddressFamily::INET6,
    };
    Ok(socket_with(family, SocketType::STREAM, FLAGS, None)?)
}

/// Reports whether a file is a unix socket that its listener left behind.
fn is_stale(file: &PathBuf) -> bool {
    let is_socket = fs::symlink_metadata(file).is_ok_and(|data| data.file_type().is_socket());
    is_socket
        && Stream::connect(&Endpoint::Unix(file.clone()))
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_socket_that_was_left_behind_is_replaced_and_one_in_use_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let endpoint = Endpoint::Unix(path.clone());
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let listener = Listener::bind(&endpoint).unwrap();
        assert_eq!(Listener::bind(&endpoint).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        // The attempt to take the socket over connected, to see that it is in use.
        drop(listener.accept().unwrap().unwrap());
        assert!(listener.accept().unwrap().is_none());
        let mut client = UnixStream::connect(&path).unwrap();
        let stream = listener.accept().unwrap().unwrap();
        assert_eq!(stream.read(&mut [0; 8]), Moved::Later);
        client.write_all(b"ask").unwrap();
        let mut room = [0; 8];
        assert_eq!((stream.read(&mut room), &room[..3]), (Moved::Bytes(3), &b"ask"[..]));
        assert_eq!(stream.write(b"answer"), Moved::Bytes(6));
        stream.finish();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "answer");
        drop(client);
        assert_eq!((stream.read(&mut room), stream.write(b"x")), (Moved::End, Moved::Reset));
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_is_not_replaced() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Listener::bind(&Endpoint::Unix(file.path().to_owned())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(Stream::connect(&Endpoint::Unix(file.path().to_owned())).is_err());
    }

    #[test]
    fn a_reset_over_tcp_is_one_for_the_peer() {
        let listener = Listener::bind(&Endpoint::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = rustix::net::getsockname(&listener.socket).unwrap();
        let address = SocketAddr::try_from(address).unwrap();
        let mut client = std::net::TcpStream::connect(address).unwrap();
        let stream = listener.accept().unwrap().unwrap();
        stream.reset();
        assert_eq!(client.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        drop(listener);
        let refused = Stream::connect(&Endpoint::Tcp(address)).and_then(|stream| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            stream.outcome()
        });
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
