//! The position of an aggregate's packets.

use paflow::decode::Piece;
use paflow::header::LENGTH_LEN;

/// The position of the packets of a checked aggregate in one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    /// Offset of the length field of the first packet.
    pub(crate) at: usize,
    /// Number of packets.
    pub(crate) number: u16,
}

impl Inside {
    #[inline]
    pub(crate) fn of(pieces: &[Piece]) -> Inside {
        let at = pieces.first().map_or(0, |piece| piece.start as usize - LENGTH_LEN);
        Inside { at, number: pieces.len() as u16 }
    }
}
