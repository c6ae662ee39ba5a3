//! Signals eventfds from inside the kernel, which never blocks.
//!
//! The kernel's internal `eventfd_signal` adds one to the counter, even at the end of its range, and ignores the
//! descriptor's flags. KVM and vhost-net notify guests that way. User space reaches it through two interfaces:
//! io_uring, which the confinement refuses, and asynchronous I/O (io_submit(2)), where each operation may name an
//! eventfd that its completion signals (IOCB_FLAG_RESFD). The operation used here reads zero bytes from a pipe. It
//! completes, signal included, before io_submit returns: one system call, like a write.
//!
//! On every call the kernel checks that the descriptor is an eventfd, and returns EINVAL if it is not.

use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Contexts of the process: each has a lock, and several keep workers from contending for it. They are never destroyed,
/// as io_destroy(2) takes tens of milliseconds.
const CONTEXTS: usize = 8;

/// Operations that a context holds until their completions are reaped.
const ROOM: usize = 128;

/// Attempts to submit an operation while the context is full.
const ATTEMPTS: usize = 1000;

/// `struct iocb` of `linux/aio_abi.h`. The order of the fields that are always zero here does not matter.
#[repr(C)]
#[derive(Default)]
struct Operation {
    data: u64,
    key_and_flags: [u32; 2],
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    len: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    signalled: u32,
}

/// `struct io_event`.
type Completion = [u64; 4];

const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const SIGNAL: u32 = 1;

/// A context for asynchronous I/O.
#[derive(Debug)]
pub(super) struct Signals {
    context: libc::c_ulong,
    /// The read end of a pipe.
    pipe: OwnedFd,
}

impl Signals {
    /// Returns one of the process's contexts. The first call creates all of them, before other processes use up the
    /// machine's limit (fs.aio-max-nr). A single one suffices.
    pub(super) fn get() -> io::Result<&'static Signals> {
        static ALL: OnceLock<Vec<Signals>> = OnceLock::new();
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let all = match ALL.get() {
            Some(all) => all,
            None => {
                let first = Signals::new()?;
                let others = (1..CONTEXTS).map_while(|_| Signals::new().ok());
                let new = std::iter::once(first).chain(others).collect();
                ALL.get_or_init(|| new)
            }
        };
        Ok(&all[NEXT.fetch_add(1, Ordering::Relaxed) % all.len()])
    }

    fn new() -> io::Result<Signals> {
        let (pipe, _) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one word, to `context`.
        let done = unsafe { libc::syscall(libc::SYS_io_setup, ROOM, &raw mut context) };
        if done == 0 { Ok(Signals { context, pipe }) } else { Err(io::Error::last_os_error()) }
    }

    /// Adds one to the counter of an eventfd. Has no effect on any other descriptor.
    #[inline]
    pub(super) fn signal(&self, fd: BorrowedFd<'_>) {
        // Reaping completions makes room. Another thread may take that room first, but not forever.
        for _ in 0..ATTEMPTS {
            if self.submit(PREAD, fd) != -i64::from(libc::EAGAIN) {
                return;
            }
            self.take_completions();
        }
    }

    /// Reports whether `fd` is an eventfd, without signalling it.
    pub(super) fn is_eventfd(&self, fd: BorrowedFd<'_>) -> io::Result<bool> {
        // The kernel refuses a write to the read end as well (EBADF), but only after it has checked `fd` (EINVAL).
        for _ in 0..ATTEMPTS {
            match -self.submit(PWRITE, fd) as i32 {
                libc::EBADF => return Ok(true),
                libc::EINVAL => return Ok(false),
                libc::EAGAIN => self.take_completions(),
                other => return Err(io::Error::from_raw_os_error(other)),
            }
        }
        Err(io::Error::from_raw_os_error(libc::EAGAIN))
    }

    /// Submits an operation on the pipe that signals `fd`. Returns the number of operations accepted, or a negated
    /// errno.
    #[inline]
    fn submit(&self, opcode: u16, fd: BorrowedFd<'_>) -> i64 {
        let (pipe, signalled) = (self.pipe.as_raw_fd() as u32, fd.as_raw_fd() as u32);
        let mut operation = Operation { opcode, fd: pipe, flags: SIGNAL, signalled, ..Operation::default() };
        let mut list = [&raw mut operation];
        // SAFETY: one operation of zero bytes: the kernel reads the list and the operation, and writes to its key.
        // Nothing refers to either when the call returns.
        let done = unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, list.as_mut_ptr()) };
        if done < 0 { -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)) } else { done }
    }

    /// Reaps completions to make room.
    #[cold]
    fn take_completions(&self) {
        let mut completions = [MaybeUninit::<Completion>::uninit(); ROOM];
        let none = ptr::null_mut::<libc::timespec>();
        // On an error another thread has reaped them, or a signal interrupted the call.
        // SAFETY: the kernel writes at most ROOM completions, and waits for none.
        unsafe { libc::syscall(libc::SYS_io_getevents, self.context, 0, ROOM, completions.as_mut_ptr(), none) };
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: this value is the only user of the context.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}
