//! A burst of frames on its way from the parent to a worker, and back.

use crate::port::zero_copy::Mix;
use packet::{Frames, LeasedFrames, MAX_BURST, MappedMemory};
use std::sync::Arc;
use virtqueue::device::Aside;

/// A burst of received frames, and what became of them.
pub(crate) struct Batch {
    /// The frames, as they were received.
    pub(super) frames: LeasedFrames,
    /// Ids of the queue's own buffers that they lie in, and the mapped guest's.
    pub(super) held: Vec<u16>,
    pub(super) aside: Aside,
    /// Frames that the worker left to the parent to send, by output of the lane.
    pub(super) handed: Box<[LeasedFrames]>,
    /// Numbers of frames that stayed whole and that were taken apart, if a stage does that.
    pub(super) mix: Option<Mix>,
    /// Maximum number of frames that the worker wants in its next batches.
    pub(super) at_once: usize,
}

impl Batch {
    /// Returns an empty batch, for frames that lie in `memories` and go to this number of `outputs`.
    pub(super) fn new(memories: &Arc<[Arc<dyn MappedMemory>]>, outputs: usize) -> Batch {
        let frames = || LeasedFrames::new(memories.clone());
        Batch {
            frames: frames(),
            // More than a burst has only if frames are in several buffers.
            held: Vec::with_capacity(MAX_BURST),
            aside: Aside::default(),
            handed: (0..outputs).map(|_| frames()).collect(),
            mix: None,
            at_once: MAX_BURST,
        }
    }

    /// Passes the frames that the worker handed over to `send`, each with the index of the lane's output.
    #[inline]
    pub(super) fn send(&self, send: &mut dyn FnMut(usize, Frames<'_>)) {
        for (output, handed) in self.handed.iter().enumerate() {
            handed.groups().for_each(|frames| send(output, frames));
        }
    }

    /// Returns the number of frames that the worker handed over.
    pub(super) fn handed(&self) -> usize {
        self.handed.iter().map(LeasedFrames::len).sum()
    }

    /// Empties the batch. Buffers of a guest that are still aside are lost to it: it has lost its device.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.held.clear();
        self.handed.iter_mut().for_each(LeasedFrames::clear);
        self.mix = None;
        if !self.aside.is_empty() {
            self.aside = Aside::default();
        }
    }
}
