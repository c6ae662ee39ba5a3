//! Workers forward by [`Rules`]: snapshots that find the rule of a flow, with its program, its group and its meter. They count packets
//! in a [`Lane`] each.

mod classifier;
mod counters;
mod group;
mod meter;
mod pages;
mod program;
mod rules;
mod token_bucket;

pub use classifier::{Classifier, Lookup};
pub use counters::{Count, Counters, Lane, Slot, Tally};
pub use group::{Bucket, Group, GroupKind};
pub use meter::{Band, Excess, Meter};
pub use program::{Program, Step, To};
pub use rules::{FlowId, Rule, Rules};
pub use token_bucket::TokenBucket;
