//! AF_XDP ports: plain, and as the physical side of a mapping.
//!
//! What is at the other end of the cable, the "wire", is a second Millrace in a namespace of its own, which patches its
//! end to a guest's port by packet sockets.

mod support;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use e2e::dpdk::{self, Testpmd};
use e2e::netns::Namespace;
use e2e::process::{Daemon, Launch};
use e2e::virtio::{Exchange, Guest, Options};
use e2e::{Result, cpu};
use support::{Home, Millrace, wait_for};

/// Every size that fits the usual MTU.
const SIZES: std::ops::RangeInclusive<usize> = 60..=1514;

/// Frames each way.
const FRAMES: u64 = 20_000;

/// A cable between two namespaces: `up0` in that of the switch, `up1` at the wire.
struct Cable {
    here: Namespace,
    there: Namespace,
}

impl Cable {
    fn new() -> Result<Cable> {
        let (here, there) = support::two_namespaces()?;
        Ok(Cable { here, there })
    }

    /// The wire: what arrives at its end of the cable goes to its port `far`, and back.
    fn wire(&self) -> Wire {
        let home = Home::new();
        let cable = "[[port]]\nname = \"cable\"\ndriver = \"af_packet\"\ninterface = \"up1\"\n";
        let patch = "[[patch]]\nports = [\"cable\", \"far\"]\n";
        let config = [cable, &support::port("far"), patch, support::SLEEPER].concat();
        let millrace = home.start_inside(&self.there, &config);
        Wire { home, _millrace: millrace }
    }

    /// A switch with a port `wan` at the cable, and `fw` for a guest.
    fn switch(&self, home: &Home, options: &str, rest: &str) -> Millrace {
        let config = [&wan(options), &support::port("fw"), rest].concat();
        let millrace = home.start_inside(&self.here, &config);
        millrace.wait_up(&["wan"]);
        millrace
    }
}

struct Wire {
    home: Home,
    _millrace: Millrace,
}

impl Wire {
    fn far(&self) -> Result<Guest> {
        Options::new(self.home.socket("far")).connect()
    }
}

fn wan(options: &str) -> String {
    format!("[[port]]\nname = \"wan\"\ndriver = \"af_xdp\"\ninterface = \"up0\"\n{options}\n")
}

const PATCH: &str = "[[patch]]\nports = [\"wan\", \"fw\"]\n";
const PASS_THROUGH: &str = "[[mapping]]\nfrom = \"wan\"\nto = \"fw\"\nmode = \"pass-through\"\n";
const BRIDGE: &str = "[[mapping]]\nfrom = \"wan\"\nto = \"fw\"\n";

fn nothing_dropped(millrace: &Millrace) {
    for port in ["wan", "fw"] {
        assert_eq!(millrace.port(port).dropped(), 0, "{:?}", millrace.port(port).0);
    }
}

#[test]
fn every_frame_passes_both_ways() -> Result<()> {
    let _alone = cpu::alone();
    for (options, detail) in
        [("", "driver veth can't do zero-copy"), ("mode = \"copy\"\nqueue-size = 64", "as configured")]
    {
        let (cable, home) = (Cable::new()?, Home::new());
        let wire = cable.wire();
        let millrace = cable.switch(&home, options, &[PATCH, &support::poller()].concat());
        let said = millrace.port("wan").0.detail;
        assert!(said.starts_with("interface up0, copied by the kernel") && said.contains(detail), "{said}");
        assert!(said.ends_with("native XDP"), "{said}");
        let guest = Options::new(home.socket("fw")).connect()?;
        let mut exchange = Exchange::new([guest, wire.far()?], [1, 2], SIZES, 32);
        exchange.run(FRAMES, support::SOON)?;
        nothing_dropped(&millrace);
        millrace.stop();
    }
    Ok(())
}

#[test]
fn a_driver_that_can_not_is_named() -> Result<()> {
    let (cable, home) = (Cable::new()?, Home::new());
    for (options, says) in [("mode = \"zero-copy\"", "zero-copy"), ("queues = 2", "lower `queues`")] {
        let file = home.configure(&wan(options));
        let mut command = cable.here.command(support::program().to_str().expect("a path in UTF-8"));
        command.args(["run", "--config"]).arg(file);
        let mut daemon = Daemon::spawn("millrace", command)?;
        assert!(!daemon.wait(support::SOON)?.success());
        daemon
            .wait_for_line(says, support::SOON, |line| line.contains("port \"wan\" (af_xdp)") && line.contains(says))?;
    }
    Ok(())
}

/// Also with a tap at the other side, and frames in several chunks.
#[test]
fn a_worker_that_sleeps_answers() -> Result<()> {
    let _alone = cpu::alone();
    for mtu in ["1500", "9000"] {
        let (cable, home) = (Cable::new()?, Home::new());
        cable.here.run("ip", &["link", "set", "up0", "mtu", mtu])?;
        cable.there.run("ip", &["link", "set", "up1", "mtu", mtu])?;
        // The kernel leaves checksums to hardware that is not there; XDP sees frames before anybody else fills them in.
        cable.there.run("ethtool", &["-K", "up1", "tx", "off"])?;
        let tap = format!("[[port]]\nname = \"tap0\"\ndriver = \"tap\"\ninterface = \"tap0\"\nmtu = {mtu}\n");
        let patch = "[[patch]]\nports = [\"wan\", \"tap0\"]\n";
        let millrace = home.start_inside(&cable.here, &[&wan(""), &tap, patch, support::SLEEPER].concat());
        cable.here.run("ip", &["address", "add", "192.0.2.1/24", "dev", "tap0"])?;
        cable.there.run("ip", &["address", "add", "192.0.2.2/24", "dev", "up1"])?;
        let largest = if mtu == "9000" { "8972" } else { "1472" };
        for size in ["56", "1000", largest] {
            let ping = ["-c", "5", "-i", "0.2", "-W", "2", "-M", "do", "-s", size, "192.0.2.2"];
            cable.here.run("ping", &ping)?;
        }
        let asleep = || millrace.stats().workers[0].sleeps;
        let before = asleep();
        std::thread::sleep(Duration::from_millis(300));
        assert!(asleep() - before < 100, "it does not sleep");
        assert!(asleep() > 0);
        assert_eq!(millrace.port("wan").dropped(), 0, "{:?}", millrace.port("wan").0);
        millrace.stop();
    }
    Ok(())
}

#[test]
fn a_reload_opens_it_and_an_interface_may_come_and_go() -> Result<()> {
    let _alone = cpu::alone();
    let (cable, home) = (Cable::new()?, Home::new());
    let guest = [support::port("fw"), support::poller()].concat();
    let millrace = home.start_inside(&cable.here, &guest);
    let config = [&wan(""), PATCH, &guest].concat();
    for _ in 0..3 {
        home.configure(&config);
        assert_eq!(millrace.reload().added, ["wan"]);
        millrace.wait_up(&["wan"]);
        home.configure(&guest);
        assert_eq!(millrace.reload().removed, ["wan"]);
    }
    home.configure(&config);
    millrace.reload();
    millrace.wait_up(&["wan"]);
    cable.here.run("ip", &["link", "set", "up0", "down"])?;
    millrace.wait_down("wan");
    cable.here.run("ip", &["link", "set", "up0", "up"])?;
    millrace.wait_up(&["wan"]);
    let mut guest = Some(Options::new(home.socket("fw")).connect()?);
    for _ in 0..3 {
        let wire = cable.wire();
        let mut exchange = Exchange::new([guest.take().expect("it is back"), wire.far()?], [1, 2], SIZES, 32);
        exchange.run(500, support::SOON)?;
        let [back, _] = exchange.into_guests();
        guest = Some(back);
        drop(wire);
        cable.here.run("ip", &["link", "delete", "up0"])?;
        millrace.wait_down("wan");
        let peer = ["type", "veth", "peer", "name", "up1", "netns", cable.there.name()];
        cable.here.run("ip", &[&["link", "add", "up0"][..], &peer[..]].concat())?;
        cable.there.run("ip", &["link", "set", "up1", "up"])?;
        millrace.wait_up(&["wan"]);
    }
    millrace.stop();
    Ok(())
}
