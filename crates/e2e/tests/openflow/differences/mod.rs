//! Millrace and Open vSwitch with the same random flows send the same packets, byte by byte.

use e2e::Home;
use e2e::cable::quiet_namespace;
use e2e::flows::{bridge, join, open_vswitch};
use lab::Result;
use lab::millrace::config::listen;
use lab::process::{Daemon, Interrupt};
use std::time::Duration;

/// Sets of flows that are compared; a set takes two seconds.
const SETS: u32 = 12;

/// Time limit of all, on a machine where each packet is late.
const LIMIT: Duration = Duration::from_secs(900);

#[test]
fn both_switches_send_the_same_packets() -> Result<()> {
    let (namespace, home) = (quiet_namespace()?, Home::new());
    // Each switch has three cables, whose other ends are the test's.
    for number in ["1", "2", "3"] {
        join(&namespace, [&format!("m{number}"), &format!("s{number}")])?;
        join(&namespace, [&format!("o{number}"), &format!("v{number}")])?;
    }
    let switch = bridge(["s1", "s2", "s3"], listen("unix:of.sock"));
    let millrace = home.start_inside(&namespace, &switch);
    millrace.wait_up(&["s1", "s2", "s3"]);
    let interrupt = Interrupt::never();
    let files = tempfile::Builder::new().prefix("ovs-").tempdir().unwrap();
    // It has to look past all VLAN tags, too.
    let settings = ["--", "set", "Open_vSwitch", ".", "other_config:vlan-limit=0"];
    let ovs = open_vswitch(&namespace, files.path(), ["v1", "v2", "v3"], &settings, &interrupt)?;

    let mut command = namespace.command("/usr/bin/python3");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openflow/differences/differences.py"));
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
