//! Daemons under test: started, watched, measured and ended by process id.

mod daemon;
mod log;
mod usage;

pub use daemon::{Daemon, Launch};
pub use log::Log;
pub use usage::Usage;
pub(crate) use usage::{descendants, program};
