//! Decapsulation: a frame becomes a shorter borrow of the same bytes.

use crate::drops::{Drops, Reason};
use crate::octets::Bytes;
use paflow::vxlan::{End, Stray};
use virtqueue::Burst;

/// Leaves of each frame what is inside, and drops what is not of the tunnel.
#[inline(never)]
pub(crate) fn decapsulate(end: &End, burst: &mut Burst<'_, '_>, drops: &Drops) {
    // All at once: waiting for one after the other would cost more than everything else here.
    burst.frames().as_slice().iter().for_each(|frame| frame.first().prefetch());
    burst.trim(|frames, frame| match end.inside(&Bytes::new(frames, frame)) {
        Ok(inside) => Some(inside),
        Err(stray) => {
            drops.add(reason(stray), 1);
            None
        }
    });
}

#[cold]
fn reason(stray: Stray) -> Reason {
    match stray {
        Stray::Foreign => Reason::NotTunnel,
        Stray::OtherVni(_) => Reason::OtherVni,
        Stray::Wrong(reject) => reject.into(),
    }
}
