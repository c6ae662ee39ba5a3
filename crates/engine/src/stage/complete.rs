//! Completion: work that senders left to others is done here, for a receiver that can't do it.
//!
//! A call costs in proportion to the bytes of the burst, which ends at 64 KB or with the frame that exceeds them: all are summed, and
//! of the shortest segments ([`packet::offload::MIN_SEGMENT`]) there are 4,100 or so, each with headers of its own, and 130 bursts.

use crate::port::Sent;
use packet::checksum::Sum;
use packet::offload::{Cut, Work};
use packet::segmenter::{MAX_HEADERS, Segmenter};
use packet::{BurstStorage, Cursor, Frame, Frames, MAX_BURST, Origin, Segment, unfinished};
use std::cell::RefCell;
use std::iter::once;

/// Reports whether the receiver does the work of one of these frames.
pub(crate) type Taken<'t> = dyn Fn(&Frames<'_>, &Frame<'_>) -> bool + 't;

/// Completes frames for one output. One worker at a time drives it.
#[derive(Default)]
pub(crate) struct Completer(RefCell<Box<Room>>);

/// Room for a burst.
struct Room {
    storage: BurstStorage,
    /// For each frame, the bytes in place of others: a checksum, or headers.
    parts: [[u8; MAX_HEADERS]; MAX_BURST],
}

impl Default for Room {
    fn default() -> Self {
        Room { storage: BurstStorage::default(), parts: [[0; MAX_HEADERS]; MAX_BURST] }
    }
}

impl Completer {
    /// Passes frames to `send`, in order, so that a receiver needs to do the work of those alone that are `taken` with it. Returns what
    /// became of these frames: a message that was cut counts as one, and as sent if all of its segments were.
    pub(crate) fn complete(
        &self,
        frames: Frames<'_>,
        taken: &Taken<'_>,
        mut send: impl FnMut(Frames<'_>) -> Sent,
    ) -> Sent {
        let send: &mut dyn FnMut(Frames<'_>) -> Sent = &mut send;
        let mut room = self.0.borrow_mut();
        let mut sent = Sent::default();
        let mut left = frames.as_slice();
        while !left.is_empty() {
            // Frames that stay one go together; the segments of a message have bursts of their own, and so a count.
            let must_be_cut =
                |frame: &Frame<'_>| matches!(frame.offload().work(), Work::Cut(_)) && !taken(&frames, frame);
            let whole = left.iter().position(must_be_cut).unwrap_or(left.len());
            let (together, rest) = left.split_at(whole);
            if !together.is_empty() {
                sent = sent.and(room.finish(frames.select(together), taken, send));
            }
            left = rest;
            if let Some((frame, rest)) = rest.split_first()
                && let Work::Cut(cut) = frame.offload().work()
            {
                sent = sent.and(room.cut(frames, frame, cut, send));
                left = rest;
            }
        }
        sent
    }
}

impl Room {
    /// Finishes checksums, but for those that the receiver finishes.
    fn finish(&mut self, frames: Frames<'_>, taken: &Taken<'_>, send: &mut dyn FnMut(Frames<'_>) -> Sent) -> Sent {
        let mut burst = self.storage.start();
        let (mut too_long, mut bad_offload, mut completed, mut passed_on) = (0, 0, 0, 0);
        for (frame, part) in frames.as_slice().iter().zip(&mut self.parts) {
            let added = match frame.offload().work() {
                Work::Checksum { start, offset } if !taken(&frames, frame) => {
                    let segments = frames.segments(frame);
                    let Some(patch) = unfinished::as_asked(segments.clone(), start.into(), offset.into()) else {
                        bad_offload += 1;
                        continue;
                    };
                    completed += 1;
                    let field = patch.bytes();
                    part[..field.len()].copy_from_slice(field);
                    let mut at = Cursor::new(segments);
                    let before = at.take(patch.at);
                    at.skip(field.len() as u32);
                    let field = Segment::from(&part[..field.len()]);
                    burst.push_segments(before.chain(once(field)).chain(at.take(u32::MAX)))
                }
                work => {
                    passed_on += u32::from(work != Work::Nothing);
                    burst.push_frame(&frames, frame)
                }
            };
            too_long += u32::from(!added);
        }
        let sent = if burst.is_empty() { Sent::default() } else { send(burst.frames()) };
        frames.keep_places(burst.kept());
        Sent {
            too_long: sent.too_long + too_long,
            bad_offload: sent.bad_offload + bad_offload,
            completed: completed.min(sent.frames),
            passed_on: passed_on.min(sent.frames),
            ..sent
        }
    }

    /// Cuts a message.
    fn cut(
        &mut self,
        frames: Frames<'_>,
        frame: &Frame<'_>,
        cut: Cut,
        send: &mut dyn FnMut(Frames<'_>) -> Sent,
    ) -> Sent {
        let Ok(segmenter) = Segmenter::new(frames.segments(frame), frame.len(), cut) else {
            return Sent { bad_offload: 1, ..Sent::default() };
        };
        let (mut index, mut sent) = (0, Sent::default());
        while index < segmenter.count() {
            let mut burst = self.storage.start();
            let mut at = Cursor::new(frames.segments(frame));
            at.skip(segmenter.payload(index).start);
            for part in &mut self.parts {
                if index == segmenter.count() || burst.is_full() {
                    break;
                }
                let payload = at.take(segmenter.payload(index).len() as u32);
                let len = segmenter.write(index, sum(payload.clone()), part);
                let segments = once(Segment::from(&part[..len])).chain(payload);
                if !burst.push_segments_from(segments, Origin::OTHER) {
                    if burst.is_empty() {
                        return of_message(segmenter.count(), Sent { too_long: sent.too_long + 1, ..sent });
                    }
                    // Its payload lies in too many pieces for the rest of this burst.
                    break;
                }
                index += 1;
            }
            sent = sent.and(send(burst.frames()));
        }
        of_message(segmenter.count(), sent)
    }
}

fn sum<'a>(pieces: impl Iterator<Item = Segment<'a>>) -> Sum {
    let mut sum = Sum::new();
    pieces.for_each(|piece| piece.add_to(&mut sum));
    sum
}

/// Returns the outcome of a message of which so many segments had this one: it is held if one of them is, or else sent if all were. Of
/// a message that was not, some may have gone.
fn of_message(count: u32, segments: Sent) -> Sent {
    // Frames that a stage held before leave with these.
    let released = (-segments.held).max(0) as u32;
    let outcome = Sent {
        frames: released,
        bytes: segments.bytes,
        held: -(released as i32),
        rest: segments.rest,
        ..Sent::default()
    };
    if segments.held > 0 {
        Sent { held: 1, ..outcome }
    } else if segments.frames == released + count {
        Sent { frames: released + 1, completed: 1, ..outcome }
    } else if segments.too_long > 0 {
        Sent { too_long: 1, ..outcome }
    } else if segments.refused > 0 {
        Sent { refused: 1, ..outcome }
    } else if segments.counted > 0 {
        Sent { counted: 1, ..outcome }
    } else {
        outcome
    }
}

#[cfg(test)]
pub(super) mod tests;
