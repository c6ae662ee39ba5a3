//! The limit on open descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit to the maximum that the system allows. The usual initial limit, 1024, is meant for programs that use
/// select(2); guests with many memory regions and queues need more.
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
