//! Decapsulation: a frame becomes a shorter borrow of the same bytes.

use crate::drops::{Drops, Reason};
use crate::neighbour::Neighbours;
use crate::octets::Bytes;
use paflow::neighbour::Station;
use paflow::vxlan::{End, Stray};
use std::sync::Arc;
use virtqueue::Burst;

/// Receives out of a tunnel.
pub(crate) struct Decapsulate {
    end: Arc<End>,
    station: Station,
    neighbours: Arc<Neighbours>,
    queue: usize,
}

impl Decapsulate {
    /// What is received by this queue of the port at which `end` is.
    pub(crate) fn new(end: Arc<End>, neighbours: Arc<Neighbours>, queue: usize) -> Decapsulate {
        Decapsulate { station: end.station(), end, neighbours, queue }
    }

    /// Leaves of each frame what is inside. Drops what is not of the tunnel, unless it asks for this end of it.
    #[inline(never)]
    pub(crate) fn decapsulate(&self, burst: &mut Burst<'_, '_>, drops: &Drops) {
        // All at once: waiting for one after the other would cost more than everything else here.
        burst.frames().as_slice().iter().for_each(|frame| frame.first().prefetch());
        burst.trim(|frames, frame| {
            let bytes = Bytes::new(frames, frame);
            match self.end.inside(&bytes) {
                Ok(inside) => Some(inside),
                Err(stray) => {
                    if let Err(reason) = self.ends(stray, &bytes) {
                        drops.add(reason, 1);
                    }
                    None
                }
            }
        });
    }

    /// What becomes of a frame that is not of the tunnel.
    #[cold]
    fn ends(&self, stray: Stray, bytes: &Bytes<'_, '_>) -> Result<(), Reason> {
        let asks = matches!(stray, Stray::Foreign) && self.station.may_be_asked(bytes);
        let answered = asks.then(|| self.neighbours.answer(&self.station, self.queue, bytes)).flatten();
        answered.unwrap_or(Err(reason(stray)))
    }
}

fn reason(stray: Stray) -> Reason {
    match stray {
        Stray::Foreign => Reason::NotTunnel,
        Stray::OtherVni(_) => Reason::OtherVni,
        Stray::Wrong(reject) => reject.into(),
    }
}
