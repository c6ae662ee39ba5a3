//! The transmit half of a queue.

use crate::abi::{RawSizes, RawTransmit};
use crate::frame::{ToSend, Work};
use crate::half::Half;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

/// The part of a transmit half that the device and the worker share.
pub(crate) struct TransmitQueue {
    pub half: Half<RawTransmit>,
    pub sizes: RawSizes,
}

/// Counts of a transmit half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TransmitCounts {
    /// Frames that the device took.
    pub frames: u64,
    /// Frames that were finished without being sent: the device can't take them.
    pub dropped: u64,
}

/// The transmit half of a queue: the device sends frames from where they lie.
///
/// One worker drives it. It takes and returns nothing while a control function uses its device, and takes nothing after that has
/// stopped or closed; it stays valid then.
pub struct Transmit {
    queue: Arc<TransmitQueue>,
    _one_thread: PhantomData<Cell<()>>,
}

impl Transmit {
    pub(crate) fn new(queue: Arc<TransmitQueue>) -> Transmit {
        Transmit { queue, _one_thread: PhantomData }
    }

    /// Returns descriptors of the device's ring, as it was set up.
    pub fn ring(&self) -> usize {
        self.queue.sizes.ring as usize
    }

    /// Returns how many more records the queue has room for. The device's ring may be full before.
    pub fn room(&self) -> usize {
        (self.queue.sizes.capacity as usize).saturating_sub(self.out() as usize)
    }

    /// Sends frames. Returns how many of the records were taken, from the first: frames are taken whole, so that one of more than 1024
    /// pieces never is. The bytes must stay as they are until [`done`](Transmit::done) names the record.
    ///
    /// A frame that the device can't take is finished without being sent, and counted: it is shorter than 17 bytes or longer than the
    /// device allows, has too many pieces, or does not lie in live [`Region`](crate::Region)s.
    #[inline]
    pub fn send(&mut self, frames: &[ToSend]) -> usize {
        let Some(queue) = self.queue.half.running() else { return 0 };
        // SAFETY: the claim gives sole use of a half whose device runs. `frames` has so many records. The plugin checks that each lies
        // in a region that `Device::share` was given, whose memory stays mapped as long as a frame in it is out (`Shared::unshare`).
        unsafe { (queue.table().transmit_send)(queue.raw(), frames.as_ptr(), frames.len() as u32) as usize }
    }

    /// Sends frames as [`send`](Transmit::send) does, of which some leave work to the device: for each that says so
    /// ([`ToSend::and_work`]), the next of `works`. The device may change the headers of these; a frame whose work it can't do is finished
    /// without being sent, and counted. The queue takes none of the frames if it is told of too little work.
    #[inline]
    pub fn send_work(&mut self, frames: &[ToSend], works: &[Work]) -> usize {
        let Some(queue) = self.queue.half.running() else { return 0 };
        if frames.iter().filter(|frame| frame.leaves_work()).count() > works.len() {
            return 0;
        }
        // SAFETY: as in `send`. The plugin reads one of `works` for each frame that leaves work, and there are so many.
        unsafe {
            (queue.table().transmit_send_work)(queue.raw(), frames.as_ptr(), frames.len() as u32, works.as_ptr())
                as usize
        }
    }

    /// Returns the most pieces of a frame that the device cuts ([`Work::segment`]).
    pub fn pieces(&self) -> usize {
        self.queue.sizes.pieces as usize
    }

    /// Puts the ids of finished records into `ids`, the oldest first, each once. Returns their number. Devices finish records lazily,
    /// most of them when more frames are sent: [`clean`](Transmit::clean) asks for it.
    #[inline]
    pub fn done(&mut self, ids: &mut [u32]) -> usize {
        let Some(queue) = self.queue.half.try_claim() else { return 0 };
        // SAFETY: the claim gives sole use of the half, and `ids` has room for so many.
        unsafe { (queue.table().transmit_done)(queue.raw(), ids.as_mut_ptr(), ids.len() as u32) as usize }
    }

    /// Asks the device to finish what it has sent. Returns false if the driver can't, or the device does not run.
    pub fn clean(&mut self) -> bool {
        let Some(queue) = self.queue.half.running() else { return false };
        // SAFETY: the claim gives sole use of a half whose device runs.
        unsafe { (queue.table().transmit_clean)(queue.raw()) }
    }

    /// Returns the number of records that were taken, and that [`done`](Transmit::done) has not named.
    pub fn out(&self) -> u32 {
        out(&self.queue.half)
    }

    /// Returns counts of the queue.
    pub fn counts(&self) -> TransmitCounts {
        counts(&self.queue.half)
    }
}

/// Returns how many records of a half are out.
pub(crate) fn out(half: &Half<RawTransmit>) -> u32 {
    // SAFETY: the half is open; the plugin reads its counters as atomics.
    unsafe { (half.table().transmit_out)(half.peek()) }
}

/// Returns counts of a half.
pub(crate) fn counts(half: &Half<RawTransmit>) -> TransmitCounts {
    // SAFETY: the half is open; the plugin reads its counters as atomics.
    let counts = unsafe { (half.table().transmit_counts)(half.peek()) };
    TransmitCounts { frames: counts.frames, dropped: counts.dropped }
}
