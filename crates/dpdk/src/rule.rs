//! Rules that steer frames to queues.

use crate::error::Result;
use crate::sentence::call;
use crate::shared::{Shared, State};
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// A rule in the device, until this is dropped. It goes, too, when the device is stopped or closed: add it again then.
pub struct Rule {
    shared: Arc<Shared>,
    epoch: u64,
    raw: NonNull<c_void>,
}

// SAFETY: DPDK does not bind a rule to a thread; it is used in `drop` only, under the device's lock.
unsafe impl Send for Rule {}
// SAFETY: as above.
unsafe impl Sync for Rule {}

impl Rule {
    /// Has the device steer frames to an address to a queue.
    pub(crate) fn new(shared: &Arc<Shared>, state: &State, mac: [u8; 6], queue: u16) -> Result<Rule> {
        let port = shared.port(state)?;
        let mut raw = ptr::null_mut();
        let _control = shared.dpdk.control();
        // SAFETY: it reads six bytes, and fills `raw` if it succeeds.
        call(|error| unsafe { (shared.dpdk.table().steer)(port, mac.as_ptr(), queue, &mut raw, error) })?;
        let raw = NonNull::new(raw).expect("a rule that was made is not null");
        Ok(Rule { shared: shared.clone(), epoch: state.epoch, raw })
    }
}

impl Drop for Rule {
    fn drop(&mut self) {
        let state = self.shared.state();
        let Some(port) = state.port.filter(|_| state.epoch == self.epoch) else { return };
        let _control = self.shared.dpdk.control();
        // SAFETY: the rule is of this port, and of its present epoch, so that it is still there.
        let _ = call(|error| unsafe { (self.shared.dpdk.table().unsteer)(port, self.raw.as_ptr(), error) });
    }
}
