//! Traffic applications: sender, receiver, client and server, each its own process, and pairs of them in one process.
//!
//! A sender and its receiver measure throughput and loss; a client and its server measure round trips, as the server returns
//! each packet. Where there are fewer processors than applications, one process can be both ends of one or more pairs, in one
//! thread, so that no end waits for a time slice.
//!
//! # Protocol with the process that starts it
//!
//! An application prints a line on standard error when its ports are open ([`READY`]), and waits for a line on standard
//! input:
//!
//! - [`GO`]: an application that sends (a sender, a client, or pairs) begins; it prints [`MEASURING`] and [`MEASURED`] when the measured
//!   seconds begin and end, and ends by itself.
//! - [`STOP`]: a receiver or a server ends.
//!
//! At its end it prints its [`AppReport`] as one line of JSON on standard output. Programs in other languages that keep to
//! this, and to the form of [`stamp`] packets, can take its place.

mod control;
mod dispatch;
mod end;
mod error;
mod lengths;
pub mod options;
mod payload;
mod receiving;
pub mod report;
mod rounds;
mod sending;
mod sequence;
pub mod stamp;
mod tally;
mod times;

pub use dispatch::run;
pub use error::AppError;
pub use options::{AppOptions, Arrivals, Rate, Role, Size, Touch};
pub use report::{AppReport, FlowReport, Latency, Received, Sent};

/// Line printed when the ports are open.
pub const READY: &str = "ready";
/// Line printed when the measured seconds begin.
pub const MEASURING: &str = "measuring";
/// Line printed when the measured seconds have ended.
pub const MEASURED: &str = "measured";
/// Line that makes senders begin.
pub const GO: &str = "go";
/// Line that ends receivers and servers.
pub const STOP: &str = "stop";
