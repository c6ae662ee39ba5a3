//! The first bytes of a frame, copied once: look-up and rewriting see the same bytes even if the guest changes them.

use openflow::{HEADER_BYTES, RawKey};
use packet::{Frame, Frames};

/// Shortest frame of which a whole block is copied at once.
const BLOCK: usize = HEADER_BYTES / 2;

/// Bytes of a frame that look-ups and changes need.
pub(super) struct Head {
    bytes: [u8; HEADER_BYTES],
    len: usize,
}

impl Default for Head {
    fn default() -> Self {
        Head { bytes: [0; HEADER_BYTES], len: 0 }
    }
}

impl Head {
    /// Copies the head of `frame`.
    #[inline(always)]
    pub(super) fn take(&mut self, frames: &Frames<'_>, frame: &Frame<'_>) {
        let first = frame.first();
        let len = frame.len() as usize;
        self.len = len.min(HEADER_BYTES);
        if let Some(bytes) = first.read::<HEADER_BYTES>() {
            self.bytes = bytes;
        } else if frame.is_contiguous()
            && let Some(block) = first.read::<BLOCK>()
        {
            self.bytes[..BLOCK].copy_from_slice(&block);
            if len > BLOCK
                && let Some(block) = first.split_at((len - BLOCK) as u32).1.read::<BLOCK>()
            {
                // The two blocks may overlap; the second one wins.
                self.bytes[len - BLOCK..len].copy_from_slice(&block);
            }
        } else {
            frames.copy_to(frame, &mut self.bytes);
        }
    }

    /// Returns the key of the frame by its bytes, if it has one.
    #[inline(always)]
    pub(super) fn raw_key(&self, in_port: u32) -> Option<RawKey> {
        RawKey::of(self.bytes.first_chunk().expect("it is longer"), self.len, in_port)
    }

    #[inline(always)]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
