//! Machine changes under the switch: interfaces are added, changed, removed and added again, without affecting other ports.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

use e2e::cable::{quiet_namespace, two_namespaces};
use e2e::virtio::{Exchange, Options, Pump};
use e2e::{Home, Millrace, wait_for};
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;
use lab::process::Daemon;
use rustix::process::Signal;

/// Drivers of ports whose interface is created by others.
const KINDS: [Driver; 2] = [af_packet, af_xdp];

/// Makes a port of a driver, which each has its function for.
type Driver = fn(&str, &str) -> RawPort;

/// Returns a port `up`, and a sink.
fn ports(driver: Driver, interface: &str) -> [RawPort; 2] {
    [driver("up", interface), sink("sink")]
}

/// Returns a port, patched to a sink.
fn port(driver: Driver, interface: &str) -> RawFile {
    file((ports(driver, interface), patch("up", "sink")))
}

/// Creates a cable between the namespaces, as [`two_namespaces`] does.
fn lay_cable(here: &Namespace, there: &Namespace) -> Result<()> {
    let peer = ["type", "veth", "peer", "name", "up1", "netns", there.name()];
    here.run("ip", &[&["link", "add", "up0"][..], &peer].concat())?;
    here.run("ip", &["link", "set", "up0", "arp", "off", "up"])?;
    there.run("ip", &["link", "set", "up1", "arp", "off", "up"])?;
    Ok(())
}

/// Starts a switch that sends frames to the cable, as its source does.
fn sender(home: &Home, there: &Namespace, source: Generator) -> Millrace {
    let cable = af_packet("cable", "up1");
    let source = lab::millrace::config::port("source", source);
    let patch = patch("cable", "source");
    home.start_inside(there, (cable, source, patch, sleeper()))
}

/// Drivers of ports at an interface.
const EVERY_KIND: [(&str, Driver); 3] = [("af_packet", af_packet), ("af_xdp", af_xdp), ("tap", tap)];

/// Returns a source that makes frames without end.
fn steady() -> Generator {
    Generator { size: 100.into(), rate: 2000.into(), ..Generator::default() }
}

/// Connects two guests that exchange frames at the ports `c` and `d`.
fn honest(home: &Home, millrace: &Millrace) -> Result<Pump> {
    let [c, d] = ["c", "d"].map(|port| Options::new(home.socket(port)).connect());
    let guests = [c?, d?];
    millrace.wait_up(&["c", "d"]);
    let pump = Pump::start(Exchange::new(guests, [1, 2], 60..=1500, 64));
    pump.wait_for(100, e2e::SOON)?;
    Ok(pump)
}

/// Waits until the port is down with this reason.
fn wait_for_reason(millrace: &Millrace, reason: &str) {
    wait_for(&format!("\"{reason}\", not {:?}", millrace.port("up").0.detail), || {
        let port = millrace.port("up").0;
        (!port.up && port.detail.contains(reason)).then_some(())
    });
}

/// Waits until more frames arrive.
fn wait_for_frames(millrace: &Millrace) {
    let before = millrace.port("up").rx();
    wait_for("frames", || (millrace.port("up").rx() > before + 100).then_some(()));
}

#[test]
fn an_interface_that_is_missing_is_waited_for() -> Result<()> {
    for driver in KINDS {
        let (here, there) = (quiet_namespace()?, quiet_namespace()?);
        let (home, far) = (Home::new(), Home::new());
        let config = (port(driver, "up0"), patched("c", "d"), sleeper());
        let millrace = home.start_inside(&here, &config);
        let pump = honest(&home, &millrace)?;
        wait_for_reason(&millrace, "\"up0\" does not exist");
        millrace.reload();
        wait_for_reason(&millrace, "\"up0\" does not exist");
        let said = millrace.daemon.log().since(0);
        assert_eq!(said.iter().filter(|line| line.contains("port \"up\" is down")).count(), 1, "{said:?}");
        lay_cable(&here, &there)?;
        millrace.wait_up(&["up"]);
        let sender = sender(&far, &there, steady());
        wait_for_frames(&millrace);
        pump.wait_for(100, e2e::SOON)?;
        assert!(pump.stop()?.is_complete());
        sender.stop();
        millrace.stop();
    }
    Ok(())
}

#[test]
fn an_interface_that_is_created_again_is_used_again() -> Result<()> {
    for driver in KINDS {
        let (here, there) = two_namespaces()?;
        let (home, far) = (Home::new(), Home::new());
        let config = (port(driver, "up0"), patched("c", "d"), sleeper());
        let millrace = home.start_inside(&here, &config);
        let pump = honest(&home, &millrace)?;
        // Its other end is an af_packet port, which must come back as well.
        let sender = sender(&far, &there, steady());
        wait_for_frames(&millrace);
        for round in 0..4 {
            if round % 2 == 0 {
                here.run("ip", &["link", "delete", "up0"])?;
                wait_for_reason(&millrace, "up0");
                pump.wait_for(100, e2e::SOON)?;
                lay_cable(&here, &there)?;
            } else {
                // In one batch: the port must notice that it is another interface.
                let script = format!(
                    "link delete up0\nlink add up0 type veth peer name up1 netns {}\nlink set up0 arp off up\n",
                    there.name()
                );
                std::fs::write(home.path("batch"), script).unwrap();
                here.run("ip", &["-batch", &home.path("batch").display().to_string()])?;
                there.run("ip", &["link", "set", "up1", "arp", "off", "up"])?;
            }
            wait_for_frames(&millrace);
            assert!(millrace.port("up").0.up);
        }
        pump.wait_for(100, e2e::SOON)?;
        assert!(pump.stop()?.is_complete());
        sender.stop();
        millrace.stop();
    }
    Ok(())
}

/// With the user's rights and the remaining capabilities only.
#[test]
fn giving_up_privileges_does_not_keep_ports_from_being_opened_again() -> Result<()> {
    for (kind, driver) in EVERY_KIND {
        let (here, there) = two_namespaces()?;
        let home = Home::new();
        let confinement = RawConfinement { user: "nobody".into(), ..RawConfinement::default() };
        let millrace = home.start_inside(&here, (port(driver, "up0"), sleeper(), confinement));
        if kind == "tap" {
            // The existing interface is in the way until it is deleted.
            wait_for_reason(&millrace, "up0");
        } else {
            millrace.wait_up(&["up"]);
        }
        here.run("ip", &["link", "delete", "up0"])?;
        if kind != "tap" {
            wait_for_reason(&millrace, "up0");
            lay_cable(&here, &there)?;
        }
        millrace.wait_up(&["up"]);
        millrace.stop();
    }
    Ok(())
}

#[test]
fn a_missing_privilege_is_named() -> Result<()> {
    let (here, _there) = two_namespaces()?;
    let home = Home::new();
    let file = home.configure((port(af_packet, "up0"), sleeper()));
    let mut command = here.command("setpriv");
    command.args(["--bounding-set=-net_raw", "--"]).arg(e2e::program()).args(["run", "--config"]).arg(file);
    let mut daemon = Daemon::spawn("millrace", command)?;
    daemon.wait_for_line("the reason", e2e::SOON, |line| {
        line.contains("port \"up\" is down") && line.contains("needs CAP_NET_RAW")
    })?;
    Ok(())
}

/// Fails if the worker does not stay asleep.
fn assert_asleep(millrace: &Millrace) {
    let worker = || millrace.stats().workers.remove(0);
    wait_for("the worker to sleep", || (worker().sleeps > 0).then_some(()));
    let before = worker();
    for _ in 0..10 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        millrace.stats();
    }
    let after = worker();
    assert!(after.sleeps - before.sleeps <= 20, "it woke {} times", after.sleeps - before.sleeps);
    assert_eq!(after.busy_rounds, before.busy_rounds);
}

/// The tap's state and MTU are followed, too.
#[test]
fn a_tap_that_is_deleted_is_made_again() -> Result<()> {
    let here = quiet_namespace()?;
    let home = Home::new();
    let millrace = home.start_inside(&here, (port(tap, "tap0"), sleeper()));
    let index = || here.run("cat", &["/sys/class/net/tap0/ifindex"]);
    let first = index()?;
    here.run("ip", &["link", "delete", "tap0"])?;
    wait_for("another tap", || index().ok().filter(|index| *index != first));
    millrace.wait_up(&["up"]);

    // In one batch, so that the name is taken before the switch can use it again.
    std::fs::write(home.path("batch"), "link delete tap0\nlink add tap0 type veth peer name other\n").unwrap();
    let batch = home.path("batch").display().to_string();
    wait_for("the name to be taken", || here.run("ip", &["-batch", &batch]).ok());
    wait_for_reason(&millrace, "tap0");
    // No queue can wake the worker.
    assert_asleep(&millrace);
    here.run("ip", &["link", "delete", "tap0"])?;
    millrace.wait_up(&["up"]);
    millrace.stop();
    Ok(())
}

#[test]
fn a_port_is_as_its_interface_is() -> Result<()> {
    for (kind, driver) in EVERY_KIND {
        let (here, there) = if kind == "tap" { (quiet_namespace()?, None) } else { two_namespaces().map(both)? };
        let home = Home::new();
        let millrace = home.start_inside(&here, (port(driver, "up0"), sleeper()));
        millrace.wait_up(&["up"]);
        for _ in 0..2 {
            here.run("ip", &["link", "set", "up0", "down"])?;
            wait_for_reason(&millrace, "interface up0 is administratively down");
            // Kernel messages about the interface are no frames: the worker still sleeps.
            if kind == "af_packet" {
                assert_asleep(&millrace);
            }
            here.run("ip", &["link", "set", "up0", "up"])?;
            millrace.wait_up(&["up"]);
        }
        if let Some(there) = &there {
            there.run("ip", &["link", "set", "up1", "down"])?;
            wait_for_reason(&millrace, "interface up0 has no carrier");
            there.run("ip", &["link", "set", "up1", "up"])?;
            millrace.wait_up(&["up"]);
        }
        here.run("ip", &["link", "set", "up0", "mtu", "1400"])?;
        wait_for(&format!("the MTU of {kind}: {:?}", millrace.port("up").0.detail), || {
            let port = millrace.port("up").0;
            (port.up && port.detail.contains("MTU 1400")).then_some(())
        });
        millrace.stop();
    }
    Ok(())
}

fn both((here, there): (Namespace, Namespace)) -> (Namespace, Option<Namespace>) {
    (here, Some(there))
}

/// Reads the next message of an OpenFlow channel; returns its type and body.
fn message(stream: &mut UnixStream) -> (u8, Vec<u8>) {
    let mut header = [0; 8];
    stream.read_exact(&mut header).expect("a message");
    let mut body = vec![0; usize::from(u16::from_be_bytes([header[2], header[3]])) - 8];
    stream.read_exact(&mut body).expect("all of it");
    (header[1], body)
}

#[test]
fn controllers_hear_of_the_carrier() -> Result<()> {
    for driver in KINDS {
        let (here, there) = two_namespaces()?;
        let home = Home::new();
        let bridge = by_flows(bridge("br0", ["up", "sink"]));
        let config = (ports(driver, "up0"), bridge, listen("unix:of.sock"), sleeper());
        let millrace = home.start_inside(&here, config);
        millrace.wait_up(&["up"]);
        let mut controller = UnixStream::connect(home.path("of.sock")).expect("it listens");
        controller.set_read_timeout(Some(e2e::SOON)).unwrap();
        // HELLO of version 1.3.
        controller.write_all(&[4, 0, 0, 8, 0, 0, 0, 1]).unwrap();
        assert_eq!(message(&mut controller).0, 0);
        // OFPT_PORT_STATUS of this port, whose last field but six is its state.
        let mut heard = |down: bool| {
            loop {
                let (kind, body) = message(&mut controller);
                if kind == 12 && body[24..].starts_with(b"up\0") {
                    assert_eq!(body[0], 2, "OFPPR_MODIFY");
                    let state = u32::from_be_bytes(body[44..48].try_into().unwrap());
                    assert_eq!(state & 1 == 1, down, "OFPPS_LINK_DOWN in {state}");
                    return;
                }
            }
        };
        there.run("ip", &["link", "set", "up1", "down"])?;
        heard(true);
        there.run("ip", &["link", "set", "up1", "up"])?;
        heard(false);
        millrace.stop();
    }
    Ok(())
}

#[test]
fn frames_that_the_kernel_drops_are_counted() -> Result<()> {
    const SENT: u64 = 20_000;
    let (here, there) = two_namespaces()?;
    let (home, far) = (Home::new(), Home::new());
    let mut millrace = home.start_inside(&here, (port(af_packet, "up0"), e2e::poller()));
    millrace.wait_up(&["up"]);
    millrace.daemon.signal(Signal::STOP)?;
    let frames = (SENT as i64).into();
    let burst = Generator { size: 1400.into(), rate: 40_000.into(), frames, ..Generator::default() };
    let sender = sender(&far, &there, burst);
    let out = || sender.port("cable").tx();
    wait_for("all frames", || {
        (out() + sender.port("cable").dropped() + sender.port("source").dropped() >= SENT).then_some(())
    });
    let arrived = here.run("cat", &["/sys/class/net/up0/statistics/rx_packets"])?;
    let arrived: u64 = arrived.trim().parse().expect("a number");
    assert!(arrived <= out() + 10 && arrived > SENT / 2, "{arrived} of {} frames", out());
    millrace.daemon.signal(Signal::CONT)?;
    let lost = || millrace.port("up").drops().get("kernel-loss").copied().unwrap_or(0);
    wait_for(&format!("{arrived} frames: {:?}", millrace.port("up").0), || {
        (millrace.port("up").rx() + lost() >= arrived).then_some(())
    });
    assert!(lost() > SENT / 4, "{} lost: the ring had room for all?", lost());
    assert!(millrace.port("up").rx() + lost() <= arrived + 10);
    sender.stop();
    millrace.stop();
    Ok(())
}

#[test]
fn files_and_sockets_are_waited_for_as_well() -> Result<()> {
    let home = Home::new();
    let replay = replay("from", "later.pcap");
    let patch = patch("from", "sink");
    let taken = UnixListener::bind(home.socket("a")).unwrap();
    let config = (sink("sink"), replay, patch, patched("a", "b"), patched("c", "d"), sleeper());
    let millrace = home.start(&config);
    let pump = honest(&home, &millrace)?;
    let detail = |port: &str| millrace.port(port).0.detail;
    assert!(detail("from").contains("later.pcap"), "{}", detail("from"));
    assert!(detail("a").contains("a.sock"), "{}", detail("a"));
    drop(taken);
    // One frame of 60 bytes.
    let header = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1, 0, 0, 60, 60].map(u32::to_le_bytes).concat();
    std::fs::write(home.path("later.part"), [header, vec![0; 60]].concat()).unwrap();
    std::fs::rename(home.path("later.part"), home.path("later.pcap")).unwrap();
    millrace.wait_up(&["from"]);
    wait_for("the frame", || (millrace.port("sink").tx() == 1).then_some(()));
    wait_for("the socket", || detail("a").contains("no guest is connected").then_some(()));
    let _guests = ["a", "b"].map(|port| Options::new(home.socket(port)).connect().unwrap());
    millrace.wait_up(&["a", "b"]);
    pump.wait_for(100, e2e::SOON)?;
    assert!(pump.stop()?.is_complete());
    millrace.stop();
    Ok(())
}

#[test]
fn a_strict_start_is_refused_and_a_check_warns() -> Result<()> {
    let here = quiet_namespace()?;
    let home = Home::new();
    let missing = ["one", "two"].map(|name| af_packet(name, &format!("no-{name}")));
    let file = home.configure((missing, patched("c", "d")));
    let program = e2e::program().to_str().expect("a path in UTF-8");
    let run = |arguments: &[&str]| -> std::process::Output {
        let mut command: Command = here.command(program);
        command.args(arguments).arg(&file).output().expect("it runs")
    };
    let strict = run(&["run", "--strict", "--config"]);
    assert_eq!(strict.status.code(), Some(1));
    let check = run(&["check"]);
    assert!(check.status.success(), "{check:?}");
    for output in [strict, check] {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        for name in ["one", "two"] {
            let named = |line: &str| line.contains(&format!("port \"{name}\"")) && line.contains(&format!("no-{name}"));
            assert!(said.lines().any(named), "{name} is not in {said}");
        }
    }
    assert!(!home.socket("c").exists() && !home.path("control").exists(), "it left its sockets behind");
    Ok(())
}
