//! Rings, split and packed, between a driver and a device over one arena: the work of each side, and the harm that a guest may try to do.
//!
//! Miri leaves out tests with memory that two mappings share, which it has not.

mod any_order;
mod aside;
mod budget;
mod dirty_log;
#[cfg(not(miri))]
mod exchange;
mod hold;
mod hostile;
mod lend;
mod offload;
#[cfg(not(miri))]
mod pages;
mod rogue;
mod splice;
mod support;
#[cfg(not(miri))]
mod translate;
