//! Pages that a guest's file lacks: allocated at once while it is set up, and never afterwards.
//!
//! The kernel allocates a page of a memory file for the first process that touches it, and charges it to that process. A frame that a guest
//! wants in memory that it never touched would make the switch allocate, wait, and at last be killed for it. So all pages are made
//! to exist first, and then userfaultfd(2) turns a hole into SIGBUS (`UFFD_FEATURE_SIGBUS`), which [`super::fault`] handles. A
//! page that was swapped out is no hole: it comes back as usual.

use rustix::io::Errno;
use std::io;

/// Prepares for memory that loses pages, before the process gives up the right to: see userfaultfd(2).
///
/// # Errors
/// The kernel does not offer userfaultfd(2) to this process, or an old version of it. Then the first process that touches a hole fills it.
pub fn prepare() -> io::Result<()> {
    Ok(userfault::descriptor().map(|_| ())?)
}

/// Treatment of pages that a memory file lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// They are allocated.
    Allocate,
    /// The memory is refused.
    Refuse,
}

/// Allocates the pages of a range of whole pages, and maps them. Returns false before Linux 5.14, which can't.
#[cfg(not(miri))]
pub(super) fn populate(start: *mut u8, len: usize) -> Result<bool, Errno> {
    use rustix::mm::{Advice, madvise};
    // SAFETY: it touches each page as a write would, and changes no byte.
    match unsafe { madvise(start.cast(), len, Advice::LinuxPopulateWrite) } {
        Err(Errno::INVAL) => Ok(false),
        done => done.map(|()| true),
    }
}

#[cfg(miri)]
pub(super) fn populate(_: *mut u8, _: usize) -> Result<bool, Errno> {
    Ok(true)
}

/// Lets accesses to pages that do not exist in this mapping fail with SIGBUS. Returns false if the process has no userfaultfd(2).
pub(super) fn guard(start: *mut u8, len: usize) -> Result<bool, Errno> {
    let Ok(descriptor) = userfault::descriptor() else { return Ok(false) };
    userfault::register(descriptor, start, len).map(|()| true)
}

#[cfg(not(miri))]
mod userfault {
    use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
    use rustix::io::Errno;
    use rustix::mm::{UserfaultfdFlags, userfaultfd};
    use std::sync::OnceLock;

    /// Version of the interface (`UFFD_API`).
    const VERSION: u64 = 0xaa;

    /// `UFFD_FEATURE_MISSING_HUGETLBFS`, `UFFD_FEATURE_MISSING_SHMEM`, `UFFD_FEATURE_SIGBUS`.
    const FEATURES: u64 = 1 << 4 | 1 << 5 | 1 << 7;

    /// `UFFD_USER_MODE_ONLY`: any process may open one with this flag. System calls fail with EFAULT in a hole.
    const USER_MODE_ONLY: u32 = 1;

    /// `struct uffdio_api`.
    #[repr(C)]
    struct Api {
        version: u64,
        features: u64,
        ioctls: u64,
    }

    /// `struct uffdio_register`.
    #[repr(C)]
    struct Register {
        start: u64,
        len: u64,
        mode: u64,
        ioctls: u64,
    }

    /// `UFFDIO_REGISTER_MODE_MISSING`.
    const MISSING: u64 = 1;

    /// `_IOWR(0xaa, number, size)`.
    const fn ioctl_number<T>(number: u64) -> u64 {
        3 << 30 | (size_of::<T>() as u64) << 16 | VERSION << 8 | number
    }

    fn call<T>(descriptor: BorrowedFd<'_>, number: u64, argument: &mut T) -> Result<(), Errno> {
        // SAFETY: the kernel reads and writes the structure that the number names, which is `T`.
        let done = unsafe {
            libc::ioctl(descriptor.as_raw_fd(), ioctl_number::<T>(number) as _, std::ptr::from_mut(argument))
        };
        if done == 0 {
            Ok(())
        } else {
            Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
        }
    }

    fn open() -> Result<OwnedFd, Errno> {
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY);
        // SAFETY: it changes no memory until some is registered.
        let descriptor = unsafe { userfaultfd(flags) }?;
        call(rustix::fd::AsFd::as_fd(&descriptor), 0x3f, &mut Api { version: VERSION, features: FEATURES, ioctls: 0 })?;
        Ok(descriptor)
    }

    /// Returns the process's only one.
    pub(super) fn descriptor() -> Result<BorrowedFd<'static>, Errno> {
        static ONLY: OnceLock<Result<OwnedFd, Errno>> = OnceLock::new();
        ONLY.get_or_init(open).as_ref().map(rustix::fd::AsFd::as_fd).map_err(|errno| *errno)
    }

    /// Registers a range of whole pages; it ends when they are unmapped.
    pub(super) fn register(descriptor: BorrowedFd<'_>, start: *mut u8, len: usize) -> Result<(), Errno> {
        call(descriptor, 0, &mut Register { start: start.addr() as u64, len: len as u64, mode: MISSING, ioctls: 0 })
    }
}

#[cfg(miri)]
mod userfault {
    use rustix::fd::BorrowedFd;
    use rustix::io::Errno;

    pub(super) fn descriptor() -> Result<BorrowedFd<'static>, Errno> {
        Err(Errno::NOSYS)
    }

    pub(super) fn register(_: BorrowedFd<'_>, _: *mut u8, _: usize) -> Result<(), Errno> {
        Ok(())
    }
}
