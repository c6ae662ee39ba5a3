//! Files by identity: which one a path names, who of the switch uses it, and who else has it.

mod identity;
mod open;
mod uses;

pub use identity::Identity;
pub use open::{Purpose, suits};
pub use uses::{FileUse, FileUser, FileUses};
