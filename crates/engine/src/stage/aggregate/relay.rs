//! Flows for the aggregation table that another switch relays: frames with a separate EtherType, to this switch's
//! address, from the network. A control thread decodes them (`openflow::aggregation`).

use crate::octets::Bytes;
use handover::{EventNotifier, Punt, Ring};
use openflow::aggregation::RELAY_ETHERTYPE;
use packet::{Frame, Frames, MacAddr};
use paflow::Octets;
use std::sync::{Arc, OnceLock};

/// Words of each queue's ring: 64 kibibytes.
const RING: usize = 1 << 13;

/// Maximum number of bytes taken from a frame: flows are short.
const LONGEST: usize = 2048;

/// Queues for relayed flows at one port.
pub(crate) struct Relay {
    /// By queue, for queues that have ever been up.
    rings: Box<[OnceLock<Box<Ring>>]>,
    notifier: Arc<EventNotifier>,
}

impl Relay {
    pub(crate) fn new(queues: usize, notifier: Arc<EventNotifier>) -> Relay {
        Relay { rings: (0..queues).map(|_| OnceLock::new()).collect(), notifier }
    }

    /// Creates the ring of a queue if it does not exist.
    pub(crate) fn prepare(&self, queue: usize) {
        self.rings[queue].get_or_init(|| Box::new(Ring::new(RING)));
    }

    /// Reports whether a frame is addressed to `own` and relays flows.
    #[inline(always)]
    pub(super) fn is_meant(own: MacAddr, bytes: &Bytes<'_, '_>) -> bool {
        bytes.read::<14>(0).is_some_and(|head| head[12..] == RELAY_ETHERTYPE.to_be_bytes() && head[..6] == own.0)
    }

    /// Puts a frame that `queue` received into its ring. Returns false if there is no room.
    #[cold]
    pub(super) fn take(&self, queue: usize, frames: &Frames<'_>, frame: &Frame<'_>) -> bool {
        let mut bytes = [0; LONGEST];
        let len = frames.copy_to(frame, &mut bytes);
        let punt = Punt { total: frame.len(), ..Punt::default() };
        let taken = self.rings[queue].get().is_some_and(|ring| ring.push(&punt, &bytes[..len]));
        self.notifier.notify();
        taken
    }

    /// Passes the frames to `read`. Only one thread may call this at a time, after clearing the notifier.
    pub(crate) fn drain(&self, mut read: impl FnMut(&[u8])) {
        let mut bytes = Vec::new();
        for ring in self.rings.iter().filter_map(OnceLock::get) {
            for _ in 0..ring.waiting() {
                if ring.pop(&mut bytes).is_none() {
                    break;
                }
                read(&bytes);
            }
        }
    }

    pub(crate) fn taken(&self) -> u64 {
        self.rings.iter().filter_map(OnceLock::get).map(|ring| ring.pushed.get()).sum()
    }
}
