//! Settings in TOML files, with their places in the file and the problems found.
//!
//! - [`written`]: keys that may be absent, and values that know their place;
//! - [`read_text`] gets the text of a file, [`read()`] reads it and reports every key that does not fit, not only the first;
//! - [`Checker`] collects [`Problem`]s while values are checked, and [`Report`] shows them with their lines;
//! - [`aggregation`]: the section that switches and network functions share.
#![forbid(unsafe_code)]

pub mod aggregation;
mod checker;
mod problem;
mod read;
mod suggest;
mod tagged;
mod text;
pub mod written;

pub use checker::Checker;
pub use problem::{Problem, Report, Severity};
pub use read::{Read, Unread, read, read_tagged};
pub use suggest::{FEW, closest, few};
pub use tagged::{Tagged, Variant};
pub use text::read_text;
