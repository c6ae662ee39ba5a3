//! Sends all frames along a path, a few at a time: the next ones follow once those before have come out, so that nothing is
//! lost on slow machines or full queues.

use super::files::Corpus;
use super::rig::{Counted, Rig};
use super::tally::Tally;
use lab::Result;
use lab::guest::SLOTS;
use packet::MIN_FRAME;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Receive buffers that the frames of a window may take: a quarter of a ring of 256, as those of the window before may not have been
/// posted again.
const BUFFERS: usize = 64;

/// Bytes of a receive buffer, on every hop.
const BUFFER: usize = 2048;

/// Bytes that may be added to a frame on its way: a tunnel's headers, the virtio header.
const HEADERS: usize = 128;

/// Pause between two polls for frames.
const LOOK: Duration = Duration::from_millis(20);

/// Pause between two checks that the switch has taken all frames.
const MOMENT: Duration = Duration::from_micros(100);

/// Time without a frame after which the switches' counters are asked whether others will come.
const QUIET: Duration = Duration::from_millis(200);

/// Windows with losses after which the others are not sent.
const MOST_LOSSES: u32 = 10;

/// Frames on their way along one path.
pub struct Pump<'c> {
    corpus: &'c Corpus,
    /// Time to wait for a frame that must come out.
    patience: Duration,
    /// The first frame that was not sent yet.
    next: usize,
    /// The frames of the present window.
    window: Range<usize>,
    sent: u64,
    received: u64,
}

impl<'c> Pump<'c> {
    /// Creates a pump of all frames. It waits this long for one that must come out.
    pub fn new(corpus: &'c Corpus, patience: Duration) -> Pump<'c> {
        Pump { corpus, patience, next: 0, window: 0..0, sent: 0, received: 0 }
    }

    /// Sends all frames, and takes those that come out. Calls `progress` with the number of frames sent, now and then. Ends
    /// early when too much is lost.
    pub fn run(&mut self, rig: &mut Rig, tally: &mut Tally<'c>, progress: impl Fn(usize)) -> Result<()> {
        let mut losses = 0;
        while self.next < self.corpus.frames.len() && losses < MOST_LOSSES {
            self.send(rig, tally)?;
            self.take(rig, tally)?;
            losses += u32::from(!tally.end());
            progress(self.next);
            rig.check()?;
        }
        Ok(())
    }

    /// Names the frames of the last window, as the end of a message; empty if none was sent.
    pub fn last(&self) -> String {
        let Range { start, end } = self.window;
        match (self.corpus.frames.get(start), end.checked_sub(1).map(|last| &self.corpus.frames[last])) {
            (Some(first), Some(last)) => {
                format!("\nThe last frames sent: {} to {}", self.corpus.origin(first), self.corpus.origin(last))
            }
            _ => String::new(),
        }
    }

    /// Waits until the switches have dropped as many frames as have not come out, by reason. Returns their counters then, or
    /// when nothing more will change.
    pub fn settle(&mut self, rig: &mut Rig, tally: &mut Tally<'c>) -> Result<Counted> {
        let (began, mut open) = (Instant::now(), Instant::now());
        loop {
            self.receive(rig, tally)?;
            let counted = rig.counted()?;
            let dropped = counted.dropped.iter().map(|(reason, count)| (reason.as_str(), *count));
            if !self.knows_all(&counted) {
                open = Instant::now();
            }
            if dropped.eq(tally.dropped()) || open.elapsed() >= QUIET || began.elapsed() >= self.patience {
                return Ok(counted);
            }
            rig.check()?;
            std::thread::sleep(LOOK);
        }
    }

    /// Reports whether all frames that were sent have come out or are counted as dropped.
    fn knows_all(&self, counted: &Counted) -> bool {
        self.received + counted.dropped.values().sum::<u64>() >= self.sent
    }

    /// Sends the frames of a window: all by one guest.
    fn send(&mut self, rig: &mut Rig, tally: &mut Tally<'c>) -> Result<()> {
        let frames = &self.corpus.frames;
        let from = tally.model.side(&frames[self.next].bytes);
        let (first, mut buffers) = (self.next, 0);
        tally.begin(from);
        rig.guest(from).reap()?;
        while let Some(frame) = frames.get(self.next) {
            buffers += (frame.bytes.len() + HEADERS).div_ceil(BUFFER);
            let is_full = self.next - first == SLOTS || buffers > BUFFERS;
            if self.next > first && (is_full || tally.model.side(&frame.bytes) != from) {
                break;
            }
            let bytes = tally.model.put(&frame.bytes);
            let cuts = cuts(self.next, bytes.len());
            tally.send(self.next);
            while !rig.guest(from).send(&[&bytes], cuts)? {
                // The switch has yet to return buffers of an earlier window.
                rig.guest(from).flush();
                rig.guest(from).reap()?;
                rig.check()?;
                std::thread::sleep(MOMENT);
            }
            self.next += 1;
        }
        self.window = first..self.next;
        self.sent += (self.next - first) as u64;
        rig.guest(from).flush();
        Ok(())
    }

    /// Takes frames that come out until the first switch has returned the buffers of all frames, so that it has forwarded or
    /// dropped them, and until all have come out that must, or nothing more comes.
    fn take(&mut self, rig: &mut Rig, tally: &mut Tally<'c>) -> Result<()> {
        let from = tally.from();
        let (mut last, mut asked) = (Instant::now(), Instant::now());
        loop {
            let has_all = rig.guest(from).reap()? == 0;
            if self.receive(rig, tally)? {
                (last, asked) = (Instant::now(), Instant::now());
            }
            if tally.is_complete() {
                if has_all {
                    return Ok(());
                }
                std::thread::sleep(MOMENT);
            } else if rig.guest(1 - from).wait(LOOK)? {
                continue;
            }
            rig.check()?;
            if last.elapsed() >= self.patience {
                return Ok(());
            }
            if asked.elapsed() >= QUIET {
                asked = Instant::now();
                let counted = rig.counted()?;
                if !self.receive(rig, tally)? && self.knows_all(&counted) {
                    return Ok(());
                }
            }
        }
    }

    /// Takes the frames that have come out at either guest. Reports whether there were any.
    fn receive(&mut self, rig: &mut Rig, tally: &mut Tally<'c>) -> Result<bool> {
        let before = self.received;
        for side in [0, 1] {
            let take = |bytes: &[u8]| {
                tally.take(side, bytes);
                Ok(())
            };
            self.received += rig.guest(side).receive(SLOTS, take)? as u64;
        }
        Ok(self.received > before)
    }
}

/// Returns in how many pieces to send a frame: all numbers have their turn, if it is long enough.
fn cuts(number: usize, len: usize) -> usize {
    if len < MIN_FRAME as usize { 1 } else { number % 3 + 1 }
}
