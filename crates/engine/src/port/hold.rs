//! Frames that are in use when their queue has received more: other workers process them.

use packet::{FrameBlock, MappedMemory};
use std::sync::Arc;

/// A receive half whose frames may be in use when it has received more.
///
/// Between [`super::RxQueue::receive`] and [`super::RxQueue::recycle`], its worker leases the frames
/// ([`packet::LeasedFrames`]) and holds their buffers. When they are processed it gives the buffers back, in any order of
/// bursts, and recycles, also if it has received nothing since. Frames that lie in no buffer that can be held, such as those
/// of another source, are copied when they are leased, as they lie outside the memories.
///
/// Buffers of a mapped guest are not among those held: they are set aside ([`super::zero_copy::GuestBuffers::set_aside`]).
///
/// All buffers have to be given back before the half leaves its worker: its successor may fill them again. Frames that are
/// leased then still lie in mapped memory, but may have other bytes.
pub trait HoldBursts {
    /// Returns the memories that its frames lie in, that of the guest included whose buffers it fills now. They are others only if
    /// the half leaves its worker and comes again.
    fn memories(&self) -> Vec<Arc<dyn MappedMemory>>;

    /// Returns the number of buffers of the queue; [`usize::MAX`] if it needs none. If all are held, nothing is received.
    fn buffers(&self) -> usize;

    /// Holds the buffers of the present burst: [`super::RxQueue::recycle`] does not return them. Appends their ids to `held`, which
    /// needs room for as many as a burst has buffers.
    fn hold(&self, held: &mut Vec<u16>);

    /// Gives held buffers back: the next [`super::RxQueue::recycle`] returns them to the device.
    fn give_back(&self, held: &[u16]);
}

/// Frames that never change need no buffers.
impl HoldBursts for Arc<FrameBlock> {
    fn memories(&self) -> Vec<Arc<dyn MappedMemory>> {
        vec![self.clone()]
    }

    fn buffers(&self) -> usize {
        usize::MAX
    }

    fn hold(&self, _: &mut Vec<u16>) {}

    fn give_back(&self, _: &[u16]) {}
}
