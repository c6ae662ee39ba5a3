//! Encapsulation: headers go before a frame as one more segment. The output gathers both into its buffer, which is the
//! one copy.

use crate::octets::Bytes;
use crate::port::around::AroundTransmit;
use crate::port::{Sent, Transmit};
use packet::{BurstStorage, Frames, MAX_BURST, Segment};
use paflow::outer::Headers;
use paflow::vxlan::TunnelEnd;
use std::cell::RefCell;
use std::sync::Arc;

/// Transmit half at the end of a tunnel.
pub(crate) struct Encapsulate {
    inner: Box<dyn Transmit>,
    end: Arc<TunnelEnd>,
    state: RefCell<State>,
}

/// State kept from burst to burst.
struct State {
    storage: Box<BurstStorage>,
    /// Headers before each frame of a burst.
    headers: Box<[Headers; MAX_BURST]>,
}

impl Encapsulate {
    /// Wraps `inner`.
    pub(crate) fn new(inner: Box<dyn Transmit>, end: Arc<TunnelEnd>) -> Encapsulate {
        let state = State { storage: Box::default(), headers: Box::new([end.headers(); MAX_BURST]) };
        Encapsulate { inner, end, state: RefCell::new(state) }
    }

    /// Returns the outcome with bytes of inner frames only.
    fn unwrapped(&self, sent: Sent) -> Sent {
        Sent { bytes: sent.bytes - u64::from(sent.frames) * u64::from(self.end.overhead()), ..sent }
    }
}

impl AroundTransmit for Encapsulate {
    fn inner(&self) -> &dyn Transmit {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut Box<dyn Transmit> {
        &mut self.inner
    }

    fn transmit_through(&self, frames: Frames<'_>, more: bool) -> Sent {
        let State { storage, headers } = &mut *self.state.borrow_mut();
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
        let too_long = (frames.len() - burst.len()) as u32;
        let sent = self.unwrapped(self.pass(burst.frames(), more));
        Sent { too_long: sent.too_long + too_long, ..sent }
    }

    fn flush_through(&self) -> Sent {
        self.unwrapped(self.inner.flush())
    }

    fn transmit_bare_through(&self, frames: Frames<'_>) -> Sent {
        self.inner.transmit(frames)
    }
}
