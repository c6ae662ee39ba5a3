//! Reception from a tap.

use crate::drops::{Drops, Reason};
use crate::port::interface::readable;
use crate::port::{HoldBursts, LifeCycle, RxQueue, Wait};
use netdev::TapQueue;
use packet::offload::{Offload, header};
use packet::{Buffers, Burst, HEAD, MAX_BURST, MAX_BURST_BYTES, MAX_FRAME, MIN_FRAME, MappedMemory};
use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Buffer size for a frame read from a tap: a jumbo frame and its tag.
const TAP_ROOM: usize = 9216 + 18;

/// Bursts that a tap has buffers for if several workers share its queue.
const BURSTS: usize = 32;

/// Receive half of a tap.
pub struct TapReceive {
    queue: Arc<TapQueue>,
    drops: Arc<Drops>,
    /// Buffers of one burst each.
    buffers: Vec<Buffers>,
    /// Index of those of the present burst; `None` if all are held.
    present: Cell<Option<u16>>,
    /// Indices of those that are neither in use nor held.
    spare: RefCell<Vec<u16>>,
}

impl TapReceive {
    /// Returns a half that reads from `queue`, and counts frames with a wrong description among `drops`.
    pub fn new(queue: Arc<TapQueue>, drops: Arc<Drops>) -> TapReceive {
        let buffers = vec![buffers(&queue)];
        TapReceive { queue, drops, buffers, present: Cell::new(Some(0)), spare: RefCell::default() }
    }

    /// Returns the buffers of the present burst.
    fn present(&self) -> Option<&Buffers> {
        if self.present.get().is_none() {
            self.present.set(self.spare.borrow_mut().pop());
        }
        self.present.get().map(|index| &self.buffers[usize::from(index)])
    }
}

/// Returns buffers for a burst. For long messages, they are packed: a burst ends when it has enough bytes.
fn buffers(queue: &TapQueue) -> Buffers {
    if queue.offloads().segmentation().is_none() {
        Buffers::new(MAX_BURST, TAP_ROOM)
    } else {
        Buffers::packed(MAX_BURST_BYTES as usize, MAX_FRAME as usize)
    }
}

impl RxQueue for TapReceive {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let Some(buffers) = self.present() else { return false };
        let allowed = self.queue.offloads();
        while burst.room() > 0 {
            let mut left = Ok(Offload::NONE);
            let filled = buffers.fill(|bytes| {
                let (len, header) = self.queue.read_described(bytes).ok().flatten()?;
                left = header::read(header, allowed, len as u32, &bytes[..len.min(HEAD)]);
                Some(len)
            });
            match (filled, left) {
                (None, _) => break,
                (Some(_), Err(_)) => self.drops.add(Reason::BadOffload, 1),
                (Some(frame), _) if frame.len() < MIN_FRAME => {}
                (Some(frame), Ok(left)) => {
                    burst.push(frame);
                    burst.leave(left);
                }
            }
        }
        !burst.is_empty()
    }

    fn recycle(&self) {
        self.present().into_iter().for_each(Buffers::release);
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.queue.as_fd())
    }

    fn arm(&self) -> Wait {
        readable(self.queue.as_fd())
    }

    fn holds(&self) -> Option<&dyn HoldBursts> {
        Some(self)
    }

    fn life_cycle(&mut self) -> Option<&mut dyn LifeCycle> {
        Some(self)
    }
}

impl HoldBursts for TapReceive {
    fn memories(&self) -> Vec<Arc<dyn MappedMemory>> {
        self.buffers.iter().map(Buffers::memory).collect()
    }

    fn buffers(&self) -> usize {
        self.buffers.len() * MAX_BURST
    }

    fn hold(&self, held: &mut Vec<u16>) {
        held.extend(self.present.take());
    }

    fn give_back(&self, held: &[u16]) {
        held.iter().for_each(|&index| self.buffers[usize::from(index)].release());
        self.spare.borrow_mut().extend_from_slice(held);
    }
}

impl LifeCycle for TapReceive {
    fn share(&mut self, is_shared: bool) {
        let bursts = if is_shared { BURSTS } else { 1 };
        self.buffers.resize_with(bursts, || buffers(&self.queue));
        self.present.set(Some(0));
        *self.spare.get_mut() = (1..bursts as u16).rev().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::TxQueue;
    use crate::port::af_packet::PacketTransmit;
    use crate::port::frames::to_vec;
    use netdev::{Links, PacketTx, Tap, TxConfig};
    use nix::sched::{CloneFlags, unshare};
    use packet::offload::{Cut, Message, Offloads};
    use packet::{BurstStorage, LeasedFrames, Segment};
    use std::time::{Duration, Instant};

    /// Reads bursts of one frame until all buffers are held, and gives them back in another order: no frame changes before.
    #[test]
    fn held_bursts_have_buffers_of_their_own() {
        // In a network namespace of this thread.
        unshare(CloneFlags::CLONE_NEWNET).expect("this test needs to run as root");
        let queue = Arc::new(Tap::open("tap0", 1, Offloads::NONE).unwrap().remove(0));
        let links = Links::open().unwrap();
        let link = links.bring_up(&links.get("tap0").unwrap()).unwrap();
        let sender = PacketTx::open(&link, &TxConfig::default()).unwrap();
        let mut half = TapReceive::new(queue, Arc::default());
        assert_eq!(half.buffers(), MAX_BURST);
        half.share(true);
        let memories: Arc<[Arc<dyn MappedMemory>]> = half.memories().into();
        let mut storage = Box::<BurstStorage>::default();
        let mut receive = |half: &TapReceive| {
            let mut leased = LeasedFrames::new(memories.clone());
            let end = Instant::now() + Duration::from_secs(60);
            // The kernel itself sends to a new interface, too.
            while leased.is_empty() {
                assert!(Instant::now() < end, "no frame came");
                let mut burst = storage.start();
                half.receive(&mut burst);
                burst.retain(|frames, frame| to_vec(&frames, frame)[12..14] == [0x88, 0xb5]);
                leased.add(burst.frames());
                if leased.is_empty() {
                    half.recycle();
                }
            }
            leased
        };
        let bytes = |leased: &LeasedFrames| {
            to_vec(&leased.groups().next().unwrap(), &leased.groups().next().unwrap().as_slice()[0])
        };
        for _ in 0..3 {
            let mut held = Vec::new();
            for number in 0..BURSTS as u8 {
                let frame = [&[2; 12][..], &[0x88, 0xb5], &[number; 50]].concat();
                sender.push(&[&frame]).unwrap();
                assert_eq!(sender.flush().unwrap().sent, 1);
                let (leased, mut ids) = (receive(&half), Vec::new());
                half.hold(&mut ids);
                half.recycle();
                assert_eq!(ids.len(), 1);
                held.push((leased, frame, ids));
            }
            assert!(!half.receive(&mut BurstStorage::default().start()), "all buffers are held");
            held.rotate_left(5);
            for (leased, frame, ids) in held {
                assert_eq!(bytes(&leased), frame);
                half.give_back(&ids);
                half.recycle();
            }
        }
        half.share(false);
        assert_eq!(half.buffers(), MAX_BURST);
    }

    /// Messages of the longest kind come whole with their description, as many in a burst as have 64 KB together.
    #[test]
    fn long_messages_share_the_room_of_a_burst() {
        // In a network namespace of this thread.
        unshare(CloneFlags::CLONE_NEWNET).expect("this test needs to run as root");
        let queue = Arc::new(Tap::open("tap0", 1, Offloads::ALL).unwrap().remove(0));
        let links = Links::open().unwrap();
        let link = links.bring_up(&links.get("tap0").unwrap()).unwrap();
        let sender = PacketTransmit::new(PacketTx::open(&link, &TxConfig::of(Offloads::ALL)).unwrap());
        let drops = Arc::<Drops>::default();
        let half = TapReceive::new(queue, drops.clone());
        let mut frame =
            [&[2; 12][..], &[8, 0, 0x45, 0], &30_040u16.to_be_bytes(), &[0, 1, 0x40, 0, 64, 6, 0, 0]].concat();
        frame.extend([10, 9, 0, 1, 10, 9, 0, 2, 0, 80, 0x30, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 0x10, 2, 0]);
        frame.resize(14 + 30_040, 7);
        let cut = Cut { message: Message::Tcp4, size: 1000, start: 34, header: 20, ecn: false };
        let left = Offload::cut(cut).unwrap();
        let count = 7;
        let (mut storage, mut bursts) = (Box::<BurstStorage>::default(), Vec::new());
        let mut burst = storage.start();
        (0..count).for_each(|_| {
            burst.push(Segment::from(&frame[..]));
            burst.leave(left);
        });
        assert_eq!(sender.transmit(burst.frames()).frames as usize, count);
        let end = Instant::now() + Duration::from_secs(60);
        while bursts.iter().sum::<usize>() < count {
            assert!(Instant::now() < end, "no frame came");
            let mut burst = storage.start();
            half.receive(&mut burst);
            // The kernel itself sends to a new interface, too.
            burst.retain(|_, other| other.len() as usize == frame.len());
            for got in burst.frames().as_slice() {
                assert_eq!(got.offload(), left);
                assert!(to_vec(&burst.frames(), got) == frame, "another frame");
            }
            bursts.push(burst.len());
            half.recycle();
        }
        assert!(bursts.iter().all(|frames| *frames <= 3), "bursts of {bursts:?}");
        assert!(drops.named().is_empty());
    }
}
