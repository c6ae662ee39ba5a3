//! Frames that come and go while the device is looked at.

use super::place::Far;
use super::rig::Rig;
use lab::Result;
use lab::cpu::rest;
use lab::guest::{Exchange, Guest, Sizes};
use std::time::{Duration, Instant};

/// Lengths of the frames.
pub const SIZES: Sizes = 60..=1514;

/// Frames on their way in each direction: fewer than a receiver has buffers.
const WINDOW: u64 = 32;

/// Frames that a guest takes at once if it is alone.
const BURST: usize = 32;

/// Time after which streams begin anew if not all directions have had a frame: what was sent while the line was down is lost. Each
/// time it is twice as long, as frames may only be slow.
const ANEW: Duration = Duration::from_millis(300);

/// Guests, and the frames that they send.
pub struct Flow {
    ends: Ends,
    /// The fault of a frame, which ends the flow.
    wrong: Option<String>,
}

enum Ends {
    Wire(Box<Exchange>),
    Looped(Box<Exchange<1>>),
    Alone { near: Box<Guest>, echoes: bool, received: u64 },
}

/// Frames of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames sent, in all directions.
    pub sent: u64,
    /// Frames received with every byte right.
    pub received: u64,
    /// Frames that nobody here has sent.
    pub others: u64,
    /// Frames received in the direction that had fewest.
    pub least: u64,
}

impl Flow {
    /// Prepares streams between guests, with numbers of their own.
    pub fn begin(rig: &mut Rig, near: Guest, far: Option<Guest>) -> Flow {
        let ends = match (far, &rig.place().far) {
            (Some(far), _) => {
                let exchange = Exchange::new([near, far], [rig.number(), rig.number()], SIZES, WINDOW);
                Ends::Wire(Box::new(exchange.among_others()))
            }
            (None, Far::Looped) => {
                Ends::Looped(Box::new(Exchange::new([near], [rig.number()], SIZES, WINDOW).among_others()))
            }
            (None, far) => Ends::Alone { near: Box::new(near), echoes: *far == Far::Echo, received: 0 },
        };
        Flow { ends, wrong: None }
    }

    /// Reports whether the bytes of frames are checked.
    pub fn is_checked(&self) -> bool {
        !matches!(self.ends, Ends::Alone { .. })
    }

    /// Returns what was wrong with a frame.
    pub fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }

    /// Sends and receives, up to `goal` frames in each direction; rests if there is nothing to do.
    pub fn step(&mut self, goal: u64) {
        if self.wrong.is_some() {
            return rest();
        }
        let moved = match &mut self.ends {
            Ends::Wire(exchange) => exchange.step(goal),
            Ends::Looped(exchange) => exchange.step(goal),
            Ends::Alone { near, echoes, received } => take(near, *echoes).map(|taken| {
                *received += taken;
                taken > 0
            }),
        };
        match moved {
            Ok(true) => {}
            Ok(false) => rest(),
            Err(error) => self.wrong = Some(error.to_string()),
        }
    }

    /// Returns its frames so far.
    pub fn tally(&self) -> Tally {
        fn of<const N: usize>(exchange: &Exchange<N>) -> Tally {
            let tally = exchange.tally();
            let least = tally.received.into_iter().min().unwrap_or(0);
            Tally { sent: tally.sent.iter().sum(), received: tally.total(), others: exchange.others(), least }
        }
        match &self.ends {
            Ends::Wire(exchange) => of(exchange),
            Ends::Looped(exchange) => of(exchange),
            Ends::Alone { received, .. } => Tally { others: *received, least: *received, ..Tally::default() },
        }
    }

    /// Goes on until frames have come in each direction. Returns false if they don't.
    pub fn arrives(mut self, rig: &mut Rig, patience: Duration) -> Result<(Flow, bool)> {
        let began = Instant::now();
        let (mut anew, mut wait) = (began, ANEW);
        loop {
            self.step(u64::MAX);
            if self.wrong.is_some() || self.tally().least > 0 {
                return Ok((self, true));
            }
            if began.elapsed() > patience {
                return Ok((self, false));
            }
            if anew.elapsed() > wait {
                rig.interrupt().check()?;
                let (near, far) = self.part();
                self = Flow::begin(rig, near, far);
                (anew, wait) = (Instant::now(), 2 * wait);
            }
        }
    }

    /// Returns the guest at the device, and the one at the other end.
    pub fn part(self) -> (Guest, Option<Guest>) {
        match self.ends {
            Ends::Wire(exchange) => {
                let [near, far] = exchange.into_guests();
                (near, Some(far))
            }
            Ends::Looped(exchange) => {
                let [near] = exchange.into_guests();
                (near, None)
            }
            Ends::Alone { near, .. } => (*near, None),
        }
    }
}

/// Takes frames of others, and sends them back if it `echoes` and there is room. Returns their number.
fn take(near: &mut Guest, echoes: bool) -> Result<u64> {
    let mut frames = Vec::new();
    near.reap()?;
    let taken = near.receive(BURST, |frame| {
        if echoes {
            frames.push(frame.to_vec());
        }
        Ok(())
    })?;
    for frame in &frames {
        near.send(&[frame], 1)?;
    }
    near.flush();
    Ok(taken as u64)
}
