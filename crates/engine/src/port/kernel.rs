//! Ports of the host kernel: tap devices, and interfaces by AF_PACKET rings.
//!
//! This module uses `unsafe`: frames lie in memory that others may change, so they are passed to the kernel as raw
//! segments, never as slices.
#![allow(unsafe_code)]

use super::{Receive, Sent, Transmit, Wait};
use crate::drops::{Drops, Reason};
use netdev::{PacketRx, PacketTx, PushError, RawSegment, TapQueue, TapWrite};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use virtqueue::{Buffers, Burst, Frame, Frames, MAX_BURST, MIN_FRAME, Segment};

/// Buffer size for a frame read from a tap: a jumbo frame and its tag.
const TAP_ROOM: usize = 9216 + 18;

/// Maximum number of segments that the kernel takes in one call (IOV_MAX).
const MAX_IOV: usize = 1024;

/// Collects the segments of `frame` in `out`, in the kernel's format.
fn raw<'o>(frames: &Frames<'_>, frame: &Frame<'_>, out: &'o mut Vec<RawSegment>) -> &'o [RawSegment] {
    out.clear();
    out.extend(frames.segments(frame).take(MAX_IOV).map(|s| RawSegment::new(s.as_ptr(), s.len() as usize)));
    out
}

/// Receive half of a tap.
pub struct TapReceive {
    queue: Arc<TapQueue>,
    buffers: Buffers,
}

impl TapReceive {
    /// Returns a half that reads from `queue`.
    pub fn new(queue: Arc<TapQueue>) -> TapReceive {
        TapReceive { queue, buffers: Buffers::new(MAX_BURST, TAP_ROOM) }
    }
}

impl Receive for TapReceive {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        while burst.room() > 0 && self.buffers.push(burst, |bytes| self.queue.read(bytes).ok().flatten()) {}
        burst.retain(|_, frame| frame.len() >= MIN_FRAME);
        !burst.is_empty()
    }

    fn recycle(&self) {
        self.buffers.release();
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.queue.as_fd())
    }

    fn arm(&self) -> Wait {
        readable(self.queue.as_fd())
    }
}

/// Reports whether `fd` is readable now, since epoll only reports later events. An interface that is down or gone,
/// which poll reports as well, is nothing to read: the port's keeper handles it.
fn readable(fd: BorrowedFd<'_>) -> Wait {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut fds, Some(&now)) {
        Ok(_) if fds[0].revents().contains(PollFlags::IN) => Wait::Ready,
        _ => Wait::Event,
    }
}

/// Transmit half of a tap.
pub struct TapTransmit {
    queue: Arc<TapQueue>,
    segments: Cell<Vec<RawSegment>>,
}

impl TapTransmit {
    /// Returns a half that writes to `queue`.
    pub fn new(queue: Arc<TapQueue>) -> TapTransmit {
        TapTransmit { queue, segments: Cell::default() }
    }
}

impl Transmit for TapTransmit {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        let mut sent = Sent::default();
        let mut segments = self.segments.take();
        for frame in frames.as_slice() {
            // SAFETY: the segments are mapped as long as `frames` borrows them.
            match unsafe { self.queue.write_raw(raw(&frames, frame, &mut segments)) } {
                Ok(TapWrite::Sent) => {
                    sent.frames += 1;
                    sent.bytes += u64::from(frame.len());
                }
                Ok(TapWrite::Busy) => {
                    sent.rest = Some(Reason::Busy);
                    break;
                }
                Ok(TapWrite::Down) | Err(_) => {
                    sent.rest = Some(Reason::Down);
                    break;
                }
                Ok(TapWrite::Malformed | TapWrite::Fault) => sent.refused += 1,
            }
        }
        self.segments.set(segments);
        sent
    }
}

/// Receive half of an interface.
pub struct PacketReceive {
    ring: PacketRx,
    tags: Buffers,
    drops: Arc<Drops>,
}

impl PacketReceive {
    /// Returns a half that takes frames from `ring`.
    pub fn new(ring: PacketRx, drops: Arc<Drops>) -> PacketReceive {
        PacketReceive { ring, tags: Buffers::new(MAX_BURST, netdev::VLAN_TAG), drops }
    }
}

impl Receive for PacketReceive {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let mut any = false;
        for frame in self.ring.burst(burst.room()) {
            any = true;
            let bytes = Segment::from(frame.bytes());
            if frame.is_truncated() || bytes.len() < MIN_FRAME {
                self.drops.add(Reason::TooLong, 1);
                continue;
            }
            match frame.vlan() {
                // The kernel took the tag out of the frame; this puts it back.
                Some(vlan) => {
                    self.tags.push_inserting(burst, bytes, 12, |tag| {
                        tag.copy_from_slice(&vlan.to_bytes());
                        Some(tag.len())
                    });
                }
                None => burst.push(bytes),
            }
        }
        any
    }

    fn recycle(&self) {
        self.tags.release();
        // SAFETY: the burst that borrowed the ring's frames has ended, as `recycle` requires.
        unsafe { self.ring.release_shared() };
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ring.as_fd())
    }

    fn arm(&self) -> Wait {
        // The kernel wakes the worker when it retires a block, at most a millisecond after the block's first frame.
        match readable(self.ring.as_fd()) {
            Wait::Event => Wait::Time(Duration::from_millis(1)),
            wait => wait,
        }
    }
}

/// Transmit half of an interface.
pub struct PacketTransmit {
    ring: PacketTx,
    segments: Cell<Vec<RawSegment>>,
}

impl PacketTransmit {
    /// Returns a half that puts frames into `ring`.
    pub fn new(ring: PacketTx) -> PacketTransmit {
        PacketTransmit { ring, segments: Cell::default() }
    }
}

impl Transmit for PacketTransmit {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        let mut sent = Sent::default();
        let mut segments = self.segments.take();
        for frame in frames.as_slice() {
            // SAFETY: the segments are mapped as long as `frames` borrows them; the bytes are copied before it ends.
            match unsafe { self.ring.push_raw(raw(&frames, frame, &mut segments)) } {
                Ok(()) => {
                    sent.frames += 1;
                    sent.bytes += u64::from(frame.len());
                }
                Err(PushError::TooLong { .. }) => sent.too_long += 1,
                Err(PushError::TooShort { .. }) => sent.refused += 1,
                Err(PushError::Full) => {
                    sent.rest = Some(Reason::Busy);
                    break;
                }
            }
        }
        self.segments.set(segments);
        match self.ring.flush() {
            Ok(flushed) => {
                // These may be of earlier bursts, but each is counted once.
                let failed = ((flushed.wrong_format + flushed.refused) as u32).min(sent.frames);
                sent.frames -= failed;
                sent.refused += failed;
                let lost = (flushed.link_down as u32).min(sent.frames);
                if lost > 0 {
                    sent.frames -= lost;
                    sent.rest = Some(Reason::Down);
                }
            }
            Err(_) => return Sent::none(Reason::Down),
        }
        sent
    }
}
