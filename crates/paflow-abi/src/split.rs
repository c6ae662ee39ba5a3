//! Receiving.

use crate::reason::number;
use crate::rules::PortRules;
use paflow::Piece;
use paflow::decode::locate;

/// Writes the places of the packets in a frame to `pieces`. Returns their number; zero if the frame is no aggregate for this port;
/// or minus the number of the reason to drop it.
#[inline]
pub fn split(rules: &PortRules, frame: &[u8], pieces: &mut [Piece]) -> i32 {
    let found = match rules.rules.find(frame) {
        Ok(None) => return 0,
        Ok(Some(found)) => locate(frame, found.range, found.tail, pieces),
        Err(reject) => Err(reject),
    };
    match found {
        Ok(count) => count as i32,
        Err(reject) => -number(&reject),
    }
}
