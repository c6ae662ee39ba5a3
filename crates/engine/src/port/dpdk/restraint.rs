//! How many frames a device is asked for whose frames one guest gets.
//!
//! Each frame leaves room at the device that a buffer has to take. Own buffers take it if the guest has none left: while the guest is
//! slower than the device, most frames would come in own buffers, and be copied, or dropped for lack of a buffer to copy to. So the
//! device is asked for no more frames than there are buffers of the guest. It drops the others for nothing.

use ::dpdk::Out;

/// Buffers that are too few to ask for as many frames: some drivers receive at least four at once.
const FEW: u32 = 8;

/// Rounds for which a device is not asked while the guest is behind.
const PATIENCE: u16 = 1024;

/// A device that is not asked for more frames than buffers can take the place of.
#[derive(Default)]
pub(super) struct Restraint {
    /// Frames that the guest has got in its buffers, less the buffers that it has posted since.
    kept: u32,
    /// Rounds for which the device was not asked.
    rounds: u16,
}

impl Restraint {
    /// Notes that the guest got this number of frames in its buffers.
    #[inline(always)]
    pub(super) fn delivered(&mut self, frames: u16) {
        self.kept += u32::from(frames);
    }

    /// Notes that the guest posted this number of buffers.
    #[inline(always)]
    pub(super) fn posted(&mut self, buffers: u16) {
        self.kept = self.kept.saturating_sub(buffers.into());
    }

    /// Returns how many frames the device is asked for, with these buffers out, of a guest whose ring has room for `size`. The guest is
    /// behind if it keeps a quarter of them. If not, its buffers are at the device, whose ring may be as long as its own, or it has few. A
    /// guest that goes on keeping them gets frames after a while.
    #[inline(always)]
    pub(super) fn most(&mut self, out: Out, size: u16) -> usize {
        let waiting = out.guest - out.guest_at_device;
        let is_behind = waiting < FEW && self.kept >= u32::from(size / 4).max(FEW);
        self.rounds = if is_behind && self.rounds < PATIENCE { self.rounds + 1 } else { 0 };
        match (waiting < FEW, self.rounds) {
            (false, _) => waiting as usize,
            (true, 0) => usize::MAX,
            (true, _) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks with buffers that wait while others are at the device.
    fn most(restraint: &mut Restraint, waiting: u32) -> usize {
        restraint.most(Out { guest: 128 + waiting, guest_at_device: 128, ..Out::default() }, 256)
    }

    #[test]
    fn a_device_is_asked_for_as_many_frames_as_buffers_wait() {
        let mut restraint = Restraint::default();
        restraint.delivered(64);
        assert_eq!([FEW, 100].map(|waiting| most(&mut restraint, waiting)), [FEW as usize, 100]);
        for _ in 0..2 {
            assert!((0..PATIENCE).all(|_| most(&mut restraint, FEW - 1) == 0), "it waits");
            assert_eq!(most(&mut restraint, 0), usize::MAX, "the guest may keep its buffers");
        }
        assert_eq!(most(&mut restraint, 0), 0);
        assert_eq!(most(&mut restraint, FEW), FEW as usize);
        assert!((0..PATIENCE).all(|_| most(&mut restraint, 0) == 0), "it waits as long as before");
    }

    #[test]
    fn a_device_whose_guest_is_not_behind_is_asked_in_each_round() {
        let mut restraint = Restraint::default();
        restraint.posted(256);
        for _ in 0..1000 {
            restraint.delivered(63);
            assert_eq!(most(&mut restraint, 0), usize::MAX);
            restraint.posted(63);
        }
        restraint.delivered(64);
        assert_eq!(most(&mut restraint, 0), 0, "a quarter has not come back");
        restraint.posted(1);
        assert_eq!(most(&mut restraint, 0), usize::MAX);
    }
}
