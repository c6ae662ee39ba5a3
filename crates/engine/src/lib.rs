//! Ports, forwarding and workers: the data path of Millrace.
#![forbid(unsafe_code)]

pub mod stats;
