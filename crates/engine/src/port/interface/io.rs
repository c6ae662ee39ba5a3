//! Readiness of a descriptor, and frames in the format of the kernel: for the halves of all ports on interfaces.

use crate::port::Wait;
use netdev::RawSegment;
use packet::{Frame, Frames};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;

/// Maximum number of segments that the kernel takes in one call (IOV_MAX).
const MAX_IOV: usize = 1024;

/// Collects `header`, if there is one, and the segments of `frame` in `out`, in the kernel's format.
pub(in crate::port) fn raw<'o>(
    header: Option<RawSegment>,
    frames: &Frames<'_>,
    frame: &Frame<'_>,
    out: &'o mut Vec<RawSegment>,
) -> &'o [RawSegment] {
    out.clear();
    let segments = frames.segments(frame).map(|s| RawSegment::new(s.as_ptr(), s.len() as usize));
    out.extend(header.into_iter().chain(segments).take(MAX_IOV));
    out
}

/// Reports whether `fd` is readable now, since epoll only reports later events. An interface that is down or gone,
/// which poll reports as well, is nothing to read: the port's watcher handles it.
pub(in crate::port) fn readable(fd: BorrowedFd<'_>) -> Wait {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut fds, Some(&now)) {
        Ok(_) if fds[0].revents().contains(PollFlags::IN) => Wait::Ready,
        _ => Wait::Event,
    }
}
