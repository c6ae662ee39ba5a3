//! What a mapping asks of the port whose queues fill a guest's buffers.

use super::fabric::{ReceiveHalf, TransmitHalf};
use std::sync::Arc;
use virtqueue::memory::Memory;

/// The control side of a physical port that can receive into buffers of others. Queues go by vhost-user's index: of a
/// pair, the even one receives.
pub(super) trait Physical: Send {
    /// Stopping one queue of a pair stops the other one, too.
    fn is_coupled(&self) -> bool {
        false
    }
    /// [`Physical::share`] with these memories and addresses needs all queues stopped.
    fn rests_to_share(&self, _memories: &[Arc<Memory>], _macs: Option<&[[u8; 6]]>) -> bool {
        false
    }
    /// Lets whatever fills the queues write to `memories`, and to no other memory of guests. With `macs`, only frames to
    /// these addresses and to groups may be written there, and others have to arrive in memory of the switch.
    fn share(&mut self, memories: &[Arc<Memory>], macs: Option<&[[u8; 6]]>) -> Result<(), String>;
    /// Stops a queue whose half has stopped. Nothing fills or reads its buffers any more when this returns; if that can't
    /// be had, the port is opened anew, which it can't be before.
    fn stop(&mut self, index: usize) -> Result<(), String>;
    /// A worker has a queue and does not give it back: the port is opened anew.
    fn fail(&mut self);
    /// Starts a stopped receive queue again, with buffers of the switch.
    fn start_receive(&mut self, queue: usize) -> Result<ReceiveHalf, String>;
    /// As [`Physical::start_receive`].
    fn start_transmit(&mut self, queue: usize) -> Result<TransmitHalf, String>;
}
