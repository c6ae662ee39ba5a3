//! Faucet, an OpenFlow controller that networks run on, makes a routed network with two VLANs and an access list out of a bridge.

use api::request::Flows;
use client::Client;
use e2e::cable::quiet_namespace;
use e2e::flows::bridge;
use e2e::{Home, wait_for};
use lab::Result;
use lab::millrace::config::RawOpenflow;
use lab::netns::{Namespace, cable};
use lab::process::Daemon;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;

const FAUCET: &str = "faucet==1.10.11";

/// Addresses of the hosts: two in one VLAN, one in the other.
const HOSTS: [&str; 3] = ["10.0.1.1", "10.0.1.2", "10.0.2.3"];

/// Installs Faucet, which Debian does not have, next to the tests' own files; returns the directory of its programs.
fn faucet() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(FAUCET);
    let done = directory.join("done");
    if !done.exists() {
        let _ = std::fs::remove_dir_all(&directory);
        run(Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(&directory), "python3-venv");
        let pip = directory.join("bin/pip");
        run(Command::new(pip).args(["install", "--quiet", FAUCET]), "python3-dev, for parts in C");
        std::fs::write(done, "").unwrap();
    }
    directory.join("bin")
}

fn run(command: &mut Command, package: &str) {
    let output =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; the Debian package is {package}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed; it needs the Debian package {package}, and PyPI: {said}");
}

/// Creates a host at port `number` of the switch.
fn host(switch: &Namespace, number: usize) -> Result<Namespace> {
    let (host, name, address) = (quiet_namespace()?, format!("p{number}"), HOSTS[number - 1]);
    cable([(switch, &name), (&host, "eth0")])?;
    let gateway = format!("{}.254", address.rsplit_once('.').unwrap().0);
    host.run("ip", &["link", "set", "eth0", "arp", "on", "address", &format!("02:00:00:00:00:0{number}")])?;
    host.run("ip", &["address", "add", &format!("{address}/24"), "dev", "eth0"])?;
    host.run("ip", &["route", "add", "default", "via", &gateway])?;
    // Flows that change a packet update its checksum; they do not make one.
    host.run("ethtool", &["--offload", "eth0", "tx", "off"])?;
    Ok(host)
}

/// Waits until a host gets answers from an address.
fn wait_reached(from: &Namespace, to: &str) {
    wait_for(&format!("answers from {to}"), || from.run("ping", &["-c", "1", "-W", "2", to]).ok().map(drop));
}

#[test]
fn faucet_routes_between_vlans_and_filters() -> Result<()> {
    let programs = faucet();
    let (namespace, home) = (quiet_namespace()?, Home::new());
    let hosts = [host(&namespace, 1)?, host(&namespace, 2)?, host(&namespace, 3)?];
    let controllers = ["tcp:127.0.0.1:6653".to_owned()].into_iter().collect();
    let channel = RawOpenflow { controllers, datapath_id: 1.into(), ..RawOpenflow::default() };
    let _millrace = home.start_inside(&namespace, bridge(["p1", "p2", "p3"], channel));

    let mut command = namespace.command(programs.join("faucet"));
    command.args(["--ryu-ofp-listen-host=127.0.0.1", "--ryu-ofp-tcp-listen-port=6653"]);
    // It runs another program of its own, which Debian has in another version.
    command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    command.env("FAUCET_CONFIG", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openflow/faucet/faucet.yaml"));
    command.env("FAUCET_PROMETHEUS_ADDR", "127.0.0.1");
    for (variable, file) in [("FAUCET_LOG", "faucet.log"), ("FAUCET_EXCEPTION_LOG", "faucet-errors.log")] {
        command.env(variable, home.path(file));
    }
    let mut faucet = Daemon::spawn("faucet", command)?;
    let flows = || Client::connect(home.path("control")).unwrap().call(&Flows {}).unwrap().flows;
    wait_for("Faucet's flows", || {
        faucet.check("flows").unwrap();
        (flows().len() > 40).then_some(())
    });
    wait_reached(&hosts[0], HOSTS[1]);
    wait_reached(&hosts[0], "10.0.1.254");
    wait_reached(&hosts[0], HOSTS[2]);
    wait_reached(&hosts[2], HOSTS[1]);

    // Packets to the echo service do not pass; others of the same host do.
    let bind = |host: &Namespace, address: &str| {
        host.within(|| UdpSocket::bind(address).and_then(|socket| socket.set_nonblocking(true).map(|()| socket)))
    };
    let sender = bind(&hosts[0], "0.0.0.0:0")?.unwrap();
    let [echo, other] = [7, 8].map(|port| bind(&hosts[1], &format!("0.0.0.0:{port}")).unwrap().unwrap());
    wait_for("a packet that passes", || {
        sender.send_to(b"to be dropped", (HOSTS[1], 7)).unwrap();
        sender.send_to(b"to be passed", (HOSTS[1], 8)).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        other.recv(&mut [0; 64]).ok()
    });
    assert!(echo.recv(&mut [0; 64]).is_err(), "the access list has no effect");
    wait_for("the packet to be counted", || {
        let dropped = flows().into_iter().find(|flow| flow.matches.contains("udp_dst=7") && flow.packets > 0);
        dropped.map(|flow| assert_eq!((flow.table, flow.actions.as_str()), (0, "drop")))
    });
    let errors = std::fs::read_to_string(home.path("faucet-errors.log")).unwrap_or_default();
    assert_eq!(errors, "", "Faucet met exceptions");
    Ok(())
}
