//! Decapsulation: a frame becomes a shorter borrow of the same bytes.

use crate::answers::Answers;
use crate::drops::{Drops, Reason};
use crate::octets::Bytes;
use crate::stage::ingress::{IngressStage, Next};
use packet::Burst;
use paflow::neighbour::Station;
use paflow::vxlan::{Stray, TunnelEnd};
use std::sync::Arc;

/// Decapsulation of frames received at the end of a tunnel.
pub(crate) struct Decapsulate {
    end: Arc<TunnelEnd>,
    station: Station,
    neighbours: Arc<Answers>,
    drops: Arc<Drops>,
    queue: usize,
}

impl Decapsulate {
    /// Decapsulates frames that queue `queue` receives at the port of this `end`.
    pub(crate) fn new(end: Arc<TunnelEnd>, neighbours: Arc<Answers>, drops: Arc<Drops>, queue: usize) -> Decapsulate {
        Decapsulate { station: end.station(), end, neighbours, drops, queue }
    }

    /// Answers a frame outside the tunnel if it asks for this end's address, or returns the reason to drop it.
    #[cold]
    fn ends(&self, stray: Stray, bytes: &Bytes<'_, '_>) -> Result<(), Reason> {
        let asks = matches!(stray, Stray::Foreign) && self.station.may_be_asked(bytes);
        let answered = asks.then(|| self.neighbours.answer(&self.station, self.queue, bytes)).flatten();
        answered.unwrap_or(Err(reason(stray)))
    }
}

impl IngressStage for Decapsulate {
    /// Trims each frame to the inner one. Drops frames outside the tunnel, unless they ask for the address of this end.
    fn process(&self, burst: &mut Burst<'_, '_>, next: &mut Next<'_>) {
        // All at once: waiting for one line after the other would cost more than everything else here.
        burst.frames().as_slice().iter().for_each(|frame| frame.first().prefetch());
        burst.trim(|frames, frame| {
            let bytes = Bytes::new(frames, frame);
            match self.end.inside(&bytes) {
                Ok(inside) => Some(inside),
                Err(stray) => {
                    if let Err(reason) = self.ends(stray, &bytes) {
                        self.drops.add(reason, 1);
                    }
                    None
                }
            }
        });
        next.pass(burst);
    }
}

fn reason(stray: Stray) -> Reason {
    match stray {
        Stray::Foreign => Reason::NotTunnel,
        Stray::OtherVni(_) => Reason::OtherVni,
        Stray::Wrong(reject) => reject.into(),
    }
}
