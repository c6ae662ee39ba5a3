//! Reception from an interface by AF_PACKET rings.
//!
//! This module uses `unsafe`: the kernel fills a ring again when its frames are released, which the borrow checker
//! cannot see.
#![allow(unsafe_code)]

use crate::drops::{Drops, Reason};
use crate::port::{HoldBursts, RxQueue, Wait};
use netdev::PacketRx;
use packet::header_len::{ETHERNET, MAC_ADDRESSES, VLAN_TAG};
use packet::offload::Work;
use packet::{Buffers, Burst, MAX_BURST, MIN_FRAME, MappedMemory, Segment};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Receive half of an interface.
pub struct PacketReceive {
    ring: PacketRx,
    tags: Buffers,
    drops: Arc<Drops>,
    long: Arc<LongFrames>,
}

/// Whether frames arrive that are longer than the interface's MTU: several that the sender, or the receiving interface, left in one
/// piece. Hardly any port can send them on.
#[derive(Debug)]
pub struct LongFrames {
    /// The longest frame that the MTU allows, without a tag that the kernel took out.
    limit: AtomicU32,
    seen: AtomicBool,
}

/// No long frame has arrived, at an interface with an unknown MTU.
impl Default for LongFrames {
    fn default() -> LongFrames {
        LongFrames { limit: AtomicU32::new(u32::MAX), seen: AtomicBool::new(false) }
    }
}

impl LongFrames {
    /// Sets the MTU.
    pub fn set_mtu(&self, mtu: usize) {
        let headers = ETHERNET + VLAN_TAG;
        self.limit.store((mtu + headers).try_into().unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Reports whether one has arrived.
    pub fn is_seen(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }
}

impl PacketReceive {
    /// Returns a half that takes frames from `ring`, and notes `long` ones.
    pub fn new(ring: PacketRx, drops: Arc<Drops>, long: Arc<LongFrames>) -> PacketReceive {
        PacketReceive { ring, tags: Buffers::new(MAX_BURST, VLAN_TAG), drops, long }
    }
}

impl RxQueue for PacketReceive {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let limit = self.long.limit.load(Ordering::Relaxed);
        while burst.room() > 0
            && let Some(frame) = self.ring.next_frame()
        {
            let bytes = Segment::from(frame.bytes());
            if bytes.len() < MIN_FRAME {
                continue;
            }
            let left = frame.offload();
            if bytes.len() > limit && !matches!(left.work(), Work::Cut(_)) {
                self.long.seen.store(true, Ordering::Relaxed);
            }
            match frame.vlan() {
                // The kernel took the tag out of the frame; this puts it back.
                Some(vlan) => {
                    let Some(left) = left.moved(VLAN_TAG as i32) else {
                        self.drops.add(Reason::BadOffload, 1);
                        continue;
                    };
                    let is_added = self.tags.push_inserting(burst, bytes, MAC_ADDRESSES as u32, |tag| {
                        tag.copy_from_slice(&vlan.to_bytes());
                        Some(tag.len())
                    });
                    if is_added {
                        burst.leave(left);
                    }
                }
                None => {
                    burst.push(bytes);
                    burst.leave(left);
                }
            }
        }
        // Also slots of frames that were lost go back.
        self.ring.has_recent()
    }

    fn recycle(&self) {
        self.tags.release();
        // SAFETY: the burst that borrowed the ring's frames has ended, as `recycle` requires. Other workers read frames of slots that
        // are held.
        unsafe { self.ring.release_shared() };
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ring.as_fd())
    }

    fn arm(&self) -> Wait {
        // The kernel tells of each frame that arrives later.
        if self.ring.is_ready() { Wait::Ready } else { Wait::Event }
    }

    fn holds(&self) -> Option<&dyn HoldBursts> {
        Some(self)
    }
}

/// Tags lie outside the ring, and are copied when they are leased.
impl HoldBursts for PacketReceive {
    fn memories(&self) -> Vec<Arc<dyn MappedMemory>> {
        self.ring.memories().into()
    }

    fn buffers(&self) -> usize {
        self.ring.slots()
    }

    fn hold(&self, held: &mut Vec<u16>) {
        self.ring.hold(held);
    }

    fn give_back(&self, held: &[u16]) {
        self.ring.give_back(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::TxQueue;
    use crate::port::frames::to_vec;
    use crate::port::tap::TapTransmit;
    use netdev::{Links, RxConfig, Tap};
    use nix::sched::{CloneFlags, unshare};
    use packet::BurstStorage;
    use packet::offload::{Offload, Offloads};
    use std::time::{Duration, Instant};

    /// The kernel takes a tag out of a frame, and the description that it gives is of the rest.
    #[test]
    fn a_tag_that_is_put_back_moves_the_description() {
        // In a network namespace of this thread.
        unshare(CloneFlags::CLONE_NEWNET).expect("this test needs to run as root");
        let tap = TapTransmit::new(Arc::new(Tap::open("tap0", 1, Offloads::CHECKSUM).unwrap().remove(0)));
        let links = Links::open().unwrap();
        let link = links.bring_up(&links.get("tap0").unwrap()).unwrap();
        let ring = PacketRx::open(&link, 1, &RxConfig::of(Offloads::ALL)).unwrap().remove(0);
        let half = PacketReceive::new(ring, Arc::default(), Arc::default());
        let sent = [&[2; 12][..], &[0x81, 0, 0, 5, 0x88, 0xb5], &[7; 60]].concat();
        let left = Offload::checksum(40, 6);
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        burst.push(Segment::from(&sent[..]));
        burst.leave(left);
        assert_eq!(tap.transmit(burst.frames()).frames, 1);
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            assert!(Instant::now() < end, "no frame came");
            let mut burst = storage.start();
            half.receive(&mut burst);
            // The kernel itself sends to a new interface, too.
            burst.retain(|frames, frame| to_vec(&frames, frame)[12..14] == [0x81, 0]);
            if let [frame] = burst.frames().as_slice() {
                assert_eq!((to_vec(&burst.frames(), frame), frame.offload()), (sent, left));
                break;
            }
            half.recycle();
        }
    }
}
