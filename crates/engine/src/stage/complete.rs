//! STUB
use crate::port::Sent;
use packet::Frames;
use packet::offload::Offloads;
#[derive(Default)]
pub(crate) struct Completer;
impl Completer {
    pub(crate) fn complete(
        &self,
        frames: Frames<'_>,
        _can: Offloads,
        mut send: impl FnMut(Frames<'_>) -> Sent,
    ) -> Sent {
        send(frames)
    }
}
