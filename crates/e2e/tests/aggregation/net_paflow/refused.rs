//! Arguments that the driver refuses, and its messages.

use e2e::Home;
use e2e::plugin::plugin;
use std::process::Command;

/// Rules that the driver takes, whose lines it names when they are changed.
const RIGHT: &str = "
[aggregation]
mac = \"02:00:00:00:01:01\"
addresses = [\"192.0.2.2\"]
mtu = 1500
[[aggregation.next-hop]]
nfi = 1
mac = \"02:00:00:00:01:00\"
ip = \"192.0.2.1\"
[[aggregation.flow]]
sc = 100
nfi = 1
";

/// Starts testpmd with these devices, each in the directory of `home`, and returns its output until its devices are ready.
fn said(home: &Home, devices: &[&str]) -> String {
    let mut command = Command::new("dpdk-testpmd");
    command.args(["--no-huge", "-m", "64", "--no-pci", "--no-telemetry", "-d"]).arg(plugin());
    command.args(devices.iter().flat_map(|device| ["--vdev", device]));
    command.args(["--", "--help"]).current_dir(home.path("")).env("RUNTIME_DIRECTORY", home.path(""));
    let output = command.output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn errors_name_their_cause() {
    let home = Home::new();
    std::fs::write(home.path("nf.toml"), RIGHT).unwrap();
    std::fs::write(home.path("wrong.toml"), RIGHT.replace("sc = 100", "sc = 5000\ncs = 1")).unwrap();
    std::fs::write(
        home.path("behind.toml"),
        RIGHT.replace("[[aggregation.next-hop]]\n", "[[aggregation.next-hop]]\nport = \"x\"\n"),
    )
    .unwrap();
    std::fs::write(home.path("empty.toml"), "").unwrap();
    let below = "net_null0";
    let cases: &[(&[&str], &str)] = &[
        (&[below, "net_paflow0,config=nf.toml"], "net_paflow0: `dev=` is missing: give dev=DEVICE,config=FILE"),
        (&[below, "net_paflow0,dev=net_null0"], "net_paflow0: `config=` is missing"),
        (&[below, "net_paflow0,dev=net_null0,conf=nf.toml"], "has another key than dev, config and port"),
        (&[below, "net_paflow0,dev=net_null1,config=nf.toml"], "net_paflow0: there is no device net_null1"),
        // A device must be there before the one that stands on it.
        (&["net_paflow0,dev=net_null0,config=nf.toml", below], "put its --vdev first"),
        (&[below, "net_paflow0,dev=net_null0,config=none.toml"], "net_paflow0: cannot read none.toml: No such file"),
        (&[below, "net_paflow0,dev=net_null0,config=empty.toml"], "net_paflow0: empty.toml:1:1: there is no section"),
        (&[below, "net_paflow0,dev=net_null0,config=wrong.toml"], "net_paflow0: wrong.toml:11:6: `sc` cannot be 5000"),
        (&[below, "net_paflow0,dev=net_null0,config=wrong.toml"], "net_paflow0: wrong.toml:12:1: unknown key `cs`"),
        (
            &[below, "net_paflow0,dev=net_null0,config=nf.toml", "net_paflow1,dev=net_null0,config=nf.toml"],
            "net_paflow1: net_null0 is another device's",
        ),
    ];
    for (devices, message) in cases {
        let said = said(&home, devices);
        assert!(said.contains(message) && said.contains("failed to initialize"), "{devices:?}, {message}:\n{said}");
    }
    let unjoined = said(&home, &[below, "net_paflow0,dev=net_null0,config=behind.toml"]);
    assert!(unjoined.contains("no next hop of behind.toml is behind port net_paflow0"), "{unjoined}");
    let fine = said(&home, &[below, "net_paflow0,dev=net_null0,config=nf.toml"]);
    assert!(!fine.contains("net_paflow:"), "{fine}");
}
