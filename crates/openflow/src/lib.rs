//! The switch side of OpenFlow 1.3 as a state machine: bytes in, bytes and events out. No I/O and no clock.
//!
//! [`Switch`] holds the tables, the ports and the controllers' channels. [`Rules::lookup`] finds the flow for a
//! packet's [`Key`] in a table; [`Cache`] keeps results, by a [`RawKey`] if there is one, so that most packets cost one hash;
//! [`rewrite::Headers`] applies a flow's actions to a packet's headers. [`aggregation`] lets controllers set the next hops of packet
//! aggregation.
//!
//! Packets begin in table 0, and flows send them on to later tables. There are no queues or buffers.
//! Unsupported requests are refused with the error that the specification defines.
//!
//! Each module uses only those to its right, `limits` and `time`:
//!
//! ```text
//! channel ──► tables ──► forwarding ──┐
//!                        rewrite ─────┴► flows ──► keys ──► wire
//! ```
#![forbid(unsafe_code)]

mod channel;
mod flows;
mod forwarding;
mod keys;
mod limits;
pub mod rewrite;
mod tables;
mod time;
mod wire;

pub use channel::{BACKLOG, Role};
pub use channel::{Closed, ConnectionId, Event, Identity, PacketIn, PacketInReason, Switch, WantedPackets};
pub use flows::{Action, Flow, Instructions, Match, Removal, ServiceChain, SetKey, aggregation};
pub use forwarding::{
    Band, Bucket, Classifier, Count, Counters, Excess, FlowId, Group, GroupKind, Lane, Lookup, Meter,
};
pub use forwarding::{Program, Rule, Rules, Slot, Step, Tally, To, TokenBucket};
pub use keys::{Cache, CacheKey, HEADER_BYTES, Key, RAW_BYTES, RawKey};
pub use limits::FORWARDING;
pub use rewrite::Undone;
pub use tables::{FlowTable, Tables};
pub use time::Millis;
pub use wire::{Error, Field, Port, PortConfig, PortStats, ofp};
