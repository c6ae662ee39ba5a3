//! A trial: frames of about one length are forwarded directly and copied in turn.

use super::verdict::{TIMES, Timed, Verdict, Way};
use packet::MAX_FRAME;
use std::time::{Duration, Instant};

/// Lengths that part the frames that are tried together: a step lies between two of them. The last one is longer than any frame.
const LENGTHS: [u32; STEPS + 1] = [0, 128, 256, 512, 1024, 2048, 4096, 8192, MAX_FRAME + 1];
pub(super) const STEPS: usize = 8;

/// Time after which a trial is given up: traffic has changed, pauses again and again, or ended.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);
/// Frames or bytes that are timed together; or fewer, if they take long.
const TOGETHER: u32 = 4096;
const TOGETHER_BYTES: u64 = 4 << 20;
const FEW_TOGETHER: u32 = 512;
const LONG: Duration = Duration::from_millis(1);
/// A pause in which functions sent nothing, or had no processor: it does not count.
const PAUSE: Duration = Duration::from_millis(1);

/// A burst of one queue during a trial, or several of them.
#[derive(Clone, Copy)]
pub(super) struct Burst {
    pub(super) frames: u32,
    pub(super) bytes: u64,
    /// Frames that were not copied.
    pub(super) direct: u32,
    /// When the switch began to receive the last one, and when that one's chains were returned.
    pub(super) began: Instant,
    pub(super) ended: Instant,
    /// The switch's time for all of them.
    pub(super) work: Duration,
}

impl Burst {
    /// Returns this burst together with earlier ones.
    pub(super) fn after(self, earlier: Burst) -> Burst {
        Burst {
            frames: self.frames + earlier.frames,
            bytes: self.bytes + earlier.bytes,
            direct: self.direct + earlier.direct,
            work: self.work + earlier.work,
            ..self
        }
    }
}

/// How a trial ends.
#[derive(Clone, Copy)]
pub(super) enum End {
    /// This way is better; the time spent in the other one was wasted.
    Better(Way, Duration),
    /// Frames were of many lengths, few, or hardly ever forwarded directly.
    Nothing,
}

/// Frames of one length, or nearly, that are forwarded directly and copied in turn.
#[derive(Debug)]
pub(super) struct Trial {
    began: Instant,
    step: usize,
    /// Length from which frames are forwarded directly: in either way.
    thresholds: [u32; 2],
    way: Way,
    /// Frames after a change of the way that do not count, and how many are left of them.
    settle: u32,
    unsettled: u32,
    window: Window,
    /// The windows so far, and all that was forwarded in them: in either way.
    compared: [[Timed; 2]; TIMES],
    windows: usize,
    sums: [Window; 2],
}

/// Frames that are timed together, of all queues.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// When it began, and when its last burst ended.
    began: Option<Instant>,
    ended: Option<Instant>,
    frames: u32,
    bytes: u64,
    direct: u32,
    work: Duration,
}

impl Trial {
    /// Begins a trial of the frames of a step, from which the next threshold follows; `found` is the present one.
    pub(super) fn new(began: Instant, step: usize, found: u32, settle: u32) -> Trial {
        Trial {
            began,
            step,
            thresholds: [found.min(LENGTHS[step]), found.max(LENGTHS[step + 1])],
            way: Way::Direct,
            settle,
            unsettled: settle,
            window: Window::default(),
            compared: Default::default(),
            windows: 0,
            sums: Default::default(),
        }
    }

    /// Returns when it began.
    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// Returns its step.
    pub(super) fn step(&self) -> usize {
        self.step
    }

    /// Returns the length in bytes from which frames are forwarded directly just now.
    pub(super) fn now(&self) -> u32 {
        self.threshold(self.way)
    }

    /// Returns the length in bytes from which frames are forwarded directly in this way.
    pub(super) fn threshold(&self, way: Way) -> u32 {
        self.thresholds[way as usize]
    }

    /// Counts a burst. Returns how the trial ends, if it does.
    pub(super) fn add(&mut self, burst: Burst) -> Option<End> {
        if burst.ended.saturating_duration_since(self.began) > PATIENCE {
            return Some(End::Nothing);
        }
        if step_of(burst.frames, burst.bytes) != self.step {
            return None;
        }
        if self.unsettled > 0 {
            self.unsettled = self.unsettled.saturating_sub(burst.frames);
            return None;
        }
        let timed = self.window.add(burst)?;
        let window = std::mem::take(&mut self.window);
        let way = self.way as usize;
        self.compared[self.windows / 2][way] = timed;
        self.sums[way].frames += window.frames;
        self.sums[way].direct += window.direct;
        self.windows += 1;
        self.unsettled = self.settle;
        self.way = if self.way == Way::Direct { Way::Copy } else { Way::Direct };
        if self.windows % 2 == 1 {
            return None;
        }
        let Verdict { better, excess } = Verdict::of(&self.compared[..self.windows / 2])?;
        if !self.differs() {
            return Some(End::Nothing);
        }
        let apart: u64 = self.compared[..self.windows / 2].iter().map(|of| of[better as usize].apart).sum();
        let frames = f64::from(self.settle + self.sums[better as usize].frames / (self.windows as u32 / 2));
        Some(End::Better(better, Duration::from_secs_f64(excess * frames * apart as f64 * 1e-12)))
    }

    /// Reports whether frames were forwarded directly in the one way and copied in the other. They were not if none can be, or
    /// if none has the length on trial, but only the mean of a burst.
    fn differs(&self) -> bool {
        let share = |way: Way| {
            let Window { frames, direct, .. } = self.sums[way as usize];
            f64::from(direct) / f64::from(frames.max(1))
        };
        share(Way::Direct) - share(Way::Copy) > 0.5
    }
}

impl Window {
    /// Adds a burst. Returns the time for a frame if the window ends with it.
    fn add(&mut self, Burst { frames, bytes, direct, began, ended, work }: Burst) -> Option<Timed> {
        let last = self.ended.replace(ended);
        let (Some(first), Some(last)) = (self.began, last) else {
            // The time from here on counts, and the frames that come in it.
            self.began = self.ended;
            return None;
        };
        if began.saturating_duration_since(last) > PAUSE {
            *self = Window::default();
            return None;
        }
        self.frames += frames;
        self.bytes += bytes;
        self.direct += direct;
        self.work += work;
        let all = ended.saturating_duration_since(first);
        let is_long = all > LONG && self.frames >= FEW_TOGETHER;
        if self.frames < TOGETHER && self.bytes < TOGETHER_BYTES && !is_long {
            return None;
        }
        let of_each = |time: Duration| time.as_nanos() as u64 * 1000 / u64::from(self.frames);
        Some(Timed { apart: of_each(all), work: of_each(self.work) })
    }
}

/// Returns the step that the mean length of a burst's frames is in.
pub(super) fn step_of(frames: u32, bytes: u64) -> usize {
    let mean = bytes / u64::from(frames.max(1));
    LENGTHS[1..].iter().position(|length| mean < u64::from(*length)).unwrap_or(STEPS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_does_not_count() {
        let mut window = Window::default();
        let (now, took) = (Instant::now(), Duration::from_nanos(3200));
        let burst = |began| Burst { frames: 32, bytes: 32 * 60, direct: 32, began, ended: began + took, work: took };
        let mut timed = None;
        for at in (0..64).map(|burst| took * burst).chain((0..200).map(|burst| 20 * PAUSE + took * burst)) {
            timed = timed.or(window.add(burst(now + at)));
        }
        assert_eq!(timed.expect("there were enough").apart, 100_000);
    }

    #[test]
    fn each_length_has_a_step() {
        let steps = [60, 127, 128, 1000, 1518, 4096, 9000, u64::from(MAX_FRAME)].map(|len| step_of(32, 32 * len));
        assert_eq!(steps, [0, 0, 1, 3, 4, 6, 7, 7]);
        // Shorter frames that are forwarded directly already, and longer ones that are copied, go on so if that is better.
        let thresholds = [(4, 256), (4, 1024), (4, 8192)]
            .map(|(step, found)| Trial::new(Instant::now(), step, found, 1024).thresholds);
        assert_eq!(thresholds, [[256, 2048], [1024, 2048], [1024, 8192]]);
    }
}
