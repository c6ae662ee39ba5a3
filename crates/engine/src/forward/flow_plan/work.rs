//! Scratch space for a burst whose frames do not all go the same way unchanged.

use super::super::flows::{Path, Walk};
use super::super::learning::Arrival;
use super::super::vlan::part;
use super::received::Received;
use crate::drops::Reason;
use crate::stage::egress::Outgoing;
use handover::{Ring, Shares};
use openflow::Key;
use openflow::rewrite::Headers;
use packet::{BurstStorage, Judged, MAX_BURST, Segment, Selected};

/// Outputs of a frame at most. A flow may send a frame to groups whose buckets send it on, table after table: without a limit one frame
/// takes a worker as long as a controller likes.
const OUTPUTS: u32 = 256;

/// See the module.
pub(super) struct Work {
    pub(super) paths: [Path; MAX_BURST],
    pub(super) walks: [Walk; MAX_BURST],
    /// Headers of frames that are changed.
    pub(super) headers: [Headers; MAX_BURST],
    /// By port of the bridge: frames that go there, a bit each.
    pub(super) masks: Box<[u32]>,
    /// Outputs that each frame may still have.
    outputs: [u32; MAX_BURST],
    storage: BurstStorage,
    selected: Selected,
    /// A packet for controllers.
    pub(super) packet: Vec<u8>,
    /// Shares of the ports in the ring for controllers.
    pub(super) shares: Shares,
}

impl Work {
    pub(super) fn new(ring: &Ring, numbers: &[u32]) -> Work {
        Work {
            paths: Default::default(),
            walks: Default::default(),
            headers: Default::default(),
            masks: vec![0; numbers.len()].into(),
            outputs: [OUTPUTS; MAX_BURST],
            storage: BurstStorage::default(),
            selected: Selected::default(),
            packet: Vec::with_capacity(packet::MAX_FRAME as usize + 64),
            shares: Shares::new(ring, numbers),
        }
    }

    /// Returns the headers of a frame to be changed. They are those judged if they were not `edited` before.
    pub(super) fn edit(&mut self, received: Received<'_>, frame: usize, edited: bool) -> &mut Headers {
        let headers = &mut self.headers[frame];
        if !edited {
            headers.set(received.judged.heads()[frame].bytes(), received.len(frame) as usize, 0);
        }
        headers
    }

    /// Returns the key of a frame as it is now.
    pub(super) fn key(&self, judged: &Judged<'_>, frame: usize, edited: bool, in_port: u32) -> Key {
        let key = match edited {
            true => self.headers[frame].key(in_port),
            false => Key::extract(judged.heads()[frame].bytes(), in_port, 0),
        };
        key.unwrap_or_default()
    }

    /// Lets all frames have as many outputs as a frame may.
    pub(super) fn allow_outputs(&mut self) {
        self.outputs = [OUTPUTS; MAX_BURST];
    }

    /// Takes `count` outputs of a frame. Returns false if it may have none; the last ones may be too many.
    pub(super) fn take_outputs(&mut self, frame: usize, count: usize) -> bool {
        let left = &mut self.outputs[frame];
        let may = *left > 0;
        *left = left.saturating_sub(count as u32);
        may
    }

    /// Returns room for frames that are put together.
    pub(super) fn room(&mut self) -> &mut BurstStorage {
        &mut self.storage
    }

    #[inline(always)]
    pub(super) fn send_to(&mut self, port: usize, bit: u32, arrival: &Arrival<'_, '_>) {
        match self.masks.get_mut(port) {
            Some(mask) => *mask |= bit,
            None => arrival.drops.add(Reason::UnknownPort, 1),
        }
    }

    /// Passes the frames of `mask` to `send`, those of `edited` with their new headers before the bytes that were not copied.
    #[inline(always)]
    pub(super) fn select(
        &mut self,
        judged: &Judged<'_>,
        arrival: &Arrival<'_, '_>,
        mask: u32,
        edited: u32,
        send: impl FnOnce(Outgoing<'_, '_>),
    ) {
        if mask & edited == 0 {
            // Unchanged, so that a frame can still be delivered in place.
            let judged = judged.select(bits(mask).map(|frame| (frame, false)), &mut self.selected);
            return send(Outgoing::Judged(judged, &mut self.storage));
        }
        let mut burst = self.storage.start();
        burst.set_offer_of(&arrival.frames);
        for index in bits(mask) {
            let added = if edited & 1 << index == 0 {
                judged.add_one(index, &mut burst)
            } else {
                let headers = &self.headers[index];
                let rest = part(judged.segments(index), headers.taken() as u32, u32::MAX);
                let frame = &arrival.frames.as_slice()[index];
                burst.push_rebuilt(frame, 0, [Segment::from(headers.bytes())].into_iter().chain(rest))
            };
            if !added {
                // Longer than frames can be, or more segments than a burst holds.
                arrival.drops.add(Reason::TooLong, 1);
            }
        }
        if !burst.is_empty() {
            send(Outgoing::Frames(burst.frames()));
        }
    }
}

/// Returns the positions of the bits of `mask`.
pub(super) fn bits(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(bit)
    })
}
