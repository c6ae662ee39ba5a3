//! Interface of a mapping to the port whose queues fill a guest's buffers.

use super::fabric::{ReceiveHalf, TransmitHalf};
use std::sync::Arc;
use virtqueue::memory::Memory;

/// Control side of a physical port that can receive into buffers of others. Queues go by vhost-user's index: the even
/// one of a pair receives.
pub(super) trait Physical: Send {
    /// Reports whether stopping one queue of a pair also stops the other one.
    fn is_coupled(&self) -> bool {
        false
    }
    /// Reports whether [`Physical::share`] with these memories and addresses needs all queues stopped.
    fn rests_to_share(&self, _memories: &[Arc<Memory>], _macs: Option<&[[u8; 6]]>) -> bool {
        false
    }
    /// Lets the filler of the queues write to `memories`, and to no other memory of guests. With `macs`, only frames to
    /// these addresses and to groups may be written there, and others have to arrive in memory of the switch.
    fn share(&mut self, memories: &[Arc<Memory>], macs: Option<&[[u8; 6]]>) -> Result<(), String>;
    /// Stops a queue whose half has stopped. When this returns, nothing fills or reads its buffers any more; on an
    /// error, the port has to be reopened, which is impossible before.
    fn stop(&mut self, index: usize) -> Result<(), String>;
    /// Has the port reopened, because a worker does not return a queue.
    fn fail(&mut self);
    /// Restarts a stopped receive queue, with buffers of the switch.
    fn start_receive(&mut self, queue: usize) -> Result<ReceiveHalf, String>;
    /// See [`Physical::start_receive`].
    fn start_transmit(&mut self, queue: usize) -> Result<TransmitHalf, String>;
}
