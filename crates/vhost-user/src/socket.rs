//! The two ways to get a connection, neither of which ever blocks.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid, chownat, fstat, openat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use rustix::process::umask;
use std::fs::{remove_file, symlink_metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    #[error(
        "cannot give {} to {}: {source}; only root can give files away, and nobody can once the switch is confined", .path.display(),
        .access.holder()
    )]
    Access { access: Access, path: PathBuf, source: io::Error },
}

/// Who may connect to a socket that we listen on. What is not said is as it is for any file of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Permissions of the file. To connect takes the permission to write.
    pub mode: Option<u32>,
    /// User that the file belongs to.
    pub owner: Option<u32>,
    /// Group that the file belongs to.
    pub group: Option<u32>,
}

impl Access {
    /// The file belongs to somebody else than the process.
    pub fn is_given(&self) -> bool {
        self.owner.is_some() || self.group.is_some()
    }

    fn holder(&self) -> String {
        let named = [("user", self.owner), ("group", self.group)];
        let known = named.iter().filter_map(|(what, id)| id.map(|id| format!("{what} {id}")));
        known.collect::<Vec<_>>().join(" and ")
    }
}

/// A socket in the file system that we listen on; dropping it removes the file, unless that is another's by then.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: UnixListener,
    path: PathBuf,
    access: Access,
    identity: Option<(u64, u64)>,
}

/// Sockets that wait for whoever listens on them.
static CLAIMED: Mutex<Vec<Listener>> = Mutex::new(Vec::new());

/// Sockets that were given away wait as well when their services end.
static KEEPING: AtomicBool = AtomicBool::new(false);

/// Makes a socket for a service that will listen at `path`, while this process may still give files away: a confined one
/// may not.
pub fn claim(path: &Path, access: &Access) -> Result<(), SocketError> {
    let listener = Listener::claim(path, access)?;
    claimed().push(listener);
    Ok(())
}

fn claimed() -> MutexGuard<'static, Vec<Listener>> {
    CLAIMED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a change in which services end and others begin: these get the sockets that belonged to somebody else, which a
/// confined process could not make again. Sockets that nobody wants any more are removed at the end.
pub fn keep_sockets<R>(change: impl FnOnce() -> R) -> R {
    KEEPING.store(true, Ordering::Relaxed);
    let done = change();
    KEEPING.store(false, Ordering::Relaxed);
    let unwanted = std::mem::take(&mut *claimed());
    drop(unwanted);
    done
}

impl Listener {
    /// Listens at `path`, also if that was [`claim`]ed before. Nobody can connect who may not: it is listened on only when
    /// the file belongs to whom it should.
    pub(crate) fn bind(path: &Path, access: &Access) -> Result<Listener, SocketError> {
        let mut claimed = claimed();
        let own = claimed.iter().position(|known| known.path == path && known.access == *access);
        let listener = match own {
            Some(at) => claimed.swap_remove(at),
            None => Listener::claim(path, access)?,
        };
        let failed = |e: Errno| SocketError::Failed { action: "listen on", path: path.to_owned(), source: e.into() };
        listen(&listener.socket, BACKLOG).map_err(failed)?;
        Ok(listener)
    }

    /// Takes the place of a socket that nobody listens on any more, and of nothing else. Nobody can connect yet.
    fn claim(path: &Path, access: &Access) -> Result<Listener, SocketError> {
        let failed = |action| move |source| SocketError::Failed { action, path: path.to_owned(), source };
        let socket = match named(path, access) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                make_room(path)?;
                named(path, access)
            }
            done => done,
        }
        .map_err(failed("listen on"))?;
        // From here on it is removed if it can't be used.
        let (path_known, identity) = (path.to_owned(), identity(path));
        let listener = Listener { socket: socket.into(), path: path_known, access: *access, identity };
        give(path, access).map_err(|source| SocketError::Access { access: *access, path: path.to_owned(), source })?;
        Ok(listener)
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
        if self.identity.is_none() || identity(&self.path) != self.identity {
            return;
        }
        if KEEPING.load(Ordering::Relaxed)
            && self.access.is_given()
            && let Ok(socket) = self.socket.try_clone()
        {
            let (path, identity) = (std::mem::take(&mut self.path), self.identity.take());
            claimed().push(Listener { socket, path, access: self.access, identity });
        } else {
            let _ = remove_file(&self.path);
        }
    }
}

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// A socket with this name, which nobody can connect to yet.
fn named(path: &Path, access: &Access) -> io::Result<OwnedFd> {
    /// A process has one mask for all of its threads.
    static MASK: Mutex<()> = Mutex::new(());
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let _one_at_a_time = MASK.lock().unwrap_or_else(PoisonError::into_inner);
    // The confinement leaves no other way: a file's mode can't be changed, but be right from the start.
    let before = access.mode.map(|mode| umask(Mode::from_raw_mode(!mode & 0o777)));
    let bound = bind(&socket, &address);
    before.map(umask);
    bound?;
    Ok(socket)
}

/// Gives the file of a socket to its owner.
fn give(path: &Path, access: &Access) -> io::Result<()> {
    if !access.is_given() {
        return Ok(());
    }
    // The file, and not whatever took its name since.
    let file = openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::Socket {
        return Err(io::Error::other("somebody replaced it"));
    }
    let (owner, group) = (access.owner.map(Uid::from_raw), access.group.map(Gid::from_raw));
    Ok(chownat(&file, "", owner, group, AtFlags::EMPTY_PATH)?)
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
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
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
        let listener = Listener::bind(&path, &Access::default()).unwrap();
        connect(&path).unwrap();
        assert!(listener.accept().unwrap().is_some());
        assert!(listener.accept().unwrap().is_none());
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_mode_is_what_it_should_be_whatever_the_mask_is() {
        let dir = tempfile::tempdir().unwrap();
        for mode in [0o600, 0o660, 0o666, 0o770] {
            let path = dir.path().join(format!("{mode:o}"));
            let access = Access { mode: Some(mode), ..Access::default() };
            let _listener = Listener::bind(&path, &access).unwrap();
            assert_eq!(symlink_metadata(&path).unwrap().mode() & 0o7777, mode);
            connect(&path).unwrap();
        }
        let path = dir.path().join("any");
        std::fs::write(&path, "").unwrap();
        let mode = symlink_metadata(&path).unwrap().mode() & 0o777;
        assert!(mode & 0o111 == 0 && mode & 0o600 == 0o600, "the mask is as it was: {mode:o}");
    }

    #[test]
    fn it_belongs_to_whom_it_should_or_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let access = Access { mode: Some(0o660), owner: Some(12345), group: Some(23456) };
        match Listener::bind(&path, &access) {
            Ok(_listener) => {
                let file = symlink_metadata(&path).unwrap();
                assert_eq!((file.uid(), file.gid(), file.mode() & 0o777), (12345, 23456, 0o660));
            }
            // Whoever runs the tests may not give files away.
            Err(error) => {
                assert!(error.to_string().contains("user 12345 and group 23456"), "{error}");
                assert!(!path.exists());
            }
        }
    }

    #[test]
    fn a_claimed_one_is_listened_on_later_by_its_own_service() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let access = Access { mode: Some(0o600), ..Access::default() };
        claim(&path, &access).unwrap();
        assert_eq!(connect(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let listener = Listener::bind(&path, &access).unwrap();
        connect(&path).unwrap();
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn one_that_was_given_away_passes_to_the_next_service() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let access = Access { group: Some(rustix::process::getegid().as_raw()), ..Access::default() };
        let first = Listener::bind(&path, &access).unwrap();
        let inode = identity(&path);
        let second = keep_sockets(|| {
            drop(first);
            Listener::bind(&path, &access).unwrap()
        });
        connect(&path).unwrap();
        assert_eq!(identity(&path), inode);
        keep_sockets(|| drop(second));
        assert!(!path.exists(), "nobody wants it any more");
    }

    #[test]
    fn a_socket_in_use_is_not_stolen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let first = Listener::bind(&path, &Access::default()).unwrap();
        assert!(matches!(Listener::bind(&path, &Access::default()), Err(SocketError::InUse(_))));
        drop(first);
        Listener::bind(&path, &Access::default()).unwrap();
    }

    #[test]
    fn other_files_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(Listener::bind(&path, &Access::default()), Err(SocketError::NotASocket(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_file_that_became_anothers_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = Listener::bind(&path, &Access::default()).unwrap();
        remove_file(&path).unwrap();
        let successor = Listener::bind(&path, &Access::default()).unwrap();
        drop(listener);
        connect(&path).expect("the successor's socket is still there");
        drop(successor);
    }
}
