//! Eventfds: ours, and those that a peer says are some.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use std::fs::File;

/// Rings an eventfd. Never blocks: one that was rung before and not cleared stays rung.
pub fn notify(fd: impl AsFd) {
    // EAGAIN says that the counter is full, which is as good as rung. Whatever else a peer's descriptor may answer is
    // the peer's loss.
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}

/// Makes an eventfd silent again. Never blocks.
pub fn clear(fd: impl AsFd) {
    let _ = rustix::io::read(fd, &mut [0u8; 8]);
}

/// A peer sent something else where an eventfd belongs.
#[derive(Debug, thiserror::Error)]
#[error("not an eventfd but {0}; expected a kick or call eventfd")]
pub(crate) struct NotAnEventFd(String);

/// Takes a kick or call descriptor from a peer. Workers write to it, so it must be nothing that makes them wait: no
/// pipe, socket, terminal or file.
pub(crate) fn from_peer(file: File) -> Result<OwnedFd, NotAnEventFd> {
    let refused = |what: &dyn std::fmt::Debug| NotAnEventFd(format!("{what:?}"));
    // Eventfds have no file type, like all that the kernel makes without a name.
    let kind = FileType::from_raw_mode(fstat(&file).map_err(|e| refused(&e))?.st_mode);
    if kind != FileType::Unknown {
        return Err(refused(&kind));
    }
    let flags = fcntl_getfl(&file).map_err(|e| refused(&e))?;
    fcntl_setfl(&file, flags | OFlags::NONBLOCK).map_err(|e| refused(&e))?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    #[test]
    fn an_eventfd_is_taken_and_made_non_blocking() {
        let fd = from_peer(File::from(eventfd(0, EventfdFlags::empty()).unwrap())).unwrap();
        clear(&fd);
        notify(&fd);
        let mut count = [0; 8];
        rustix::io::read(&fd, &mut count).unwrap();
        assert_eq!(u64::from_ne_bytes(count), 1);
    }

    #[test]
    fn a_full_eventfd_does_not_block() {
        let fd = from_peer(File::from(eventfd(0, EventfdFlags::empty()).unwrap())).unwrap();
        rustix::io::write(&fd, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        notify(&fd);
    }

    #[test]
    fn pipes_sockets_and_files_are_refused() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let file = rustix::fs::memfd_create("not an eventfd", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        for fd in [read, write, socket.into(), file] {
            assert!(from_peer(File::from(fd)).is_err());
        }
    }
}
