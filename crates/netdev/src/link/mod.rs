//! Network interfaces over rtnetlink (rtnetlink(7)): their state, settings that a port needs, and notifications of
//! changes.

mod interface;
mod links;
mod message;
mod monitor;
mod name;
mod socket;

pub use interface::Link;
pub use links::Links;
pub use monitor::{Event, Monitor};
pub(crate) use name::check_name;
