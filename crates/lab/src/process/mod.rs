//! Child processes: started, watched, measured and ended by process id.

mod daemon;
mod interrupt;
mod launch;
mod log;
mod usage;

pub use daemon::Daemon;
pub use interrupt::Interrupt;
pub use launch::Launch;
pub use log::Log;
pub use usage::Usage;
pub(crate) use usage::{descendants, program};
