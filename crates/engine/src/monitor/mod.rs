//! The state of a worker as others see it: the worker writes it, and anyone reads it.

mod counters;
mod place;

pub(crate) use counters::WorkerCounters;
pub(crate) use place::{Activity, CurrentPlace, Place};
