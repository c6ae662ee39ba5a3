//! Threads hand things over to each other without waiting for a lock. Each thing has a model, which runs through the
//! interleavings that the memory model allows.
//!
//! - [`ordering`]: the words of virtio rings, which a guest shares;
//! - [`Mailbox`]: control threads leave items for a worker;
//! - [`Ring`]: a worker leaves packets for a control thread, within the [`Shares`] of ports; [`EventNotifier`] wakes it;
//! - [`Alarm`]: a parent wakes the worker that sleeps when it publishes a batch;
//! - [`Parking`]: so it does where several workers wait for the next one;
//! - [`Relaying`]: a thread sends signals for others, while they take long;
//! - [`Pair`]: a key and a value that readers find together;
//! - [`Counter`]: a number of one writer.
//!
//! The models need every crate below built with `--cfg loom`. That is why these stand here, below all others, and not
//! where they are used. Run them with `RUSTFLAGS="--cfg loom" cargo test --profile loom -p millrace-handover model`.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod alarm;
mod counter;
mod mailbox;
mod notifier;
pub mod ordering;
mod pair;
mod parking;
mod punt;
mod relaying;
mod ring;
mod shares;
mod sync;

pub use alarm::Alarm;
pub use counter::Counter;
pub use mailbox::Mailbox;
pub use notifier::EventNotifier;
pub use pair::Pair;
pub use parking::{Parking, Spot};
pub use punt::Punt;
pub use relaying::{Relaying, Sender};
pub use ring::Ring;
pub use shares::Shares;
