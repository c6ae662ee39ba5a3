//! Copies of frames, for ports that generate or record them.

use packet::{Frame, Frames};

pub(crate) fn to_vec(frames: &Frames<'_>, frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = vec![0; frame.len() as usize];
    frames.copy_to(frame, &mut bytes);
    bytes
}
