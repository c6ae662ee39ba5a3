//! Answers to ARP and neighbour discovery, for the switch's own addresses at ports that aggregate or end a tunnel.
//! paflow (`neighbour`) recognises the requests.

use crate::answers::Answers;
use crate::drops::Reason;
use crate::octets::Bytes;
use paflow::neighbour::Station;

/// Words in each queue's ring: about thirty answers.
pub(crate) const RING: usize = 1 << 9;

impl Answers {
    /// Answers a frame received by `queue` if it asks for `station`. Returns `None` if it does not, and an error if there is no room.
    #[cold]
    pub(crate) fn answer(&self, station: &Station, queue: usize, frame: &Bytes<'_, '_>) -> Option<Result<(), Reason>> {
        let answer = station.answer(frame)?;
        Some(if self.leave(queue, &answer) { Ok(()) } else { Err(Reason::NeighbourFlood) })
    }
}
