//! Hop-by-hop packet aggregation: several short packets to the same next hop travel as one.
//!
//! This crate is codecs and tables only: no I/O, no clock, and nothing on the path of a packet allocates. The wire
//! format is specified in `docs/aggregation-format.md`.
//!
//! Out: [`table`] says which next hop a packet has, [`plan::Planner`] groups a burst by next hop, [`outer::Template`]
//! writes the headers of a group, and [`encode`] the bytes between its packets. The packets' own bytes are never
//! touched: the data path gathers them.
//!
//! Both ends have addresses that others ask for on the link; [`neighbour`] answers them.
//!
//! Frames that are not aggregated go through a tunnel by [`vxlan`], which has the same headers.
//!
//! In: [`receive::Receiver`] finds the aggregate in a frame, and [`decode`] says where the packets in it are, after it
//! has checked everything.
//!
//! [`rules::Rules`] are what both ways go by.
#![forbid(unsafe_code)]

pub mod checksum;
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
pub mod vxlan;

pub use decode::{Aggregate, Piece};
pub use header::Header;
pub use octets::Octets;
pub use outer::Template;
pub use plan::Planner;
pub use receive::Receiver;
pub use reject::Reject;
pub use rules::Rules;
pub use table::Nfi;
