//! A limit on descriptors received from peers, so that some are left for everyone else.

use rustix::fd::{AsFd, AsRawFd};
use rustix::process::{Resource, getrlimit};

/// Error: too many descriptors are open.
#[derive(Debug, thiserror::Error)]
#[error(
    "too many descriptors are open: this one would be number {number}, and a quarter of the {limit} that the process may have \
     is not given to peers; raise the hard limit (LimitNOFILE= of systemd, ulimit -n), or share memory in fewer regions"
)]
pub(crate) struct Exhausted {
    number: u64,
    limit: u64,
}

/// Reports whether a descriptor received from a peer may be kept. The kernel assigns the lowest free number, so a high
/// number means that many are open.
pub(crate) fn spare(fd: impl AsFd) -> Result<(), Exhausted> {
    let number = fd.as_fd().as_raw_fd().unsigned_abs().into();
    judge(number, getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
}

fn judge(number: u64, limit: u64) -> Result<(), Exhausted> {
    if number < limit - limit / 4 { Ok(()) } else { Err(Exhausted { number, limit }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_numbers_are_not_for_peers() {
        spare(rustix::pipe::pipe().unwrap().0).unwrap();
        judge(767, 1024).unwrap();
        let refused = judge(768, 1024).unwrap_err().to_string();
        assert!(refused.contains("number 768") && refused.contains("of the 1024"), "{refused}");
    }
}
