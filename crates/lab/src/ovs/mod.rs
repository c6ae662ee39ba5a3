//! Open vSwitch with DPDK, as the switch that Millrace is compared with.
//!
//! It shares nothing with the system's Open vSwitch: its database, sockets and files are in a directory of the measurement, and
//! it runs in a separate network namespace, with which the taps end that it creates for each bridge.

mod control;

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::dpdk::{AnyPort, Lcores, Pages};
use crate::process::{Daemon, Interrupt, Launch};
use crate::{Error, Result};
use control::Control;

/// The build of the switch with DPDK. Debian's is in no PATH.
const PROGRAM: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";

/// Memory that it uses, in MiB: its buffers, 262144 unless memory is short, need three quarters. If they do not fit, it tries
/// fewer; in the meantime it has none for a guest that connects, and disconnects it.
pub const MEGABYTES: u64 = 1024;

/// Time limit for a single operation of its programs.
const LIMIT: Duration = Duration::from_secs(30);

/// Error that keeps Open vSwitch from being used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Unavailable {
    #[error("there is no {PROGRAM}: Open vSwitch with DPDK is Debian's package openvswitch-switch-dpdk")]
    Program,
    #[error("Open vSwitch needs {MEGABYTES} MB of free huge pages; as root: sysctl vm.nr_hugepages=1024")]
    HugePages,
}

/// Checks that its requirements are met.
pub fn available(pages: Pages) -> std::result::Result<(), Unavailable> {
    if !Path::new(PROGRAM).is_file() {
        return Err(Unavailable::Program);
    }
    if pages == Pages::Huge { Ok(()) } else { Err(Unavailable::HugePages) }
}

/// A running Open vSwitch.
pub struct Ovs {
    // Ends first, before its database.
    switch: Daemon,
    control: Control,
    _database: Daemon,
}

impl Ovs {
    /// Starts a switch that forwards between two ports, and waits until it does. Its files are in `directory`, where the
    /// sockets must be. Its other threads share the forwarding
    /// thread's processor unless `lcores` says otherwise.
    pub fn start(directory: &Path, ports: &[AnyPort; 2], lcores: Lcores, interrupt: &Interrupt) -> Result<Ovs> {
        let command = |program: &str| {
            let mut command = Command::new(program);
            // These set the place of database, schema and sockets, so that the programs find each other.
            for variable in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR", "RUNTIME_DIRECTORY"] {
                command.env(variable, directory);
            }
            command
        };
        let run = |program: &str, arguments: &[String]| {
            let mut command = command(program);
            command.args(arguments);
            Launch::measured(program, interrupt).spawn(command)?.succeed(LIMIT)
        };
        run("ovsdb-tool", &["create".to_owned()])?;
        let mut server = command("ovsdb-server");
        let socket = directory.join("db.sock");
        server.arg("--no-chdir").arg(format!("--remote=punix:{}", socket.display()));
        let mut database = Launch::measured("ovsdb-server", interrupt).spawn(server)?;
        database.wait_for("its socket", LIMIT, || UnixStream::connect(&socket).ok())?;
        run("ovs-vsctl", &settings(lcores))?;

        let socket = directory.join("ovs-vswitchd.ctl");
        let mut vswitchd = command("unshare");
        vswitchd.args(["--net", PROGRAM, "--no-chdir"]).arg(format!("--unixctl={}", socket.display()));
        let mut switch = Launch::measured("Open vSwitch", interrupt).spawn(vswitchd)?;
        for part in [DPDK_VERSION, OWN_VERSION] {
            switch.wait_for_line("its start", LIMIT, |line| line.contains(part))?;
        }
        run("ovs-vsctl", &bridge(ports))?;
        for (from, to) in [(1, 2), (2, 1)] {
            run("ovs-ofctl", &["add-flow", "br0", &format!("in_port={from},actions=output:{to}")].map(str::to_owned))?;
        }
        Ok(Ovs { switch, control: Control::at(socket), _database: database })
    }

    /// Returns the cycles per frame in rounds that moved frames, since the last call.
    pub fn take_cycles(&mut self) -> Result<Option<f64>> {
        let call = |method| self.control.call(method).map_err(Error::io("asking Open vSwitch for its counters"));
        let cycles = cycles(&call("dpif-netdev/pmd-stats-show")?);
        call("dpif-netdev/pmd-stats-clear")?;
        Ok(cycles)
    }

    /// Returns its own version and DPDK's, as printed at its start.
    pub fn version(&self) -> Option<String> {
        version(&self.switch.log().since(0))
    }

    /// Returns the process that forwards.
    pub fn daemon(&mut self) -> &mut Daemon {
        &mut self.switch
    }
}

/// Returns the settings required before the switch starts: the processor that forwards, and the one for all its other threads.
fn settings(lcores: Lcores) -> Vec<String> {
    let dpdk = [&["--no-pci", "--no-telemetry"], Pages::Huge.arguments()].concat().join(" ");
    let mut line = ["--no-wait", "init", "--", "set", "Open_vSwitch", "."].map(str::to_owned).to_vec();
    line.extend([
        "other_config:dpdk-init=true".to_owned(),
        format!("other_config:dpdk-socket-mem={MEGABYTES}"),
        format!("other_config:dpdk-lcore-mask={}", mask(lcores.others.unwrap_or(lcores.forwarding))),
        format!("other_config:pmd-cpu-mask={}", mask(lcores.forwarding)),
        format!("other_config:dpdk-extra=\"{dpdk}\""),
    ]);
    line
}

/// Returns the command for a bridge without flows, and its ports, numbered from 1. A vhost-user port's socket has the name of
/// the port.
fn bridge(ports: &[AnyPort; 2]) -> Vec<String> {
    let timeout = format!("--timeout={}", LIMIT.as_secs());
    let mut line =
        [&timeout, "add-br", "br0", "--", "set", "Bridge", "br0", "datapath_type=netdev", "fail-mode=secure"]
            .map(str::to_owned)
            .to_vec();
    for (number, port) in ports.iter().enumerate() {
        let name = port.socket().file_name().unwrap_or_default().to_string_lossy();
        line.extend(["--", "add-port", "br0", &name, "--", "set", "Interface", &name].map(str::to_owned));
        line.push(format!("ofport_request={}", number + 1));
        match port {
            AnyPort::Driver(port) => line.extend([
                "type=dpdk".to_owned(),
                format!("options:dpdk-devargs=\"{}\"", port.device(number, 1)),
                "options:n_rxq_desc=256".to_owned(),
                "options:n_txq_desc=256".to_owned(),
            ]),
            AnyPort::Switch(_) => line.push("type=dpdkvhostuser".to_owned()),
        }
    }
    line
}

/// Formats a processor as a mask in hexadecimal digits.
fn mask(cpu: usize) -> String {
    format!("{:#x}{}", 1 << (cpu % 4), "0".repeat(cpu / 4))
}

/// Returns the figure of the forwarding thread; the main thread, printed after it, has no such line.
fn cycles(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("avg processing cycles per packet:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Text before the versions in its log.
const OWN_VERSION: &str = "(Open vSwitch) ";
const DPDK_VERSION: &str = "Using DPDK ";

fn version(log: &[String]) -> Option<String> {
    let after = |words: &str| log.iter().find_map(|line| Some(line.split_once(words)?.1.trim().to_owned()));
    Some(format!("Open vSwitch {}, DPDK {}", after(OWN_VERSION)?, after(DPDK_VERSION)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_is_understood() {
        let text = "pmd thread numa_id 0 core_id 0:
  packets received: 3249696
  avg cycles per packet: 248.14 (806364248/3249696)
  avg processing cycles per packet: 179.58 (583593106/3249696)
main thread:
  packets received: 0";
        assert_eq!((cycles(text), cycles("main thread:")), (Some(179.58), None));
        let log = ["T|00005|dpdk|INFO|Using DPDK 22.11.11", "T|00081|bridge|INFO|ovs-vswitchd (Open vSwitch) 3.1.0"];
        let log = log.map(str::to_owned);
        assert_eq!(version(&log).as_deref(), Some("Open vSwitch 3.1.0, DPDK 22.11.11"));
        assert_eq!(version(&log[..1]), None);
    }

    #[test]
    fn processors_are_masks() {
        assert_eq!(
            [0, 1, 3, 4, 63, 130].map(mask),
            ["0x1", "0x2", "0x8", "0x10", "0x8000000000000000", &format!("0x4{}", "0".repeat(32))]
        );
    }
}
