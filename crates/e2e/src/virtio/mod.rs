//! Guests without a machine: a virtio-net driver in this process, for what real guests cannot do: check every byte of
//! every frame, break the rules at a chosen moment, start and die in milliseconds.
//!
//! [`Guest`] sends and receives frames; [`Source`] makes frames that a [`Sink`] can judge; [`Exchange`] keeps two
//! guests busy with each other, and [`Pump`] does so on a thread of its own; a [`Forwarder`] is a function between two.

mod exchange;
mod forwarder;
mod guest;
mod traffic;

pub use exchange::{Exchange, Pump, Tally};
pub use forwarder::Forwarder;
pub use guest::{Guest, Options};
pub use traffic::{Sink, Sizes, Source};
