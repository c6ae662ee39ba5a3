//! A server for short requests from local clients, none of which can block another: one thread per connection, a connection
//! limit, and a deadline on every read and write.

mod connect;
mod connection;
mod listener;
mod stop;

pub use connect::connect;
pub use connection::Connection;
pub use listener::{ListenError, Listener};
pub use stop::Stop;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Pause for connections to end when the process is out of file descriptors.
const DESCRIPTOR_SHORTAGE: Duration = Duration::from_millis(100);

/// Accepts connections until `stop`, and waits for the open ones to end. `handle` runs for each on a separate thread called
/// `name`; `refuse` runs for those that arrive while `limit` are open, and must not wait for the client.
pub fn serve(
    name: &str,
    listener: &Listener,
    limit: usize,
    stop: &Stop,
    handle: impl Fn(Connection) + Sync,
    refuse: impl Fn(Connection),
) {
    let open = AtomicUsize::new(0);
    thread::scope(|scope| {
        let mut failing = false;
        loop {
            let socket = listener.socket();
            if !stop.wait_readable((*socket).as_fd()) {
                return;
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let connection = match accept_with(&*socket, flags) {
                Ok(fd) => {
                    failing = false;
                    Connection::new(fd, stop.clone())
                }
                // The client may disconnect before it is accepted, and the socket may just have been replaced (EINVAL).
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED | Errno::INVAL) => continue,
                Err(error) => {
                    // Once, not until descriptors are free again.
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(%error, "cannot accept connections to {name}");
                    }
                    stop.sleep(DESCRIPTOR_SHORTAGE);
                    continue;
                }
            };
            if open.fetch_add(1, Ordering::Relaxed) >= limit {
                open.fetch_sub(1, Ordering::Relaxed);
                refuse(connection);
                continue;
            }
            let (open, handle) = (&open, &handle);
            let slot = Slot(open);
            let started = thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, move || {
                let _slot = slot;
                handle(connection);
            });
            if let Err(error) = started {
                tracing::warn!(%error, "cannot start a thread for a connection to {name}");
            }
        }
    });
}

/// Returns the connection's slot, even if its thread panics.
struct Slot<'a>(&'a AtomicUsize);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Stop {
    /// Waits until `fd` is readable; returns false if the flag is set.
    fn wait_readable(&self, fd: BorrowedFd<'_>) -> bool {
        loop {
            let mut fds = [PollFd::new(self, PollFlags::IN), PollFd::from_borrowed_fd(fd, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) if !fds[0].revents().is_empty() => return false,
                Ok(_) => return true,
                Err(Errno::INTR) => {}
                // Only programming errors are left (EFAULT, EINVAL): continuing would spin.
                Err(_) => return false,
            }
        }
    }
}
