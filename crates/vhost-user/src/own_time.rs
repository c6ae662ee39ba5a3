//! Processor time of a thread.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

pub(crate) fn own_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}
