//! Records frames as they are on the wire: received frames before any change, and sent frames even if the queue has no room
//! for them. The headers in the file are those that are sent.

use super::taking::Taking;
use super::{egress, ingress};
use crate::drops::Drops;
use crate::port::Sent;
use crate::port::record::Recorder;
use egress::EgressStage;
use ingress::IngressStage;
use packet::{Burst, Frames};
use std::cell::RefCell;
use std::sync::Arc;

/// Recording of a queue, in one direction.
pub(crate) struct Record {
    recorder: Recorder,
    taking: RefCell<Taking>,
}

impl Record {
    /// Records to this file.
    pub(crate) fn new(recorder: Recorder, drops: Arc<Drops>) -> Record {
        Record { recorder, taking: Taking::new(drops).into() }
    }
}

impl IngressStage for Record {
    fn process(&self, burst: &mut Burst<'_, '_>, next: &mut ingress::Next<'_>) {
        let mut taking = self.taking.borrow_mut();
        let mut burst = taking.take(burst.frames());
        self.recorder.write(burst.frames());
        next.pass(&mut burst);
    }

    fn needs_private_frames(&self) -> bool {
        true
    }
}

impl EgressStage for Record {
    fn transmit(&self, frames: Frames<'_>, next: egress::Next<'_>) -> Sent {
        let mut taking = self.taking.borrow_mut();
        let burst = taking.take(frames);
        self.recorder.write(burst.frames());
        let refused = (frames.len() - burst.len()) as u32;
        let sent = next.transmit(burst.frames());
        Sent { counted: sent.counted + refused, ..sent }
    }

    fn is_on_wire(&self) -> bool {
        true
    }

    fn needs_private_frames(&self) -> bool {
        true
    }
}
