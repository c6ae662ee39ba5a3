//! Switches that forward by flows, between interfaces of one namespace.

use lab::Result;
use lab::dpdk::Lcores;
use lab::millrace::config::{self, FailMode, RawBridge, RawFile, RawOpenflow, af_packet, file, sleeper};
use lab::netns::{Namespace, cable};
use lab::ovs::{Build, Forwarding, Options, Ovs, Port};
use lab::{cpu, output_of};
use std::path::Path;
use std::process::Command;

/// Joins interfaces of these names in a namespace, whose frames have their checksums: flows update them, and make none.
pub fn join(namespace: &Namespace, ends: [&str; 2]) -> Result<()> {
    cable(ends.map(|end| (namespace, end)))?;
    ends.iter().try_for_each(|end| namespace.run("ethtool", &["--offload", end, "tx", "off"]).map(drop))
}

/// Returns Millrace's configuration with a bridge that forwards by flows between these interfaces, and nothing else, and a channel
/// for controllers.
pub fn bridge(interfaces: [&str; 3], channel: RawOpenflow) -> RawFile {
    let ports = interfaces.map(|name| af_packet(name, name));
    let bridge = RawBridge { openflow: true.into(), ..config::bridge("br0", interfaces) };
    let channel = RawOpenflow { fail_mode: FailMode::Secure.into(), ..channel };
    file((ports, bridge, channel, sleeper()))
}

/// Starts Open vSwitch with these interfaces as its ports 1 to 3, and no flows. `settings` are more words for `ovs-vsctl`.
pub fn open_vswitch(
    namespace: &Namespace,
    directory: &Path,
    interfaces: [&str; 3],
    settings: &[&str],
    interrupt: &lab::process::Interrupt,
) -> Result<Ovs> {
    let ports = interfaces.map(|name| Port::Interface(name.to_owned()));
    let ovs = Ovs::start(&Options {
        build: Build::Sockets,
        directory,
        namespace,
        ports: &ports,
        forwarding: Forwarding::Learning,
        lcores: Lcores::polling_on(cpu::Plan::detect().switch),
        segments: false,
        interrupt,
    })?;
    let mut set = Command::new("ovs-vsctl");
    set.arg(format!("--db=unix:{}", directory.join("db.sock").display()));
    set.args(["set", "bridge", "br0", "protocols=OpenFlow13", "fail_mode=secure"]);
    for (number, name) in (1..).zip(interfaces) {
        set.args(["--", "set", "interface", name, &format!("ofport_request={number}")]);
    }
    // It remembers no packets, so that each goes by the flows of its time: otherwise changes take effect up to half a second later.
    set.args(["--", "set", "Open_vSwitch", ".", "other_config:flow-limit=0"]);
    output_of(set.args(settings))?;
    Ok(ovs)
}
