//! Virtual switches, behind one trait: availability, start and resource usage of each.

mod basicfwd;
mod contract;
mod linux_bridge;
mod ovs;
mod snabb;
mod sockets;
mod sriov;
mod testpmd;
mod vale;
mod vpp;

pub use basicfwd::BasicForwarding;
pub use contract::{PortKind, Running, Setup, SwitchKind, SwitchPort, Unavailable};
pub use linux_bridge::LinuxBridge;
pub use ovs::OpenVswitch;
pub use snabb::Snabb;
pub use sriov::Sriov;
pub use testpmd::Testpmd;
pub use vale::Vale;
pub use vpp::Vpp;

use crate::ovs::Build;

/// Returns all switches.
pub fn all() -> Vec<Box<dyn SwitchKind>> {
    vec![
        Box::new(LinuxBridge),
        Box::new(OpenVswitch(Build::Dpdk)),
        Box::new(OpenVswitch(Build::Sockets)),
        Box::new(Testpmd),
        Box::<BasicForwarding>::default(),
        Box::new(Vpp),
        Box::new(Snabb),
        Box::new(Vale),
        Box::new(Sriov),
    ]
}
