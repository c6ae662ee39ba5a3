//! Ports and crews against a vhost-user device in this process, which sends back all frames.

mod aggregation;
mod crew;
mod echo;
mod port;
