//! Generation of UDP frames.

use crate::port::pace::{Pace, Pacer};
use crate::port::{HoldBursts, RxQueue, Wait};
use packet::checksum;
use packet::{Burst, FrameBlock, MacAddr};
use std::cell::Cell;
use std::sync::Arc;

/// Number of different frames, which are sent in turn.
const VARIETY: usize = 64;

/// Generator of UDP frames, at a rate or as fast as the switch takes them.
pub struct Generator {
    frames: Arc<FrameBlock>,
    next: Cell<usize>,
    left: Cell<u64>,
    pacer: Pacer,
}

impl Generator {
    /// Returns a generator of frames of `size` bytes from `mac`; at most `count` of them if that is not zero.
    pub fn new(size: u32, pace: Pace, count: u64, mac: Option<MacAddr>) -> Generator {
        let source = mac.unwrap_or(MacAddr([0x02, 0, 0, 0, 0, 1]));
        Generator {
            frames: Arc::new((0..VARIETY).map(|i| udp_frame(size as usize, source, i as u16)).collect()),
            next: Cell::new(0),
            left: Cell::new(if count == 0 { u64::MAX } else { count }),
            pacer: Pacer::new(pace),
        }
    }
}

impl RxQueue for Generator {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let count = (burst.room() as u64).min(self.pacer.due()).min(self.left.get()) as usize;
        let (frames, first) = (&*self.frames, self.next.get());
        (first..first + count).for_each(|number| burst.push(frames.frame(number % VARIETY)));
        self.next.set((first + count) % VARIETY);
        self.left.set(self.left.get() - count as u64);
        self.pacer.made(count as u64);
        count > 0
    }

    fn recycle(&self) {}

    fn holds(&self) -> Option<&dyn HoldBursts> {
        Some(&self.frames)
    }

    fn arm(&self) -> Wait {
        if self.left.get() == 0 { Wait::Event } else { self.pacer.wait() }
    }
}

/// Returns a UDP frame over IPv4 of `size` bytes, or the headers if they are longer, of flow `flow`, with a valid
/// header checksum. Addresses are of the range for benchmarks (RFC 2544).
fn udp_frame(size: usize, source: MacAddr, flow: u16) -> Vec<u8> {
    const HEADERS: usize = 14 + 20 + 8;
    let size = size.max(HEADERS);
    let mut frame = vec![0u8; size];
    frame[..6].copy_from_slice(&[0x02, 0, 0, 0, 0, 2]);
    frame[6..12].copy_from_slice(&source.0);
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    let ip = &mut frame[14..34];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&((size - 14) as u16).to_be_bytes());
    ip[8] = 64;
    ip[9] = 17;
    ip[12..16].copy_from_slice(&[198, 18, 0, 1]);
    ip[16..20].copy_from_slice(&[198, 19, 0, 1]);
    let sum = checksum::of(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    frame[34..36].copy_from_slice(&(1024 + flow).to_be_bytes());
    frame[36..38].copy_from_slice(&9u16.to_be_bytes());
    frame[38..40].copy_from_slice(&((size - 34) as u16).to_be_bytes());
    (HEADERS..size).for_each(|i| frame[i] = (i + usize::from(flow)) as u8);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::BurstStorage;

    #[test]
    fn it_stops_after_its_count() {
        let generator = Generator::new(64, Pace::default(), 40, None);
        let mut storage = Box::<BurstStorage>::default();
        let mut sizes = Vec::new();
        for _ in 0..3 {
            let mut burst = storage.start();
            generator.receive(&mut burst);
            sizes.push(burst.len());
        }
        assert_eq!(sizes, [32, 8, 0]);
        assert_eq!(generator.arm(), Wait::Event);
    }

    #[test]
    fn a_header_checksum_adds_up() {
        for flow in [0, 63] {
            let frame = udp_frame(1514, MacAddr([2; 6]), flow);
            assert_eq!(checksum::of(&frame[14..34]), 0);
        }
    }
}
