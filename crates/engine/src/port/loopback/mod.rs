//! Loopback ports: return every frame to the switch, in order.
//!
//! The two halves may belong to different workers: a ring that neither waits at connects them.

mod rx;
mod spec;
mod tx;

pub use rx::LoopbackReceive;
pub use spec::{KIND, Keys, Settings};
pub use tx::LoopbackTransmit;

use handover::{EventNotifier, Ring};

/// Words of the ring: half a mebibyte, a few hundred frames of the usual maximum length.
const WORDS: usize = 1 << 16;

/// The frames on their way back.
struct Loop {
    ring: Ring,
    /// Signalled when a receive half that sleeps has frames.
    notifier: EventNotifier,
}

impl Loop {
    fn new() -> std::io::Result<Loop> {
        Ok(Loop { ring: Ring::new(WORDS), notifier: EventNotifier::new()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::{RxQueue, TxQueue, Wait};
    use packet::{BurstStorage, MAX_FRAME, Segment};
    use std::sync::Arc;

    fn halves() -> (LoopbackReceive, LoopbackTransmit) {
        let frames = Arc::new(Loop::new().unwrap());
        (LoopbackReceive::new(frames.clone()), LoopbackTransmit::new(frames))
    }

    fn send(transmit: &LoopbackTransmit, frames: &[Vec<u8>]) -> u32 {
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        frames.iter().for_each(|frame| burst.push(Segment::from(&frame[..])));
        let sent = transmit.transmit(burst.frames());
        transmit.notify();
        sent.frames
    }

    fn receive(receive: &LoopbackReceive) -> Vec<Vec<u8>> {
        let mut storage = Box::<BurstStorage>::default();
        let mut burst = storage.start();
        receive.receive(&mut burst);
        let frames = burst.frames();
        let bytes = |frame: &packet::Frame<'_>| {
            let mut bytes = vec![0; frame.len() as usize];
            frames.copy_to(frame, &mut bytes);
            bytes
        };
        let all = frames.as_slice().iter().map(bytes).collect();
        receive.recycle();
        all
    }

    #[test]
    fn frames_come_back_in_order_and_whole() {
        let (rx, tx) = halves();
        let frames: Vec<_> = [60, 61, 1514, MAX_FRAME as usize].map(|len| vec![len as u8; len]).into();
        for _ in 0..50 {
            assert_eq!(send(&tx, &frames), 4);
            assert_eq!(receive(&rx), frames);
        }
        assert!(receive(&rx).is_empty());
    }

    #[test]
    fn a_full_ring_takes_no_more() {
        let (rx, tx) = halves();
        let frames = vec![vec![1; 1514]; 32];
        let sent: u32 = (0..50).map(|_| send(&tx, &frames)).sum();
        assert!((100..50 * 32).contains(&sent), "{sent}");
        let back: usize = std::iter::repeat_with(|| receive(&rx).len()).take_while(|&count| count > 0).sum();
        assert_eq!(back, sent as usize);
        assert_eq!(send(&tx, &frames), 32);
    }

    #[test]
    fn a_sleeping_worker_is_woken() {
        let (rx, tx) = halves();
        assert_eq!(rx.arm(), Wait::Event);
        send(&tx, &[vec![1; 60]]);
        let fd = rx.wake_fd().unwrap();
        let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut fds, Some(&now)), Ok(1));
        assert_eq!(rx.arm(), Wait::Ready);
        assert_eq!((receive(&rx).len(), rx.arm()), (1, Wait::Event));
    }
}
