//! Settings in TOML files: what is written, with its place, and what is wrong with it.
//!
//! - [`written`]: keys that may be absent, and values that know where they stand;
//! - [`read()`]: from text to what is written, with every key that does not fit reported, not only the first;
//! - [`Judge`] collects [`Problem`]s while values are checked, and [`Report`] shows them with their lines;
//! - [`aggregation`]: the section that switches and network functions have in common.
#![forbid(unsafe_code)]

pub mod aggregation;
mod judge;
mod mac;
mod problem;
mod read;
mod suggest;
pub mod written;

pub use judge::Judge;
pub use mac::Mac;
pub use problem::{Problem, Report, Severity};
pub use read::{Read, Unread, read};
pub use suggest::closest;
