//! Calls of the kernel that the library does not make, or only makes right.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::Failed;
use zcopy::PAGE;

/// An ioctl of the device with any bytes; returns the answer, and the bytes afterwards.
pub fn ioctl(fd: BorrowedFd<'_>, number: u32, bytes: &mut [u8]) -> io::Result<i32> {
    // The kernel may write the largest of the device's structures here, and nothing after it.
    let mut space = [0; 256];
    space[..bytes.len()].copy_from_slice(bytes);
    // SAFETY: the kernel reads and writes 256 bytes at most; what the numbers in them point to, it only reads.
    let answer = unsafe { libc::ioctl(fd.as_raw_fd(), number as libc::Ioctl, space.as_mut_ptr()) };
    bytes.copy_from_slice(&space[..bytes.len()]);
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// The same with an address where nothing is mapped, or which ends within the structure.
pub fn ioctl_at(fd: BorrowedFd<'_>, number: u32, address: usize) -> io::Result<i32> {
    // SAFETY: callers pass addresses that are not mapped, or to memory that they have for this.
    let answer = unsafe { libc::ioctl(fd.as_raw_fd(), number as libc::Ioctl, address) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// Runs `work` in a child process, and waits for it. It must not allocate.
pub fn in_child(work: impl Fn()) -> io::Result<()> {
    let child = fork(|| {
        work();
        Ok(())
    })?;
    if wait(child)? == 0 { Ok(()) } else { Err(io::Error::other("the child failed")) }
}

/// Runs `work` in a child process; returns its number. If this process has other threads, `work` must not allocate.
pub fn fork(work: impl Fn() -> Result<(), Failed>) -> io::Result<i32> {
    // SAFETY: without other threads, a child may do anything; with others, `work` neither allocates nor locks.
    match unsafe { libc::fork() } {
        0 => {
            let status = if work().is_ok() { 0 } else { 1 };
            // SAFETY: ends the child without the parent's destructors.
            unsafe { libc::_exit(status) }
        }
        child if child > 0 => Ok(child),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Kills a child that is still at work.
pub fn kill(child: i32) -> io::Result<()> {
    // SAFETY: it is a child of this process, which has not waited for it.
    unsafe { libc::kill(child, libc::SIGKILL) };
    if wait(child)? == libc::SIGKILL { Ok(()) } else { Err(io::Error::other("the child had ended by itself")) }
}

/// Makes this process another user, without rights.
pub fn become_user(user: u32) -> io::Result<()> {
    // SAFETY: changes the identity of this process, which has one thread.
    let done = unsafe { libc::setresuid(user, user, user) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Waits for a child; returns its status.
pub fn wait(child: i32) -> io::Result<i32> {
    let mut status = 0;
    // SAFETY: writes the status.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    if waited == child { Ok(status) } else { Err(io::Error::last_os_error()) }
}

/// Puts a page into a pipe without a copy; the pipe then holds it.
pub fn splice(pipe: BorrowedFd<'_>, page: *mut u8) -> io::Result<()> {
    let part = libc::iovec { iov_base: page.cast(), iov_len: PAGE };
    // SAFETY: the kernel reads one page of a mapping, and keeps a reference to it.
    let put = unsafe { libc::vmsplice(pipe.as_raw_fd(), &raw const part, 1, 0) };
    if put == PAGE as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Maps a descriptor, to be read and written.
pub fn map(fd: BorrowedFd<'_>, len: usize, flags: i32, offset: i64) -> io::Result<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the kernel chooses the address.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, fd.as_raw_fd(), offset) };
    if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(start.cast()) }
}

/// A page with these bytes at its end, and nothing after them.
pub struct Edge(*mut u8);

impl Edge {
    pub fn new(bytes: &[u8]) -> io::Result<Edge> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: the kernel chooses the address; no other code knows the second page, which is unmapped again.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), 2 * PAGE, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start: *mut u8 = start.cast();
        // SAFETY: as above, and the bytes fit into the first page.
        unsafe {
            libc::munmap(start.add(PAGE).cast(), PAGE);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.add(PAGE - bytes.len()), bytes.len());
        }
        Ok(Edge(start))
    }

    /// Returns the address of the last `len` bytes.
    pub fn last(&self, len: usize) -> usize {
        self.0.addr() + PAGE - len
    }

    /// Write-protects it.
    pub fn protect(&self) {
        // SAFETY: no reference into the page exists.
        unsafe { libc::mprotect(self.0.cast(), PAGE, libc::PROT_READ) };
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        // SAFETY: no reference into the page exists.
        unsafe { libc::munmap(self.0.cast(), PAGE) };
    }
}
