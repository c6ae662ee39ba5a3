//! Signals eventfds from within the kernel, which never waits.
//!
//! The kernel has a call of its own to ring an eventfd, `eventfd_signal`: it adds one to the counter, at the end of the
//! range too, and looks at no flags. KVM and vhost-net notify guests that way. Of what user space can ask for, two
//! interfaces lead there: io_uring, which the confinement refuses, and asynchronous I/O (io_submit(2)), where each
//! operation may name an eventfd that its completion signals (IOCB_FLAG_RESFD). The operation here reads nothing from a
//! pipe. It is done when io_submit returns, and so is the signal: one system call, as a write would be.
//!
//! The kernel makes sure that the descriptor is an eventfd, each time, and refuses it with EINVAL if not.

use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Contexts of the process: a context has a lock, and workers should not meet at it. They are never given back, since
/// io_destroy(2) takes tens of milliseconds.
const CONTEXTS: usize = 8;

/// Operations that a context has room for until their completions are taken.
const ROOM: usize = 128;

/// How often an operation is tried while there is no room.
const ATTEMPTS: usize = 1000;

/// `struct iocb` of `linux/aio_abi.h`. Of what is zero here, nothing depends on the order.
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
    /// The end of a pipe that can only be read from.
    pipe: OwnedFd,
}

impl Signals {
    /// One of the process's. All are made when the first one is asked for: later, others may have taken all that the
    /// machine has (fs.aio-max-nr). One is enough.
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

    /// Adds one to the counter of an eventfd. Any other descriptor is left alone.
    #[inline]
    pub(super) fn signal(&self, fd: BorrowedFd<'_>) {
        // There is room again once completions were taken. Another thread may be faster, but not for ever.
        for _ in 0..ATTEMPTS {
            if self.submit(PREAD, fd) != -i64::from(libc::EAGAIN) {
                return;
            }
            self.take_completions();
        }
    }

    /// The kernel takes `fd` for an eventfd. It is not signalled.
    pub(super) fn is_eventfd(&self, fd: BorrowedFd<'_>) -> io::Result<bool> {
        // To write to this end of the pipe is refused as well, but later than a wrong descriptor.
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

    /// Submits an operation on the pipe that signals `fd`; how many were taken, or an error as a negative number.
    #[inline]
    fn submit(&self, opcode: u16, fd: BorrowedFd<'_>) -> i64 {
        let (pipe, signalled) = (self.pipe.as_raw_fd() as u32, fd.as_raw_fd() as u32);
        let mut operation = Operation { opcode, fd: pipe, flags: SIGNAL, signalled, ..Operation::default() };
        let mut list = [&raw mut operation];
        // SAFETY: one operation of no bytes: the kernel reads the list and the operation, and writes to its key. Nothing
        // refers to either when the call returns.
        let done = unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, list.as_mut_ptr()) };
        if done < 0 { -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)) } else { done }
    }

    /// Makes room for operations.
    #[cold]
    fn take_completions(&self) {
        let mut completions = [MaybeUninit::<Completion>::uninit(); ROOM];
        let none = ptr::null_mut::<libc::timespec>();
        // An error says that another thread has taken them, or that a signal came first.
        // SAFETY: the kernel writes at most ROOM completions, and waits for none.
        unsafe { libc::syscall(libc::SYS_io_getevents, self.context, 0, ROOM, completions.as_mut_ptr(), none) };
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: nobody else knows this context.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}
