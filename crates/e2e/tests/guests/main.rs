//! Real guests, virtual machines and DPDK applications, at ports of the switch; and the harness itself.

mod chain;
mod demo;
mod dpdk;
mod harness;
mod idle;
mod pairs;
mod passt;
mod peers;
mod queues;
mod redis;
mod vm;
