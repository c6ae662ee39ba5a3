//! Hop-by-hop packet aggregation: several short packets to the same next hop travel as one.
//!
//! This crate is codecs and tables only: no I/O, no clock, and nothing on the path of a packet allocates. The wire format is
//! specified in `docs/aggregation-format.md`.
//!
//! Sending: [`table`] maps a packet to its next hop, [`plan::Planner`] groups a burst by next hop, [`outer::Template`] writes
//! the headers of a group, and [`encode`] writes the bytes between its packets. The packets themselves are never copied or
//! changed: the data path gathers them.
//!
//! [`neighbour`] answers ARP requests and neighbour solicitations for the addresses of either end.
//!
//! [`class`] handles the traffic class of packets and of the headers around them, [`too_long`] packets that do not fit.
//!
//! [`vxlan`] tunnels frames without aggregation, with the same outer headers.
//!
//! Receiving: [`receive::Receiver`] finds the aggregate in a frame; [`decode`] validates all of it, then locates its packets.
//!
//! [`rules::AggregationRules`] configures both directions.
#![forbid(unsafe_code)]

pub mod class;
mod datagram;
pub mod decode;
pub mod encode;
pub mod header;
pub mod neighbour;
pub mod octets;
pub mod outer;
pub mod plan;
pub mod receive;
pub mod reject;
pub mod rules;
pub mod table;
pub mod too_long;
pub mod vxlan;

pub use decode::{Aggregate, Piece};
pub use header::Header;
pub use octets::Octets;
pub use outer::Template;
pub use plan::Planner;
pub use receive::Receiver;
pub use reject::Reject;
pub use rules::AggregationRules;
pub use table::Nfi;
