//! Files by identity: the file that a path names, its user within the switch, and other processes that have it.

mod identity;
mod open;
mod uses;

pub use identity::Identity;
pub use open::{Purpose, suits};
pub use uses::{FileUse, FileUser, FileUses};
