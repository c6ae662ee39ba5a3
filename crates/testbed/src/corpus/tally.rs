//! Compares the frames that come out of a path with those that were sent along it.

use super::fate::{Fate, Side};
use super::files::Corpus;
use super::model::PathModel;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Bytes of a frame that a difference shows.
const SHOWN: usize = 64;

/// Most differences of a path that are kept; all are counted.
const MOST: usize = 100;

/// Kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The frame came out with other bytes.
    Changed,
    /// The frame did not come out.
    Lost,
    /// The frame came out again.
    Repeated,
    /// The frame came out after one that was sent later.
    Overtaken,
    /// The frame came out, but the path should have dropped it.
    NotDropped,
    /// The frame came back to the guest that sent it.
    Returned,
    /// A frame came out that was not sent.
    Unknown,
}

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its kind.
    pub kind: Kind,
    /// Offset of the first byte that differs, if the frame was changed.
    pub at: Option<usize>,
    /// The frame that was sent.
    pub sent: Option<Sent>,
    /// The frame that came out, if it was not sent.
    pub came: Option<Piece>,
}

/// A frame that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sent {
    /// Its file.
    pub file: String,
    /// Its number there, from 1 on.
    pub frame: u64,
    #[serde(flatten)]
    pub piece: Piece,
}

/// A part of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Piece {
    /// Length of the whole frame in bytes.
    pub length: usize,
    /// The bytes from the one that differs on, in hexadecimal digits; from the first one on if none differs.
    pub bytes: String,
}

/// Observed outcome for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was not sent, as too much had been lost before.
    NotSent,
    /// It was sent, and has not come out yet.
    Waiting(Fate),
    /// It came out as it went in.
    Equal,
    /// It was dropped for this reason, which it gives.
    Dropped(&'static str),
    /// It was changed or lost, or came out where it should not.
    Different,
}

/// The state of a comparison: of all frames of a corpus, along one path.
pub struct Tally<'c> {
    corpus: &'c Corpus,
    /// The model of the path.
    pub model: PathModel,
    /// By frame.
    outcomes: Vec<Outcome>,
    /// The frames sent in the present window, and the guest that sent them.
    window: Vec<usize>,
    from: Side,
    /// Frames of the window that must come out and have not.
    missing: usize,
    /// Frames that came out in the window, and were not sent.
    strange: Vec<Vec<u8>>,
    /// The last frame that came out, by lane.
    last: HashMap<u16, usize>,
    differences: Vec<Difference>,
    counts: BTreeMap<Kind, u64>,
}

/// The end of a comparison.
pub struct Tallied {
    /// By frame.
    pub outcomes: Vec<Outcome>,
    /// The first differences.
    pub differences: Vec<Difference>,
    /// The number of differences of each kind.
    pub counts: BTreeMap<Kind, u64>,
}

impl<'c> Tally<'c> {
    /// Begins a comparison along a wire; another path brings its own model.
    pub fn new(corpus: &'c Corpus) -> Tally<'c> {
        Tally {
            corpus,
            model: PathModel::wire(),
            outcomes: vec![Outcome::NotSent; corpus.frames.len()],
            window: Vec::new(),
            from: 0,
            missing: 0,
            strange: Vec::new(),
            last: HashMap::new(),
            differences: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Returns the guest that sends the frames of the present window.
    pub fn from(&self) -> Side {
        self.from
    }

    /// Begins a window of frames that this guest sends.
    pub fn begin(&mut self, from: Side) {
        self.from = from;
    }

    /// Notes that the guest of the window sends a frame next.
    pub fn send(&mut self, frame: usize) {
        let fate = self.model.send(self.from, &self.corpus.frames[frame].bytes);
        self.outcomes[frame] = Outcome::Waiting(fate);
        self.missing += usize::from(fate == Fate::Carried);
        self.window.push(frame);
    }

    /// Takes a frame that came out at a guest.
    pub fn take(&mut self, at: Side, bytes: &[u8]) {
        let taken = self.model.take(bytes);
        let Some(frame) = self.corpus.find(&taken).filter(|&frame| self.outcomes[frame] != Outcome::NotSent) else {
            return self.strange.push(taken.into_owned());
        };
        let outcome = self.outcomes[frame];
        if at == self.from {
            self.note(Kind::Returned, Some(frame), None);
            // It may still come out at the other end.
            self.outcomes[frame] = if outcome == Outcome::Equal { Outcome::Different } else { outcome };
            return;
        }
        let Outcome::Waiting(fate) = outcome else { return self.note(Kind::Repeated, Some(frame), None) };
        self.outcomes[frame] = Outcome::Equal;
        self.missing -= usize::from(fate == Fate::Carried);
        let last = self.last.entry(self.model.lane(bytes)).or_insert(frame);
        let is_overtaken = *last > frame;
        *last = frame.max(*last);
        if is_overtaken {
            self.note(Kind::Overtaken, Some(frame), None);
        }
        if matches!(fate, Fate::Dropped(_)) {
            self.note(Kind::NotDropped, Some(frame), None);
        }
    }

    /// Reports whether all frames of the window have come out that must.
    pub fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// Ends the window: frames that have not come out are lost, or came out changed. Reports whether the window was complete.
    pub fn end(&mut self) -> bool {
        let strange = std::mem::take(&mut self.strange);
        let window = std::mem::take(&mut self.window);
        let is_missing = |frame: &usize| self.outcomes[*frame] == Outcome::Waiting(Fate::Carried);
        let mut missing: Vec<usize> = window.into_iter().filter(is_missing).collect();
        let complete = missing.is_empty();
        for bytes in strange {
            let nearest = missing.iter().enumerate().min_by_key(|(_, frame)| self.distance(**frame, &bytes));
            let place = nearest.map(|(place, _)| place);
            let frame = place.map(|place| missing.remove(place));
            self.note(if frame.is_some() { Kind::Changed } else { Kind::Unknown }, frame, Some(&bytes));
        }
        missing.into_iter().for_each(|frame| self.note(Kind::Lost, Some(frame), None));
        self.missing = 0;
        complete
    }

    /// Returns how many bytes of a frame differ from these.
    fn distance(&self, frame: usize, bytes: &[u8]) -> usize {
        let sent = &self.corpus.frames[frame].bytes;
        sent.iter().zip(bytes).filter(|(a, b)| a != b).count() + sent.len().abs_diff(bytes.len())
    }

    /// Notes a difference of a sent frame, of a received one, or of both.
    fn note(&mut self, kind: Kind, frame: Option<usize>, came: Option<&[u8]>) {
        if let Some(frame) = frame {
            self.outcomes[frame] = Outcome::Different;
        }
        *self.counts.entry(kind).or_default() += 1;
        if self.differences.len() == MOST {
            return;
        }
        let corpus = self.corpus;
        let frame = frame.map(|frame| &corpus.frames[frame]);
        let at = frame.zip(came).map(|(frame, came)| frame.bytes.iter().zip(came).take_while(|(a, b)| a == b).count());
        let piece = |bytes: &[u8]| Piece { length: bytes.len(), bytes: hex(&bytes[at.unwrap_or(0)..]) };
        let sent = frame.map(|frame| Sent {
            file: corpus.files[frame.file].path.clone(),
            frame: frame.number,
            piece: piece(&frame.bytes),
        });
        self.differences.push(Difference { kind, at, sent, came: came.map(piece) });
    }

    /// Returns how many frames that may be dropped have not come out, by the reason that they give.
    pub fn dropped(&self) -> BTreeMap<&'static str, u64> {
        let mut dropped = BTreeMap::new();
        for outcome in &self.outcomes {
            if let Outcome::Waiting(Fate::Dropped(reason) | Fate::Either(reason)) = outcome {
                *dropped.entry(*reason).or_default() += 1;
            }
        }
        dropped
    }

    /// Ends the comparison: frames that may be dropped and have not come out count as dropped.
    pub fn finish(mut self) -> Tallied {
        self.end();
        for outcome in &mut self.outcomes {
            if let Outcome::Waiting(Fate::Dropped(reason) | Fate::Either(reason)) = outcome {
                *outcome = Outcome::Dropped(reason);
            }
        }
        Tallied { outcomes: self.outcomes, differences: self.differences, counts: self.counts }
    }
}

/// Returns the first bytes of a frame in hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect()
}
