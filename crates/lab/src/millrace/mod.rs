//! Millrace itself: its configuration, its process, and its answers.
//!
//! - [`config`]: configurations, made of the switch's own types;
//! - [`Start`] starts the program, in a namespace or by a command of the caller's, and waits until it answers;
//! - [`Millrace`] is the running program: its counters, its log, and waits for what is certain to come.

pub mod config;
mod files;
mod port;
mod process;
mod rest;
mod start;
mod wait;

pub use files::Files;
pub use port::Port;
pub use process::Millrace;
pub use start::Start;
pub use wait::SOON;
