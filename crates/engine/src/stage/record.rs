//! Records frames as they are on the wire: what the port receives before anything changes it, and what it sends even if its
//! queue has no room for it.

use super::{egress, ingress};
use crate::port::Sent;
use crate::port::record::Recorder;
use egress::EgressStage;
use ingress::IngressStage;
use packet::{Burst, Frames};

/// Recording of a queue, in one direction.
pub(crate) struct Record {
    recorder: Recorder,
}

impl Record {
    /// Records to this file.
    pub(crate) fn new(recorder: Recorder) -> Record {
        Record { recorder }
    }
}

impl IngressStage for Record {
    fn process(&self, burst: &mut Burst<'_, '_>, next: &mut ingress::Next<'_>) {
        self.recorder.write(burst.frames());
        next.pass(burst);
    }

    fn needs_private_frames(&self) -> bool {
        true
    }
}

impl EgressStage for Record {
    fn transmit(&self, frames: Frames<'_>, next: egress::Next<'_>) -> Sent {
        self.recorder.write(frames);
        next.transmit(frames)
    }

    fn is_on_wire(&self) -> bool {
        true
    }

    fn needs_private_frames(&self) -> bool {
        true
    }
}
