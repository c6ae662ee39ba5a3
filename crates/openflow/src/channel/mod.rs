//! The [`Switch`] at the other end of the controllers' channels: it handles their requests, answers them, and sends notices. Its state
//! stands in `switch.rs`; each other file adds one kind of message, or a part of a channel's state.

mod answer;
mod bundle;
mod changes;
mod commit;
mod connection;
mod multipart;
mod notices;
mod receive;
mod request;
mod stats;
mod switch;

pub use connection::{BACKLOG, Role};
pub use switch::{Closed, ConnectionId, Event, Identity, PacketIn, PacketInReason, Switch, WantedPackets};
