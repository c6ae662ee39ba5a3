//! The switch side of OpenFlow 1.3 as a state machine: bytes in, bytes and events out. No I/O and no clock.
//!
//! [`Switch`] holds the tables, the ports and the controllers' channels. [`Rules::lookup`] finds the flow for a
//! packet's [`Key`] in a table; [`Cache`] keeps results, by a [`RawKey`] if there is one, so that most packets cost one hash; [`rewrite::Headers`] applies a flow's
//! actions to a packet's headers. [`aggregation`] lets controllers set the next hops of packet aggregation.
//!
//! Packets begin in table 0, and flows send them on to later tables. There are no queues or buffers.
//! Unsupported requests are refused with the error that the specification defines.
#![forbid(unsafe_code)]

mod action;
pub mod aggregation;
mod answer;
mod bundle;
mod cache;
mod changes;
mod classifier;
mod commit;
mod connection;
mod counters;
mod error;
mod extension_headers;
mod field;
mod flow;
mod flow_mod;
mod group;
mod groups;
mod instruction;
mod key;
mod limits;
mod matching;
mod meter;
mod meters;
mod multipart;
mod notices;
mod offsets;
pub mod ofp;
mod pages;
mod port;
mod program;
mod pseudo_header;
mod raw_key;
mod receive;
mod request;
pub mod rewrite;
mod rules;
mod shared;
mod stats;
mod switch;
mod table;
mod tables;
mod text;
mod time;
mod token_bucket;
mod ttl;
mod undone;
mod wire;

pub use action::{Action, SetKey};
pub use aggregation::ServiceChain;
pub use cache::{Cache, CacheKey};
pub use classifier::{Classifier, Lookup};
pub use connection::{BACKLOG, Role};
pub use counters::{Count, Counters, Lane, Slot, Tally};
pub use error::Error;
pub use field::Field;
pub use flow::{Flow, Removal};
pub use group::{Bucket, Group, GroupKind};
pub use instruction::Instructions;
pub use key::{HEADER_BYTES, Key};
pub use limits::FORWARDING;
pub use matching::Match;
pub use meter::{Band, Excess, Meter};
pub use port::{Port, PortConfig, PortStats};
pub use program::{Program, Step, To};
pub use raw_key::{RAW_BYTES, RawKey};
pub use rules::{FlowId, Rule, Rules};
pub use switch::{Closed, ConnectionId, Event, Identity, PacketIn, PacketInReason, Switch, WantedPackets};
pub use table::FlowTable;
pub use tables::Tables;
pub use time::Millis;
pub use token_bucket::TokenBucket;
pub use undone::Undone;
