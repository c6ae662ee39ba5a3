//! Receiving.

use crate::reason::number;
use crate::rules::PortRules;
use paflow::Piece;
use paflow::class::{self, Marked};
use paflow::decode::locate;

/// Writes the places of the packets in a frame to `pieces`. Returns their number; zero if the frame is no aggregate for this port;
/// or minus the number of the reason to drop it. Tells as well whether a router has marked it, so that its packets are to be marked.
#[inline]
pub fn split(rules: &PortRules, frame: &[u8], pieces: &mut [Piece]) -> (i32, bool) {
    let found = match rules.rules.find(frame) {
        Ok(None) => return (0, false),
        Ok(Some(found)) => locate(frame, found.range, found.tail, pieces).map(|count| (count as i32, found.congested)),
        Err(reject) => Err(reject),
    };
    found.unwrap_or_else(|reject| (-number(&reject), false))
}

/// Marks a packet as having experienced congestion. Returns zero, or -1 if it is to be dropped.
pub fn mark(packet: &mut [u8]) -> i32 {
    match class::mark(packet) {
        Marked::Passed => 0,
        Marked::Refused => -1,
    }
}
