//! Encapsulation: headers go before a frame as one more segment. The output gathers both into its buffer, which is the
//! one copy.

use crate::drops::{Drops, Reason};
use crate::octets::Bytes;
use crate::port::Sent;
use crate::stage::egress::{EgressStage, Next};
use packet::{BurstStorage, Frames, MAX_BURST, Segment};
use paflow::outer::Headers;
use paflow::vxlan::TunnelEnd;
use std::cell::RefCell;
use std::sync::Arc;

/// Encapsulation of frames sent by the end of a tunnel.
pub(crate) struct Encapsulate {
    end: Arc<TunnelEnd>,
    drops: Arc<Drops>,
    state: RefCell<EncapsulateState>,
}

/// State kept from burst to burst.
struct EncapsulateState {
    storage: Box<BurstStorage>,
    /// Headers before each frame of a burst.
    headers: Box<[Headers; MAX_BURST]>,
}

impl Encapsulate {
    /// Encapsulates frames that this `end` sends.
    pub(crate) fn new(end: Arc<TunnelEnd>, drops: Arc<Drops>) -> Encapsulate {
        let state = EncapsulateState { storage: Box::default(), headers: Box::new([end.headers(); MAX_BURST]) };
        Encapsulate { end, drops, state: RefCell::new(state) }
    }

    /// Counts frames that do not fit into the tunnel's, or are in too many pieces.
    #[cold]
    fn count_too_long(&self, frames: usize, sent: Sent) -> Sent {
        self.drops.add(Reason::TooLong, frames as u64);
        Sent { counted: sent.counted + frames as u32, ..sent }
    }
}

impl EgressStage for Encapsulate {
    fn transmit(&self, frames: Frames<'_>, next: Next<'_>) -> Sent {
        let EncapsulateState { storage, headers } = &mut *self.state.borrow_mut();
        let fits = |len: u32| len <= self.end.room();
        // All at once: waiting for one line after the other would cost more than everything else here.
        frames.as_slice().iter().for_each(|frame| frame.first().prefetch());
        for (headers, frame) in headers.iter_mut().zip(frames.as_slice()).filter(|(_, frame)| fits(frame.len())) {
            self.end.complete(headers, &Bytes::new(&frames, frame));
        }
        let mut burst = storage.start();
        for (headers, frame) in headers.iter().zip(frames.as_slice()).filter(|(_, frame)| fits(frame.len())) {
            let headers = Segment::from(&headers[..]);
            // Only frames in very many pieces do not fit. Only a malicious guest cuts frames like that.
            let _ = burst.push_segments(std::iter::once(headers).chain(frames.segments(frame)));
        }
        let sent = next.transmit(burst.frames());
        // The port counts the bytes of inner frames.
        let bytes = sent.bytes - u64::from(sent.frames) * u64::from(self.end.overhead());
        let sent = Sent { bytes, ..sent };
        match frames.len() - burst.len() {
            0 => sent,
            too_long => self.count_too_long(too_long, sent),
        }
    }
}
