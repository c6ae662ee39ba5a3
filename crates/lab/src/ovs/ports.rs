//! The configuration of Open vSwitch: settings, a bridge, its ports.

use std::path::Path;

use super::limits::{LIMIT, MEGABYTES};
use crate::dpdk::{AnyPort, Lcores, Pages};

/// A port of the switch.
#[derive(Debug, Clone)]
pub enum Port {
    /// A device or a driver of DPDK.
    Dpdk(AnyPort),
    /// An interface of the kernel, by packet sockets: those of DPDK, or its own without DPDK.
    Interface(String),
    /// An interface of the kernel, by sockets of its own also with DPDK.
    Socket(String),
}

/// Forwarding of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarding {
    /// From the first port to the second and back, from the third to the fourth, and so on: by flows.
    Pairs,
    /// To the port where the address was learned: by the action `normal`.
    Learning,
}

/// Returns the settings of DPDK, required before the switch starts: the processor that forwards, and the one for all other
/// threads. The manual says so, too (intro/install/dpdk.rst, "Setup OVS").
pub(super) fn dpdk_settings(lcores: Lcores) -> Vec<String> {
    let dpdk = [&["--no-pci", "--no-telemetry"], Pages::Huge.arguments()].concat().join(" ");
    vec![
        "other_config:dpdk-init=true".to_owned(),
        format!("other_config:dpdk-socket-mem={MEGABYTES}"),
        format!("other_config:dpdk-lcore-mask={}", mask(lcores.others.unwrap_or(lcores.forwarding))),
        format!("other_config:pmd-cpu-mask={}", mask(lcores.forwarding)),
        format!("other_config:dpdk-extra=\"{dpdk}\""),
    ]
}

/// Returns the command for a bridge with these ports, numbered from 1.
pub(super) fn bridge(ports: &[Port], forwarding: Forwarding, with_dpdk: bool) -> Vec<String> {
    let timeout = format!("--timeout={}", LIMIT.as_secs());
    let mut line =
        [&timeout, "add-br", "br0", "--", "set", "Bridge", "br0", "datapath_type=netdev"].map(str::to_owned).to_vec();
    // Without a controller, it learns unless it is told to wait for flows.
    line.push(format!("fail-mode={}", if forwarding == Forwarding::Pairs { "secure" } else { "standalone" }));
    for (index, port) in ports.iter().enumerate() {
        let name = port.name(index, with_dpdk);
        line.extend(["--", "add-port", "br0", &name, "--", "set", "Interface", &name].map(str::to_owned));
        line.push(format!("ofport_request={}", index + 1));
        line.extend(port.settings(index, with_dpdk));
    }
    line
}

/// Returns the flows by which frames go from a port to its partner.
pub(super) fn pairs(ports: usize) -> Vec<String> {
    (0..ports).map(|index| format!("in_port={},actions=output:{}", index + 1, (index ^ 1) + 1)).collect()
}

impl Port {
    /// Returns its name. A vhost-user port's socket has the name of the port, and an interface that it has by its own sockets is named.
    fn name(&self, index: usize, with_dpdk: bool) -> String {
        match self {
            Port::Dpdk(port) if let Some(socket) = port.socket() => {
                socket.file_name().unwrap_or_default().to_string_lossy().into_owned()
            }
            Port::Interface(interface) if !with_dpdk => interface.clone(),
            Port::Socket(interface) => interface.clone(),
            Port::Dpdk(_) | Port::Interface(_) => format!("port{index}"),
        }
    }

    fn settings(&self, index: usize, with_dpdk: bool) -> Vec<String> {
        let dpdk = |device: String| vec!["type=dpdk".to_owned(), format!("options:dpdk-devargs=\"{device}\"")];
        let rings = ["options:n_rxq_desc=256", "options:n_txq_desc=256"].map(str::to_owned);
        match self {
            Port::Dpdk(AnyPort::Driver(port)) => [dpdk(port.device(index, 1)), rings.to_vec()].concat(),
            Port::Dpdk(AnyPort::Switch(port)) if port.client => {
                let path = format!("options:vhost-server-path={}", port.socket.display());
                vec!["type=dpdkvhostuserclient".to_owned(), path]
            }
            Port::Dpdk(AnyPort::Switch(_)) => vec!["type=dpdkvhostuser".to_owned()],
            Port::Dpdk(AnyPort::Alone(driver, arguments)) => {
                [dpdk(format!("{driver}{index},{arguments}")), rings.to_vec()].concat()
            }
            // DPDK's guide on this driver: to send past the interface's queueing discipline costs less.
            Port::Interface(interface) if with_dpdk => {
                dpdk(format!("net_af_packet{index},iface={interface},qdisc_bypass=1"))
            }
            Port::Interface(_) | Port::Socket(_) => Vec::new(),
        }
    }

    /// Returns its socket, if the switch makes one.
    pub(super) fn socket(&self) -> Option<&Path> {
        match self {
            Port::Dpdk(AnyPort::Switch(port)) => (!port.client).then_some(&port.socket),
            _ => None,
        }
    }
}

/// Formats a processor as a mask in hexadecimal digits.
fn mask(cpu: usize) -> String {
    format!("{:#x}{}", 1 << (cpu % 4), "0".repeat(cpu / 4))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dpdk::VhostPort;

    #[test]
    fn processors_are_masks() {
        assert_eq!(
            [0, 1, 3, 4, 63, 130].map(mask),
            ["0x1", "0x2", "0x8", "0x10", "0x8000000000000000", &format!("0x4{}", "0".repeat(32))]
        );
    }

    #[test]
    fn a_port_is_named_by_its_socket_or_interface() {
        let vhost = Port::Dpdk(VhostPort::new("/run/x/a.sock").into());
        let interface = Port::Interface("eth0".to_owned());
        assert_eq!(
            [vhost.name(0, true), interface.name(1, true), interface.name(1, false)],
            ["a.sock", "port1", "eth0"]
        );
        let line = bridge(&[vhost, interface], Forwarding::Learning, true).join(" ");
        assert!(line.contains("fail-mode=standalone -- add-port br0 a.sock"), "{line}");
        assert!(line.contains("net_af_packet1,iface=eth0"), "{line}");
    }

    #[test]
    fn partners_send_to_each_other() {
        assert_eq!(pairs(4)[2..], ["in_port=3,actions=output:4", "in_port=4,actions=output:3"]);
    }
}
