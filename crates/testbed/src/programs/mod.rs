//! Programs used in measurements: Millrace and its peers as processes, and where they run. All of them end with their owner,
//! however it ends.

mod hugepages;
mod interrupt;
mod millrace;
mod namespace;
pub mod ovs;
mod program;
mod ring;
pub mod testpmd;

pub use hugepages::Pages;
pub use interrupt::{Interrupt, Interrupted};
pub use millrace::{Idle, LIMIT, Millrace, MillraceError, beside};
pub use namespace::{Namespace, NamespaceError, cable, command_before};
pub use program::{Program, ProgramError};
pub use ring::Ring;
