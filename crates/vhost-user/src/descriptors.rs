//! Limits on descriptors, so that some are left for everyone else: the last quarter of those that the process may have is not for
//! peers, so that they cannot keep ports from being opened again, and the last eighth not for ports, but for control and reloads.

use rustix::fd::{AsFd, AsRawFd};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};

/// Error: too many descriptors are open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "too many descriptors are open: {taken} of the {limit} that the process may have are taken, and the rest are not available to {whom}; \
     raise the hard limit (LimitNOFILE= of systemd, ulimit -n), or {instead}"
)]
pub struct Exhausted {
    taken: u64,
    limit: u64,
    whom: &'static str,
    instead: &'static str,
}

/// Reports whether a descriptor received from a peer may be kept. The kernel assigns the lowest free number, so a high
/// number means that many are open.
pub(crate) fn spare(fd: impl AsFd) -> Result<(), Exhausted> {
    let taken = fd.as_fd().as_raw_fd().unsigned_abs().into();
    check(taken, limit(), 4, ("peers", "share memory in fewer regions"))
}

/// Reports whether descriptors are left for a port.
pub fn spare_for_port() -> Result<(), Exhausted> {
    // The next number, as the kernel assigns the lowest free one.
    let taken = fcntl_dupfd_cloexec(std::io::stderr(), 0).map_or(u64::MAX, |fd| fd.as_raw_fd().unsigned_abs().into());
    let limit = limit();
    check(taken.min(limit), limit, 8, ("ports", "configure fewer ports"))
}

fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Checks that more than one in so `many` are left of the limit.
fn check(taken: u64, limit: u64, many: u64, (whom, instead): (&'static str, &'static str)) -> Result<(), Exhausted> {
    if taken < limit - limit / many { Ok(()) } else { Err(Exhausted { taken, limit, whom, instead }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_numbers_are_not_for_peers_and_ports() {
        spare(rustix::pipe::pipe().unwrap().0).unwrap();
        spare_for_port().unwrap();
        let words = ("peers", "share less");
        check(767, 1024, 4, words).unwrap();
        check(895, 1024, 8, words).unwrap();
        check(896, 1024, 8, words).unwrap_err();
        check(u64::MAX / 2, u64::MAX, 4, words).unwrap();
        let refused = check(768, 1024, 4, words).unwrap_err().to_string();
        assert!(refused.contains("768 of the 1024") && refused.contains("not available to peers"), "{refused}");
    }
}
