//! The switch without its data path: configuration, command line, control socket and metrics.

pub mod cli;
pub mod config;
pub mod confine;
pub mod control;
pub mod ctl;
pub mod daemon;
pub mod decode;
pub mod demo;
mod descriptors;
pub mod log;
pub mod machine;
pub mod manual;
pub mod metrics;
pub mod openflow;
pub mod parts;
pub mod serve;
mod service;
mod signals;
pub mod terminal;
pub mod top;
