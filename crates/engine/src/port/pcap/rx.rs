//! Replay of a capture file.

use super::Survey;
use crate::port::pace::{Pace, Pacer};
use crate::port::{HoldBursts, RxQueue, Wait};
use capture::Reader;
use packet::{Burst, FrameBlock};
use std::cell::Cell;
use std::fs::File;
use std::sync::Arc;

/// Replay of a file, at a rate or as fast as the switch takes its frames.
pub struct Replay {
    frames: Arc<FrameBlock>,
    next: Cell<usize>,
    repeat: bool,
    pacer: Pacer,
}

impl Replay {
    /// Returns the replay of no frame, for a port that only records.
    pub fn of_nothing() -> Replay {
        Replay { frames: Arc::default(), next: Cell::new(0), repeat: false, pacer: Pacer::new(Pace::default()) }
    }

    /// Reads the whole file, pcap or pcapng, so that nothing is read on the path of a frame. Also returns a survey of it.
    pub fn read(file: File, repeat: bool, pace: Pace) -> Result<(Replay, Survey), capture::Error> {
        let (survey, frames) = Survey::with_frames(Reader::new(file)?)?;
        Ok((Replay { frames: Arc::new(frames), next: Cell::new(0), repeat, pacer: Pacer::new(pace) }, survey))
    }
}

impl RxQueue for Replay {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let due = self.pacer.due();
        let mut made = 0;
        while burst.room() > 0 && made < due && self.next.get() < self.frames.len() {
            burst.push(self.frames.frame(self.next.get()));
            let next = self.next.get() + 1;
            self.next.set(if self.repeat && next == self.frames.len() { 0 } else { next });
            made += 1;
        }
        self.pacer.made(made);
        !burst.is_empty()
    }

    fn recycle(&self) {}

    fn holds(&self) -> Option<&dyn HoldBursts> {
        Some(&self.frames)
    }

    fn arm(&self) -> Wait {
        if self.next.get() < self.frames.len() { self.pacer.wait() } else { Wait::Event }
    }
}
