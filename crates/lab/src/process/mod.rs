//! Child processes: started, watched, measured and ended by process id.

mod daemon;
mod halt;
mod interrupt;
mod launch;
mod line;
mod log;
mod processors;
mod usage;

pub use daemon::Daemon;
pub use halt::Halt;
pub use interrupt::Interrupt;
pub use launch::Launch;
pub(crate) use line::line;
pub use log::Log;
pub use processors::{KernelThread, cpu_time, kernel_threads, softirqs};
pub use usage::Usage;
pub(crate) use usage::{descendants, program};
