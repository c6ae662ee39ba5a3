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
    /// Rounds for which the device was not asked.
    rounds: u16,
}

impl Restraint {
    /// Returns how many frames the device is asked for, with these buffers out, of a guest whose ring has room for `size`. The guest is
    /// behind if it has not returned a quarter of its buffers; if not, they are at the device, whose ring may be as long as its own. A
    /// guest that keeps buffers gets frames after a while.
    #[inline(always)]
    pub(super) fn most(&mut self, out: Out, size: u16) -> usize {
        let (waiting, kept) = (out.guest - out.guest_at_device, u32::from(size).saturating_sub(out.guest));
        let is_behind = waiting < FEW && kept >= u32::from(size / 4);
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

    /// Returns buffers that are out: at a device, and waiting for it.
    fn out(guest_at_device: u32, waiting: u32) -> Out {
        Out { guest: guest_at_device + waiting, guest_at_device, ..Out::default() }
    }

    #[test]
    fn a_device_is_asked_for_as_many_frames_as_buffers_wait() {
        let mut restraint = Restraint::default();
        let mut most = |waiting| restraint.most(out(128, waiting), 256);
        assert_eq!([FEW, 100].map(&mut most), [FEW as usize, 100]);
        for _ in 0..2 {
            assert!((0..PATIENCE).all(|_| most(FEW - 1) == 0), "it waits");
            assert_eq!(most(0), usize::MAX, "the guest may keep its buffers");
        }
        assert_eq!(most(0), 0);
        assert_eq!(most(FEW), FEW as usize);
        assert!((0..PATIENCE).all(|_| most(0) == 0), "it waits as long as before");
    }

    #[test]
    fn a_device_that_has_nearly_all_buffers_is_asked_in_each_round() {
        let mut restraint = Restraint::default();
        let mut most = |at_device| restraint.most(out(at_device, 0), 256);
        assert!((193..=256).all(|at_device| most(at_device) == usize::MAX));
        assert_eq!(most(192), 0, "so many will come back");
    }
}
