//! How many descriptors the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Allows as many as the system does. The limit that processes start with, 1024 mostly, is for programs that use select(2);
/// guests with many memory regions and queues take more.
pub(crate) fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => tracing::debug!(?maximum, "more descriptors may be open"),
        Err(error) => tracing::warn!("no more than {current:?} descriptors may be open: {error}"),
    }
}
