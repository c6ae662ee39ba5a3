//! Millrace and Open vSwitch with the same random flows send the same packets, byte by byte.

#[path = "../support/mod.rs"]
mod support;

use lab::dpdk::Lcores;
use lab::netns::{Namespace, cable};
use lab::ovs::{Build, Forwarding, Options, Ovs, Port};
use lab::process::{Daemon, Interrupt};
use lab::{Result, cpu};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::{Home, quiet_namespace};

/// Sets of flows that are compared; a set takes two seconds.
const SETS: u32 = 12;

/// Time limit of all, on a machine where each packet is late.
const LIMIT: Duration = Duration::from_secs(900);

/// Starts Open vSwitch with the interfaces of these names as its ports 1 to 3, and no flows.
fn start_ovs(namespace: &Namespace, directory: &Path, names: [&str; 3], interrupt: &Interrupt) -> Result<Ovs> {
    let ports = names.map(|name| Port::Interface(name.to_owned()));
    let ovs = Ovs::start(&Options {
        build: Build::Sockets,
        directory,
        namespace,
        ports: &ports,
        forwarding: Forwarding::Learning,
        lcores: Lcores::polling_on(cpu::Plan::detect().switch),
        interrupt,
    })?;
    let mut set = Command::new("ovs-vsctl");
    set.arg(format!("--db=unix:{}", directory.join("db.sock").display()));
    set.args(["set", "bridge", "br0", "protocols=OpenFlow13", "fail_mode=secure"]);
    for (number, name) in (1..).zip(names) {
        set.args(["--", "set", "interface", name, &format!("ofport_request={number}")]);
    }
    // It is to look behind all tags, too.
    set.args(["--", "set", "Open_vSwitch", ".", "other_config:vlan-limit=0"]);
    lab::output_of(&mut set)?;
    Ok(ovs)
}

#[test]
fn both_switches_send_the_same_packets() -> Result<()> {
    let _alone = cpu::alone();
    let (namespace, home) = (quiet_namespace()?, Home::new());
    // Each switch has three cables, whose other ends are the test's.
    for (ours, theirs) in [("m", "s"), ("o", "v")] {
        for number in 1..=3 {
            let ends = [format!("{ours}{number}"), format!("{theirs}{number}")];
            cable([(&namespace, &ends[0]), (&namespace, &ends[1])])?;
            for end in ends {
                namespace.run("ethtool", &["--offload", &end, "tx", "off"])?;
            }
        }
    }
    let port = |name: &str| format!("[[port]]\nname = \"{name}\"\ndriver = \"af_packet\"\ninterface = \"{name}\"\n");
    let ports: String = ["s1", "s2", "s3"].map(port).concat();
    let bridge = "[[bridge]]\nname = \"br0\"\nopenflow = true\nports = [\"s1\", \"s2\", \"s3\"]\n";
    let channel = "[openflow]\nfail-mode = \"secure\"\nlisten = [\"unix:of.sock\"]\n";
    let millrace = home.start_inside(&namespace, &[&ports, bridge, channel, support::SLEEPER].concat());
    millrace.wait_up(&["s1", "s2", "s3"]);
    let interrupt = Interrupt::install()?;
    let files = tempfile::Builder::new().prefix("ovs-").tempdir().unwrap();
    let ovs = start_ovs(&namespace, files.path(), ["v1", "v2", "v3"], &interrupt)?;

    let mut command = namespace.command("/usr/bin/python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openflow_differences/differences.py"));
    command.arg(format!("unix:{}", home.socket("of").display())).arg(ovs.openflow());
    command.arg(files.path().join("ovs-vswitchd.ctl"));
    // MILLRACE_SEED repeats a set that differed.
    let seed = std::env::var("MILLRACE_SEED").unwrap_or_else(|_| "1".to_owned());
    command.args([seed, SETS.to_string()]);
    let mut daemon = Daemon::spawn("the comparison", command)?;
    let line = daemon.wait_for_line("its end", LIMIT, |line| line.starts_with("compared: "))?;
    let frames: u32 = line.split_ascii_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap();
    assert!(line.ends_with(", 0 differences") && frames > 50, "{}", daemon.log().since(0).join("\n"));
    Ok(())
}
