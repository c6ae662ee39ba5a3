//! How many frames a device is asked for whose frames one guest gets.
//!
//! Each frame leaves room at the device that a buffer has to take. Own buffers take it if the guest has none left: while the guest is
//! slower than the device, most frames would come in own buffers, and be copied, or dropped for lack of a buffer to copy to. So the
//! device is asked for no more frames than there are buffers of the guest. It drops the others for nothing.

use ::dpdk::Out;

/// Buffers that are too few to ask for as many frames: some drivers receive at least four at once.
const FEW: u32 = 8;

/// Rounds for which a device is not asked as the guest has too few buffers.
const PATIENCE: u16 = 1024;

/// A device that is not asked for more frames than buffers can take the place of.
#[derive(Default)]
pub(super) struct Restraint {
    /// Rounds for which the device was not asked.
    rounds: u16,
}

impl Restraint {
    /// Returns how many frames the device is asked for, with these buffers out. A guest whose buffers are all at the device may wait for
    /// frames in these, and gets them after a while.
    #[inline(always)]
    pub(super) fn most(&mut self, out: Out) -> usize {
        let waiting = out.guest - out.guest_at_device;
        self.rounds = if waiting >= FEW || self.rounds == PATIENCE { 0 } else { self.rounds + 1 };
        match (waiting >= FEW, self.rounds) {
            (true, _) => waiting as usize,
            (false, 0) => usize::MAX,
            (false, _) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_asked_for_as_many_frames_as_buffers_wait() {
        let mut restraint = Restraint::default();
        let mut most = |waiting| restraint.most(Out { guest: 128 + waiting, guest_at_device: 128, ..Out::default() });
        assert_eq!([FEW, 100].map(&mut most), [FEW as usize, 100]);
        for _ in 0..2 {
            assert!((0..PATIENCE).all(|_| most(FEW - 1) == 0), "it waits");
            assert_eq!(most(0), usize::MAX, "its buffers may all be at the device");
        }
        assert_eq!(most(0), 0);
        assert_eq!(most(FEW), FEW as usize);
        assert!((0..PATIENCE).all(|_| most(0) == 0), "it waits as long as before");
    }
}
