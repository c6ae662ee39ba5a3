//! Choices of a comparison: ways to forward, peers and loads.

use clap::ValueEnum;

/// A way for Millrace to join its two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Forward {
    /// Back to back.
    Patch,
    /// By destination address.
    Bridge,
    /// Back to back, and mapped: the wire's NIC fills the network function's own buffers.
    Map,
    /// By destination address, and mapped.
    BridgeMap,
    /// By OpenFlow: one flow for each direction.
    Openflow,
    /// Back to back, and buffers change hands: the load's functions share them.
    Exchange,
    /// By destination address, and buffers change hands.
    BridgeExchange,
}

impl Forward {
    /// Reports whether it receives into the network function's buffers.
    pub fn is_mapped(self) -> bool {
        matches!(self, Forward::Map | Forward::BridgeMap)
    }

    /// Reports whether functions exchange buffers.
    pub fn exchanges(self) -> bool {
        matches!(self, Forward::Exchange | Forward::BridgeExchange)
    }
}

/// A switch that Millrace is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// DPDK's testpmd, which passes frames on as they are
    Testpmd,
    /// Open vSwitch with DPDK: one thread that forwards, a flow each way
    Ovs,
    /// Another build of Millrace, the program of `--against`
    Millrace,
}

/// The program that sends the frames and takes them back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoadKind {
    /// `testbed load`, which checks every frame
    Testbed,
    /// dpdk-testpmd, which forwards its frames
    Testpmd,
    /// `testbed wire`: a NIC before the switch, which is its driver, and a network function behind it
    Wire,
    /// `testbed echo`: a network function behind the switch, which has DPDK's net_null for a NIC, with frames as fast as it takes
    /// them
    Null,
}
