//! Reception from an interface by AF_PACKET rings.
//!
//! This module uses `unsafe`: the kernel fills a ring again when its frames are released, which the borrow checker
//! cannot see.
#![allow(unsafe_code)]

use crate::drops::{Drops, Reason};
use crate::port::interface::readable;
use crate::port::{RxQueue, Wait};
use netdev::PacketRx;
use packet::{Buffers, Burst, MAX_BURST, MIN_FRAME, Segment};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// Receive half of an interface.
pub struct PacketReceive {
    ring: PacketRx,
    tags: Buffers,
    drops: Arc<Drops>,
}

impl PacketReceive {
    /// Returns a half that takes frames from `ring`.
    pub fn new(ring: PacketRx, drops: Arc<Drops>) -> PacketReceive {
        PacketReceive { ring, tags: Buffers::new(MAX_BURST, packet::header_len::VLAN_TAG), drops }
    }
}

impl RxQueue for PacketReceive {
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
