//! Guests without a machine: a virtio-net driver in this process, for things that real guests cannot do: check every byte of
//! every frame, break the rules at a chosen moment, start and die in milliseconds.
//!
//! [`Guest`] sends and receives frames; [`Source`] makes frames that a [`Sink`] can check; [`Exchange`] makes two guests
//! exchange frames, and [`Pump`] does so on a separate thread; a [`Forwarder`] is a network function between two guests. A
//! [`Crafted`] guest has buffers at chosen addresses, the memory of a [`Plugged`] one comes and goes, and a [`rogue`] writes its rings by
//! hand.

mod crafted;
mod forwarder;
mod plugged;
mod pump;
pub mod rogue;

pub use crafted::{Back, Crafted, Ram, Reset};
pub use forwarder::Forwarder;
pub use lab::guest::{Exchange, Guest, Options, Sink, Sizes, Source, Tally};
pub use plugged::{By, Plugged};
pub use pump::Pump;
