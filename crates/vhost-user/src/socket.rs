//! Connecting and listening, both without ever blocking.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid, chownat, fstat, openat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use rustix::process::umask;
use std::fs::{remove_file, symlink_metadata};
use std::io;
use std::mem::replace;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Error from a socket.
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

/// Permissions of a listening socket. Anything unset is as for any file that the process creates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Permissions of the file. Connecting requires write permission.
    pub mode: Option<u32>,
    /// User that owns the file.
    pub owner: Option<u32>,
    /// Group that owns the file.
    pub group: Option<u32>,
}

impl Access {
    /// Reports whether an owner or group is set.
    pub fn is_given(&self) -> bool {
        self.owner.is_some() || self.group.is_some()
    }

    fn holder(&self) -> String {
        let named = [("user", self.owner), ("group", self.group)];
        let known = named.iter().filter_map(|(what, id)| id.map(|id| format!("{what} {id}")));
        known.collect::<Vec<_>>().join(" and ")
    }
}

/// A listening socket in the file system. Dropping it removes the file, unless another socket has taken its place.
#[derive(Debug)]
pub struct Listener {
    path: PathBuf,
    access: Access,
    bound: Mutex<Bound>,
}

/// A socket, and the device and inode of the file that it was bound to. The kernel gives the inode to no other file while the
/// socket is there.
#[derive(Clone, Debug)]
struct Bound {
    socket: Arc<UnixListener>,
    identity: Option<(u64, u64)>,
}

/// A socket bound but not listening yet.
struct Claimed {
    path: PathBuf,
    access: Access,
    bound: Bound,
}

/// All of them.
static CLAIMED: Mutex<Vec<Claimed>> = Mutex::new(Vec::new());

/// Set while the sockets of another owner outlive their services.
static KEEPING: AtomicBool = AtomicBool::new(false);

/// Binds the socket for a service that will listen at `path` later. Call it before confinement, which forbids changing
/// the owner of a file.
pub fn claim(path: &Path, access: &Access) -> Result<(), SocketError> {
    let bound = Bound::create(path, access)?;
    claimed().push(Claimed { path: path.to_owned(), access: *access, bound });
    Ok(())
}

fn claimed() -> MutexGuard<'static, Vec<Claimed>> {
    CLAIMED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `change`, which stops some services and starts others. New services reuse the sockets that belong to another
/// owner, which a confined process could not create again. Sockets left unused are removed at the end.
pub fn keep_sockets<R>(change: impl FnOnce() -> R) -> R {
    KEEPING.store(true, Ordering::Relaxed);
    let done = change();
    KEEPING.store(false, Ordering::Relaxed);
    claimed().drain(..).for_each(|unwanted| unwanted.bound.remove(&unwanted.path));
    done
}

impl Listener {
    /// Listens at `path`, reusing a socket that was [`claim`]ed, and replacing a stale socket but no other file.
    pub fn bind(path: &Path, access: &Access) -> Result<Listener, SocketError> {
        let own = {
            let mut claimed = claimed();
            let own = claimed.iter().position(|known| known.path == path && known.access == *access);
            own.map(|at| claimed.swap_remove(at).bound)
        };
        let bound = own.map_or_else(|| Bound::create(path, access), Ok)?.listening(path)?;
        Ok(Listener { path: path.to_owned(), access: *access, bound: Mutex::new(bound) })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reports whether its path still leads to it: others may have removed or replaced the file.
    pub fn is_reachable(&self) -> bool {
        self.bound().is_at(&self.path)
    }

    /// Listens at its path with a new socket if the old one cannot be reached there any more, and reports whether that was so.
    /// Connections that were accepted stay; those that wait are closed.
    pub fn mend(&self) -> Result<bool, SocketError> {
        let mut bound = self.bound();
        if bound.is_at(&self.path) {
            return Ok(false);
        }
        let old = replace(&mut *bound, Bound::create(&self.path, &self.access)?.listening(&self.path)?);
        // Wakes threads that wait for the old socket; they then find the new one.
        let _ = rustix::net::shutdown(&old.socket, Shutdown::Both);
        Ok(true)
    }

    /// Returns the present socket: readable when a connection is pending, and when [`Listener::mend`] has replaced it.
    pub fn socket(&self) -> Arc<UnixListener> {
        self.bound().socket.clone()
    }

    /// Accepts the next pending connection, if any.
    pub(crate) fn accept(&self) -> io::Result<Option<UnixStream>> {
        match self.socket().accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => Ok(None),
                // It was just replaced.
                io::ErrorKind::InvalidInput => Ok(None),
                _ => Err(e),
            },
        }
    }

    fn bound(&self) -> MutexGuard<'_, Bound> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let bound = self.bound().clone();
        if KEEPING.load(Ordering::Relaxed) && self.access.is_given() && bound.is_at(&self.path) {
            claimed().push(Claimed { path: std::mem::take(&mut self.path), access: self.access, bound });
        } else {
            bound.remove(&self.path);
        }
    }
}

impl Bound {
    /// Binds a socket at `path`, replacing a stale socket but no other file. No connections are accepted yet.
    fn create(path: &Path, access: &Access) -> Result<Bound, SocketError> {
        let failed = |action| move |source| SocketError::Failed { action, path: path.to_owned(), source };
        let socket = match named(path, access) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                make_room(path)?;
                named(path, access)
            }
            done => done,
        }
        .map_err(failed("listen on"))?;
        let bound = Bound { socket: Arc::new(socket.into()), identity: identity(path) };
        give(path, access).map_err(|source| {
            bound.remove(path);
            SocketError::Access { access: *access, path: path.to_owned(), source }
        })?;
        Ok(bound)
    }

    /// Listens, now that the file has the right owner and permissions, so that no other user could connect before.
    fn listening(self, path: &Path) -> Result<Bound, SocketError> {
        listen(&self.socket, BACKLOG).map_err(|e: Errno| {
            self.remove(path);
            SocketError::Failed { action: "listen on", path: path.to_owned(), source: e.into() }
        })?;
        Ok(self)
    }

    fn is_at(&self, path: &Path) -> bool {
        self.identity.is_some() && identity(path) == self.identity
    }

    /// Removes the file, unless it is another one.
    fn remove(&self, path: &Path) {
        if self.is_at(path) {
            let _ = remove_file(path);
        }
    }
}

/// Connections waiting to be accepted.
const BACKLOG: i32 = 128;

/// Binds a socket at `path`; connections are refused until it listens.
fn named(path: &Path, access: &Access) -> io::Result<OwnedFd> {
    /// The umask is shared by all threads of the process.
    static MASK: Mutex<()> = Mutex::new(());
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let _one_at_a_time = MASK.lock().unwrap_or_else(PoisonError::into_inner);
    // The confinement forbids chmod, so the file must be created with the right mode.
    let before = access.mode.map(|mode| umask(Mode::from_raw_mode(!mode & 0o777)));
    let bound = bind(&socket, &address);
    before.map(umask);
    bound?;
    Ok(socket)
}

/// Changes the owner and group of a socket's file.
fn give(path: &Path, access: &Access) -> io::Result<()> {
    if !access.is_given() {
        return Ok(());
    }
    // Open the file once: another one could take its name between check and chown.
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

/// Removes a stale socket file.
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
        // A full backlog has a listener, too.
        Ok(_) => Err(SocketError::InUse(path.to_owned())),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Err(SocketError::InUse(path.to_owned())),
        Err(e) => Err(failed("find out who listens on")(e)),
    }
}

/// Connects to the listener at `path`, or fails at once.
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
    use std::io::{Read, Write};

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
    fn a_mode_does_not_depend_on_the_umask() {
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
    fn the_socket_has_its_owner_or_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let access = Access { mode: Some(0o660), owner: Some(12345), group: Some(23456) };
        match Listener::bind(&path, &access) {
            Ok(_listener) => {
                let file = symlink_metadata(&path).unwrap();
                assert_eq!((file.uid(), file.gid(), file.mode() & 0o777), (12345, 23456, 0o660));
            }
            // The user running the tests may not change owners.
            Err(error) => {
                assert!(error.to_string().contains("user 12345 and group 23456"), "{error}");
                assert!(!path.exists());
            }
        }
    }

    #[test]
    fn a_claimed_socket_is_listened_on_later_by_its_own_service() {
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
    fn a_socket_with_a_group_passes_to_the_next_service() {
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
    fn a_socket_whose_file_is_gone_is_listened_on_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = Listener::bind(&path, &Access::default()).unwrap();
        let mut established = connect(&path).unwrap();
        let mut accepted = listener.accept().unwrap().unwrap();
        assert!(listener.is_reachable() && !listener.mend().unwrap());
        remove_file(&path).unwrap();
        assert!(!listener.is_reachable());
        let old = listener.socket();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| crate::wait::readable([&old], None));
            assert!(listener.mend().unwrap());
            waiter.join().expect("it was woken");
        });
        assert!(listener.is_reachable() && listener.accept().unwrap().is_none());
        let _other = connect(&path).unwrap();
        assert!(listener.accept().unwrap().is_some());
        established.write_all(&[1]).unwrap();
        accepted.read_exact(&mut [0]).unwrap();
        // Another process's socket stays, and is reported.
        remove_file(&path).unwrap();
        let other = Listener::bind(&path, &Access::default()).unwrap();
        assert!(matches!(listener.mend(), Err(SocketError::InUse(_))));
        drop(listener);
        assert!(other.is_reachable());
    }

    #[test]
    fn a_file_that_another_process_made_meanwhile_stays() {
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
