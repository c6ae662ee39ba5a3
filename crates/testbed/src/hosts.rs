//! Two hosts, each a network namespace with the kernel's TCP, and the switch between them. All have the kernel's default settings, so
//! that TCP leaves long messages uncut.

use crate::millrace::{self, Idle, MillraceError};
use crate::surroundings::Surroundings;
use clap::ValueEnum;
use engine::port::offloads::OffloadsKey;
use lab::dpdk::Lcores;
use lab::millrace::config::{RawFile, RawPort, RawWorker, Tap, af_packet, file, patch, port, tap};
use lab::millrace::{Files, Millrace};
use lab::netns::Namespace;
use lab::ovs::{self, Ovs};
use lab::process::Interrupt;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// The hosts' addresses.
pub const ADDRESSES: [&str; 2] = ["10.0.0.1", "10.0.0.2"];

/// The switch between two hosts, and their interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Between {
    /// The kernel's bridge, with veth interfaces
    Veth,
    /// Millrace at the other ends of veth interfaces, by ports of driver af_packet
    Interfaces,
    /// Millrace with a tap for each host
    Taps,
    /// Millrace with a tap for each host, which take no messages, and so get segments as they come
    Unmerged,
    /// Open vSwitch with DPDK and userspace TSO, at the other ends of veth interfaces
    Ovs,
}

impl fmt::Display for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Between::Veth => "kernel, bridge",
            Between::Interfaces => "Millrace, af_packet",
            Between::Taps => "Millrace, taps",
            Between::Unmerged => "Millrace, taps without messages",
            Between::Ovs => "Open vSwitch, TSO",
        })
    }
}

/// How hosts are joined.
pub struct Setup<'s> {
    /// The switch.
    pub between: Between,
    /// Bytes of the longest IP packet.
    pub mtu: u16,
    /// Whether the first host sends finished segments, as a wire would bring them.
    pub segments: bool,
    /// Processor of the switch.
    pub cpu: usize,
    /// Millrace's program.
    pub millrace: &'s Path,
    /// Directory for the switch's files.
    pub directory: &'s Path,
    /// Flag that ends the measurement.
    pub interrupt: &'s Interrupt,
}

/// Two hosts that reach each other.
pub struct Hosts {
    /// The hosts.
    pub ends: [Namespace; 2],
    _switch: Switch,
    _middle: Namespace,
}

/// A running switch; the kernel's needs no process.
enum Switch {
    Kernel,
    Millrace(#[expect(dead_code, reason = "it runs until this is dropped")] Millrace),
    Ovs(#[expect(dead_code, reason = "it runs until this is dropped")] Ovs),
}

impl Hosts {
    /// Joins two hosts.
    pub fn join(setup: &Setup<'_>) -> Result<Hosts, MillraceError> {
        let ends = [Namespace::create()?, Namespace::create()?];
        let middle = Namespace::create()?;
        if !matches!(setup.between, Between::Taps | Between::Unmerged) {
            setup.cable(&middle, &ends)?;
        }
        let switch = match setup.between {
            Between::Veth => {
                setup.bridge(&middle)?;
                Switch::Kernel
            }
            Between::Interfaces => Switch::Millrace(setup.millrace(&middle, |name| af_packet(name, name))?),
            Between::Taps | Between::Unmerged => {
                let switch =
                    setup.millrace(&middle, if setup.between == Between::Taps { plain_tap } else { unmerged })?;
                for (end, name) in ends.iter().zip(INTERFACES) {
                    middle.run("ip", &["link", "set", name, "netns", end.name(), "name", "eth0"])?;
                }
                Switch::Millrace(switch)
            }
            Between::Ovs => Switch::Ovs(setup.ovs(&middle)?),
        };
        for (end, address) in ends.iter().zip(ADDRESSES) {
            end.run("ip", &["address", "add", &format!("{address}/24"), "dev", "eth0"])?;
            end.run("ip", &["link", "set", "eth0", "mtu", &setup.mtu.to_string(), "up"])?;
        }
        if setup.segments {
            ends[0].run("ethtool", &["--offload", "eth0", "tx", "off", "tso", "off", "gso", "off"])?;
        }
        // The first one waits until the switch has noticed both.
        ends[0].run("ping", &["-q", "-c", "1", "-w", "60", ADDRESSES[1]])?;
        Ok(Hosts { ends, _switch: switch, _middle: middle })
    }
}

/// Interfaces of the switch, in its namespace.
const INTERFACES: [&str; 2] = ["left", "right"];

impl Setup<'_> {
    /// Gives each host an interface whose other end the switch has.
    fn cable(&self, middle: &Namespace, ends: &[Namespace; 2]) -> lab::Result<()> {
        for (end, name) in ends.iter().zip(INTERFACES) {
            let veth = ["link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", end.name()];
            middle.run("ip", &veth)?;
            middle.run("ip", &["link", "set", name, "mtu", &self.mtu.to_string(), "addrgenmode", "none", "up"])?;
        }
        Ok(())
    }

    fn bridge(&self, middle: &Namespace) -> lab::Result<()> {
        middle.run("ip", &["link", "add", "br0", "mtu", &self.mtu.to_string(), "type", "bridge", "stp_state", "0"])?;
        for name in INTERFACES {
            middle.run("ip", &["link", "set", name, "master", "br0"])?;
        }
        middle.run("ip", &["link", "set", "br0", "up"]).map(drop)
    }

    fn millrace(&self, middle: &Namespace, port: fn(&str) -> RawPort) -> Result<Millrace, MillraceError> {
        let surroundings = Surroundings { namespace: Some(middle), ..Surroundings::default() };
        let files = Files::named(self.directory, "hosts");
        Ok(millrace::start(self.millrace, files, configuration(port, self.cpu), surroundings, self.interrupt)?)
    }

    fn ovs(&self, middle: &Namespace) -> lab::Result<Ovs> {
        Ovs::start(&ovs::Options {
            build: ovs::Build::Dpdk,
            directory: self.directory,
            namespace: middle,
            ports: &INTERFACES.map(|name| ovs::Port::Socket(name.to_owned())),
            forwarding: ovs::Forwarding::Pairs,
            lcores: Lcores::polling_on(self.cpu),
            segments: true,
            interrupt: self.interrupt,
        })
    }
}

fn plain_tap(name: &str) -> RawPort {
    tap(name, name)
}

fn unmerged(name: &str) -> RawPort {
    port(name, Tap { interface: name.into(), offloads: OffloadsKey::Checksum.into(), ..Tap::default() })
}

fn configuration(port: fn(&str) -> RawPort, cpu: usize) -> RawFile {
    let [left, right] = INTERFACES;
    // The worker shares its processor: it rests at once.
    let worker = RawWorker { patience: "0s".into(), ..Idle::Sleep.worker(cpu) };
    file((port(left), port(right), patch(left, right), worker))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn millrace_takes_the_configurations() {
        for port in [|name: &str| af_packet(name, name), plain_tap, unmerged] {
            millrace::assert_takes(configuration(port, 0));
        }
    }
}
