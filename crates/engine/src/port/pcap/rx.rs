//! Replay of a capture file.

use crate::port::pace::{Pace, Pacer};
use crate::port::{RxQueue, Wait};
use capture::{Captured, Reader};
use packet::{Burst, MAX_FRAME, MIN_FRAME, Segment};
use std::cell::Cell;
use std::path::Path;

/// Replay of a file, at a rate or as fast as the switch takes its frames.
pub struct Replay {
    frames: Vec<Vec<u8>>,
    next: Cell<usize>,
    repeat: bool,
    pacer: Pacer,
}

impl Replay {
    /// Reads the whole file, pcap or pcapng, so that nothing is read on the path of a frame. Skips packets that are too
    /// short or too long for frames.
    pub fn open(path: &Path, repeat: bool, pace: Pace) -> Result<Replay, capture::Error> {
        let mut frames = Vec::new();
        for frame in Reader::open(path)? {
            let Captured { bytes, .. } = frame?;
            if (MIN_FRAME as usize..=MAX_FRAME as usize).contains(&bytes.len()) {
                frames.push(bytes);
            }
        }
        Ok(Replay { frames, next: Cell::new(0), repeat, pacer: Pacer::new(pace) })
    }
}

impl RxQueue for Replay {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let due = self.pacer.due();
        let mut made = 0;
        while burst.room() > 0
            && made < due
            && let Some(frame) = self.frames.get(self.next.get())
        {
            burst.push(Segment::from(&frame[..]));
            let next = self.next.get() + 1;
            self.next.set(if self.repeat && next == self.frames.len() { 0 } else { next });
            made += 1;
        }
        self.pacer.made(made);
        !burst.is_empty()
    }

    fn recycle(&self) {}

    fn arm(&self) -> Wait {
        if self.next.get() < self.frames.len() { self.pacer.wait() } else { Wait::Event }
    }
}
