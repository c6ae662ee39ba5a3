//! Ingress: from a port's queue to forwarding.

use super::list::{List, Placed};
use super::stopwatch::{FORWARD, Stopwatch};
use crate::port::zero_copy::{Mix, ZeroCopyRx};
use crate::port::{RxQueue, Wait};
use packet::{Burst, MAX_BURST};
use std::time::Duration;

/// A stage that frames pass before they are forwarded. One worker at a time drives it.
pub(crate) trait IngressStage: Send {
    /// Takes a burst, and passes on what it leaves of it: the same burst with fewer or shorter frames, or bursts of its own.
    /// It counts the frames that it drops. A burst may be empty.
    fn process(&self, burst: &mut Burst<'_, '_>, next: &mut Next<'_>);

    /// Returns how many frames to take in this round at most, or `None` if it is the turn of other queues.
    fn turn(&self) -> Option<usize> {
        Some(MAX_BURST)
    }

    /// Returns the time until it has frames to pass on although none arrives, if it holds any.
    fn due(&self) -> Option<Duration> {
        None
    }

    /// Reports whether it may pass on several bursts for one.
    fn multiplies(&self) -> bool {
        false
    }

    /// Returns what became of the frames of the last burst, if it takes frames apart.
    fn mix(&self) -> Option<Mix> {
        None
    }

    /// Reports whether frames must not lie in the buffers of the guest that they are for.
    fn needs_private_frames(&self) -> bool {
        false
    }
}

/// The stages that frames from one queue pass, as one worker drives them.
pub(crate) struct IngressStages(pub(super) List<dyn IngressStage>);

impl IngressStages {
    /// Returns no stages.
    pub(crate) fn none() -> IngressStages {
        IngressStages(List::new())
    }

    /// Reports whether there are none.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    /// Passes a burst through all stages, and then to `forward`.
    pub(crate) fn process(
        &self,
        burst: &mut Burst<'_, '_>,
        watch: &Stopwatch,
        forward: &mut dyn FnMut(&Burst<'_, '_>),
    ) {
        Next { stages: self.0.as_slice(), watch, forward }.pass(burst);
    }

    /// See [`IngressStage::turn`].
    pub(crate) fn turn(&self) -> Option<usize> {
        self.0.iter().try_fold(MAX_BURST, |frames, stage| Some(frames.min(stage.turn()?)))
    }

    /// Reports whether a stage has frames to pass on although none arrived.
    pub(crate) fn is_due(&self) -> bool {
        self.due() == Some(Duration::ZERO)
    }

    /// See [`IngressStage::due`].
    pub(crate) fn due(&self) -> Option<Duration> {
        self.0.iter().filter_map(|stage| stage.due()).min()
    }

    /// See [`IngressStage::multiplies`].
    pub(crate) fn multiplies(&self) -> bool {
        self.0.iter().any(|stage| stage.multiplies())
    }

    /// See [`IngressStage::mix`].
    pub(crate) fn mix(&self) -> Option<Mix> {
        self.0.iter().find_map(|stage| stage.mix())
    }

    /// See [`IngressStage::needs_private_frames`].
    #[inline(always)]
    pub(crate) fn need_private_frames(&self) -> bool {
        self.0.iter().any(|stage| stage.needs_private_frames())
    }
}

impl FromIterator<Box<dyn IngressStage>> for IngressStages {
    /// Puts stages in any order.
    fn from_iter<I: IntoIterator<Item = Box<dyn IngressStage>>>(stages: I) -> IngressStages {
        IngressStages(stages.into_iter().collect())
    }
}

/// A queue that frames come from: the port's half, and the stages behind it.
pub(crate) struct Ingress {
    pub(crate) half: Box<dyn RxQueue>,
    pub(crate) stages: IngressStages,
}

impl Ingress {
    /// Returns a queue without stages.
    #[cfg(feature = "analysis")]
    pub(crate) fn new(half: Box<dyn RxQueue>) -> Ingress {
        Ingress { half, stages: IngressStages::none() }
    }

    /// Returns the half, if it can receive into a guest's buffers now.
    #[inline(always)]
    pub(crate) fn lends(&self) -> Option<&dyn ZeroCopyRx> {
        if self.stages.need_private_frames() { None } else { self.half.zero_copy() }
    }

    /// See [`RxQueue::arm`].
    pub(crate) fn arm(&self) -> Wait {
        self.half.arm().or_after(self.stages.due())
    }
}

/// The stages behind a stage, and forwarding behind the last.
pub(crate) struct Next<'n> {
    stages: &'n [Placed<dyn IngressStage>],
    watch: &'n Stopwatch,
    forward: &'n mut dyn FnMut(&Burst<'_, '_>),
}

impl Next<'_> {
    /// Returns the worker's stopwatch.
    pub(super) fn watch(&self) -> &Stopwatch {
        self.watch
    }

    /// Passes a burst on.
    pub(crate) fn pass(&mut self, burst: &mut Burst<'_, '_>) {
        match self.stages.split_first() {
            Some((first, stages)) => {
                let before = self.watch.enter(first.slot);
                first.stage.process(burst, &mut Next { stages, watch: self.watch, forward: self.forward });
                self.watch.enter(before);
            }
            None => {
                let before = self.watch.enter(FORWARD);
                (self.forward)(burst);
                self.watch.enter(before);
            }
        }
    }
}
