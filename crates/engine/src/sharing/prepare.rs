//! Halves get ready to be shared, and for one worker again.

use crate::port::ReceiveHalf;

/// Prepares a half for bursts that are held, or for none any more.
pub(super) fn prepare(half: &mut ReceiveHalf, is_shared: bool) {
    if let Some(half) = half.life_cycle() {
        half.share(is_shared);
    }
}
