//! The share of a guest's buffers that is lent if some frames are taken apart on their way to the guest, as aggregates are.
//!
//! Each packet of such a frame is copied to a buffer of its own, which must be in the guest's ring: a burst of them needs many more
//! buffers than it came in. So as many buffers stay in the ring as one burst held packets lately, and an eighth more; the
//! others are lent. The buffers are counted when the burst before has just gone to the guest, so that there is room for two
//! bursts. If most frames are taken apart, none is lent: that would cost more than the copies it saves.

use super::mapped::KEEP_ALL;
use packet::MAX_BURST;
use std::cell::Cell;

/// Buffers that stay in any case, for the first aggregates among frames that stay whole: as many as a port that splits fills
/// before it gives other queues their turn.
pub(super) const LEAST: u32 = 4 * MAX_BURST as u32;

/// Lends only if more than one frame in this number stays whole. Measured with one in three, a port that lends carries fewer
/// packets than one that does not.
const WORTH: u32 = 2;

/// Bursts after which the shares of frames are nearly forgotten, and after which the greatest burst is.
const MEMORY: u32 = 16;
const LONG_MEMORY: u32 = 64;

/// Numbers of frames of a burst that were taken apart, and that were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Frames that went on as they came.
    pub whole: u32,
    /// Frames that were taken apart.
    pub apart: u32,
    /// Of these, frames in buffers of the guest.
    pub lent: u32,
    /// Packets in all of them.
    pub packets: u32,
}

impl Mix {
    /// Returns the mix of both bursts together.
    pub(crate) fn and(self, other: Mix) -> Mix {
        Mix {
            whole: self.whole + other.whole,
            apart: self.apart + other.apart,
            lent: self.lent + other.lent,
            packets: self.packets + other.packets,
        }
    }
}

/// Sums over the last bursts.
#[derive(Default)]
pub(super) struct Share {
    /// Packets of the greatest burst, which fades with time.
    room: Cell<u32>,
    /// Frames that stayed whole, and all frames, in about [`MEMORY`] bursts.
    whole: Cell<u32>,
    frames: Cell<u32>,
}

impl Share {
    /// Takes a burst into account. Returns the number of buffers to keep in the guest's ring.
    pub(super) fn adapt(&self, mix: Mix) -> u32 {
        // Rises at once, as packets without a buffer are lost, and falls slowly.
        let room = mix.packets.max(faded(self.room.get(), LONG_MEMORY));
        let whole = faded(self.whole.get(), MEMORY) + mix.whole;
        let frames = faded(self.frames.get(), MEMORY) + mix.whole + mix.apart;
        self.room.set(room);
        self.whole.set(whole);
        self.frames.set(frames);
        if whole * WORTH > frames { (room + room / 8).max(LEAST) } else { KEEP_ALL }
    }
}

/// Returns the faded value of a figure a burst later.
fn faded(figure: u32, memory: u32) -> u32 {
    figure - figure.div_ceil(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Mix = Mix { whole: 32, apart: 0, lent: 0, packets: 32 };
    const APART: Mix = Mix { whole: 0, apart: 6, lent: 0, packets: 132 };
    const MIXED: Mix = Mix { whole: 8, apart: 6, lent: 0, packets: 128 };

    fn after(bursts: impl IntoIterator<Item = Mix>) -> u32 {
        let share = Share::default();
        bursts.into_iter().fold(KEEP_ALL, |_, mix| share.adapt(mix))
    }

    #[test]
    fn kept_buffers_follow_the_traffic() {
        assert_eq!(after([WHOLE]), LEAST);
        assert_eq!(after([Mix { whole: 1, packets: 1, ..WHOLE }]), LEAST);
        assert_eq!(after([Mix::default()]), KEEP_ALL, "nothing is known");
        assert_eq!(after([APART; 3]), KEEP_ALL);
        assert_eq!(after([MIXED; 3]), 144);
        // It rises at once, and falls when the cause is gone.
        assert_eq!(after([WHOLE, WHOLE, APART]), 148);
        assert_eq!(after([APART].into_iter().chain([WHOLE; 200])), LEAST);
        assert_eq!(after([WHOLE].into_iter().chain([APART; 200])), KEEP_ALL);
        assert_eq!(after([Mix { packets: 700, ..MIXED }].into_iter().chain([MIXED; 200])), 144);
    }

    /// A burst that is greater than most comes every now and then.
    #[test]
    fn the_greatest_burst_is_remembered() {
        let bursts = [Mix { packets: 256, ..MIXED }].into_iter().chain([MIXED; 5]);
        assert!(after(bursts) >= 256);
    }

    /// No figure overflows, however long the longest bursts come.
    #[test]
    fn endless_greatest_bursts_do_not_overflow() {
        let most = Mix { whole: 1, apart: 31, lent: 31, packets: 31 * 256 };
        assert_eq!(after([most; 10_000]), KEEP_ALL, "one whole frame in 32");
        let most = Mix { whole: 24, apart: 8, lent: 8, packets: 8 * 256 };
        assert_eq!(after([most; 10_000]), 9 * 256);
    }
}
