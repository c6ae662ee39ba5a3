//! Descriptors that peers send: not so many that none are left for anybody else.

use rustix::fd::{AsFd, AsRawFd};
use rustix::process::{Resource, getrlimit};

/// There are too many.
#[derive(Debug, thiserror::Error)]
#[error(
    "too many descriptors are open: this one would be number {number}, and a quarter of the {limit} that the process may have \
     is not given to peers; raise the hard limit (LimitNOFILE= of systemd, ulimit -n), or share memory in fewer regions"
)]
pub(crate) struct Exhausted {
    number: u64,
    limit: u64,
}

/// Whether a descriptor that a peer sent may be kept. The kernel gives away the lowest number that is free, so a high one
/// says how many are open.
pub(crate) fn spare(fd: impl AsFd) -> Result<(), Exhausted> {
    let number = fd.as_fd().as_raw_fd().unsigned_abs().into();
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if number < limit - limit / 4 { Ok(()) } else { Err(Exhausted { number, limit }) }
}
