//! All other kinds of ports, VLANs, and an operator's actions on a running switch.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use api::Drops;
use capture::Reader;
use e2e::cable::two_namespaces;
use e2e::transfer::move_file;
use e2e::virtio::{Exchange, Guest, Options, Pump};
use e2e::{Home, wait_for};
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;
use lab::process::Daemon;
use rustix::process::Signal;

fn uplink() -> RawPort {
    af_packet("up", "up0")
}

fn ping(namespace: &Namespace, address: &str, size: &str) -> Result<String> {
    namespace.run("ping", &["-c", "3", "-i", "0.2", "-W", "2", "-s", size, address])
}

#[test]
fn a_tap_and_an_interface_talk() -> Result<()> {
    let (here, there) = two_namespaces()?;
    let home = Home::new();
    let config = (tap("tap0", "tap0"), uplink(), patch("tap0", "up"), sleeper());
    let millrace = home.start_inside(&here, &config);
    here.run("ip", &["address", "add", "192.0.2.1/24", "dev", "tap0"])?;
    there.run("ip", &["address", "add", "192.0.2.2/24", "dev", "up1"])?;
    for size in ["56", "1400", "4000"] {
        ping(&here, "192.0.2.2", size)?;
        ping(&there, "192.0.2.1", size)?;
    }
    move_file(&home, &here, &there, "192.0.2.2")?;
    move_file(&home, &there, &here, "192.0.2.1")?;
    let (tap, up) = (millrace.port("tap0"), millrace.port("up"));
    assert!(tap.rx() > 0 && up.rx() > 0, "{:?} {:?}", tap.0, up.0);
    assert_eq!((tap.rx(), up.rx()), (up.tx() + up.dropped(), tap.tx() + tap.dropped()), "{:?} {:?}", tap.0, up.0);
    millrace.stop();
    Ok(())
}

/// The kernel leaves checksums to the other end of a virtual cable, which programs that bypass its network stack do not have.
#[test]
fn checksums_that_the_sender_left_are_finished() -> Result<()> {
    for (driver, says) in [(af_packet as fn(&str, &str) -> RawPort, "copied"), (af_xdp, "ethtool -K END tx off")] {
        let (here, there) = two_namespaces()?;
        let home = Home::new();
        let config = (tap("tap0", "tap0"), driver("up", "up0"), patch("tap0", "up"), sleeper());
        let millrace = home.start_inside(&here, &config);
        here.run("ip", &["address", "add", "192.0.2.1/24", "dev", "tap0"])?;
        there.run("ip", &["address", "add", "192.0.2.2/24", "dev", "up1"])?;
        move_file(&home, &there, &here, "192.0.2.1")?;
        // A large datagram of UDP, in fragments: the kernel sums up their whole before it sends them.
        for size in [1, 999, 1472, 9000] {
            echo(&here, &there, size)?;
        }
        move_file(&home, &here, &there, "192.0.2.2")?;
        wait_for("what the port says of checksums", || millrace.port("up").0.detail.contains(says).then_some(()));
        millrace.stop();
    }
    Ok(())
}

/// Sends a datagram of this size from `there` to an address of `here`, and back.
fn echo(here: &Namespace, there: &Namespace, size: usize) -> Result<()> {
    let bind = |namespace: &Namespace, address: &'static str| {
        namespace.within(move || std::net::UdpSocket::bind((address, 5002)).expect("a socket"))
    };
    let (near, far) = (bind(here, "192.0.2.1")?, bind(there, "192.0.2.2")?);
    let sent: Vec<u8> = (0..size).map(|at| at as u8).collect();
    let mut received = vec![0; size + 1];
    near.set_read_timeout(Some(e2e::SOON)).and(far.set_read_timeout(Some(e2e::SOON))).expect("a timeout");
    far.send_to(&sent, "192.0.2.1:5002").expect("room to send");
    let (len, from) = near.recv_from(&mut received).expect("the datagram, with a right checksum");
    assert_eq!(received[..len], sent);
    near.send_to(&sent, from).expect("room to send");
    let len = far.recv(&mut received).expect("the answer");
    assert_eq!(received[..len], sent);
    Ok(())
}

/// Returns a bridge of access ports in VLANs 10, 20 and 30, and a trunk.
fn vlan_bridge(trunk: RawPort) -> RawFile {
    let taps =
        [10, 20, 30].map(|vlan| (format!("tap{vlan}"), vlan)).map(|(name, vlan)| access(vlan, tap(&name, &name)));
    file((taps, trunk, bridge("br0", ["tap10", "tap20", "tap30", "up"]), sleeper()))
}

#[test]
fn vlans_are_kept_apart_across_a_cable() -> Result<()> {
    let (here, there) = two_namespaces()?;
    there.run("ip", &["link", "set", "up1", "arp", "off"])?;
    let (home, other_home) = (Home::new(), Home::new());
    let millrace = home.start_inside(&here, vlan_bridge(trunk(&[10, 20], uplink())));
    let far_bridge = vlan_bridge(trunk_of_all(af_packet("up", "up1")));
    let other = other_home.start_inside(&there, far_bridge);
    for vlan in ["10", "20", "30"] {
        for (namespace, number) in [(&here, 1), (&there, 2)] {
            let address = format!("198.18.{vlan}.{number}/24");
            namespace.run("ip", &["address", "add", &address, "dev", &format!("tap{vlan}")])?;
        }
    }
    for vlan in ["10", "20"] {
        ping(&here, &format!("198.18.{vlan}.2"), "56")?;
        ping(&there, &format!("198.18.{vlan}.1"), "1400")?;
    }
    move_file(&home, &there, &here, "198.18.10.1")?;
    let vlans: Vec<_> = millrace.macs().into_iter().map(|entry| (entry.port, entry.vlan)).collect();
    for wanted in [("tap10", 10), ("tap20", 20), ("up", 10), ("up", 20)] {
        assert!(vlans.iter().any(|(port, vlan)| (port.as_str(), *vlan) == wanted), "{wanted:?} is not in {vlans:?}");
    }
    let heard = || ["tap10", "tap20", "tap30"].map(|port| millrace.port(port).tx());
    // The kernels probe each other now and then.
    for namespace in [&here, &there] {
        namespace.run("ip", &["neighbour", "flush", "dev", "tap20"])?;
    }
    let before = wait_for("silence", || {
        let before = heard();
        std::thread::sleep(Duration::from_millis(100));
        (heard() == before).then_some(before)
    });
    // No host has this address: the request is heard wherever the VLAN reaches.
    ping(&there, "198.18.10.9", "56").unwrap_err();
    let after = heard();
    assert!(after[0] > before[0], "no broadcast in VLAN 10: {before:?} {after:?}");
    assert_eq!(after[1..], before[1..], "a broadcast of VLAN 10 reached others");
    // Only the other side's trunk carries this one.
    ping(&there, "198.18.30.1", "56").unwrap_err();
    let drops = millrace.drops();
    assert!(drops["up"]["forward"]["vlan"] > 0, "{drops:?}");
    assert_eq!(heard()[2], before[2]);
    millrace.stop();
    other.stop();
    Ok(())
}

#[test]
fn tags_are_on_the_wire() -> Result<()> {
    let home = Home::new();
    let ports = [access(10, vhost_user("a")), trunk(&[10, 20], vhost_user("t"))];
    let millrace = home.start((ports, bridge("br0", ["a", "t"]), sleeper()));
    let mut access = Options::new(home.socket("a")).connect()?;
    let mut trunk = Options::new(home.socket("t")).packed().connect()?;
    millrace.wait_up(&["a", "t"]);
    let addresses = [[0xff; 6], [2, 0, 0, 0, 0, 1]].concat();
    let rest = [&[0x88, 0xb5][..], &[7; 46]].concat();
    let untagged: &[&[u8]] = &[&addresses, &rest];
    let tagged = |vlan: u8| [&addresses[..], &[0x81, 0, 0, vlan], &rest].concat();
    let next = |guest: &mut Guest| -> Result<Vec<u8>> {
        let mut frame = Vec::new();
        assert!(guest.wait(e2e::SOON)?, "no frame came");
        guest.receive(1, |bytes| {
            frame.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok(frame)
    };
    access.send(untagged, 1)?;
    access.flush();
    assert_eq!(next(&mut trunk)?, tagged(10));
    // Only the third of these is for the access port.
    trunk.send(untagged, 1)?;
    trunk.send(&[&tagged(20)], 1)?;
    trunk.send(&[&tagged(10)], 1)?;
    trunk.flush();
    assert_eq!(next(&mut access)?, untagged.concat());
    assert_eq!(access.receive(1, |_| Ok(()))?, 0);
    let dropped = || millrace.port("t").drops().get("vlan").copied();
    wait_for("the frame of the other VLAN to be counted", || dropped().filter(|&count| count >= 1));
    assert_eq!(dropped(), Some(1));
    millrace.stop();
    Ok(())
}

/// Returns a port that generates 1000 frames of 128 bytes.
fn thousand() -> RawPort {
    port("from", Generator { size: 128.into(), frames: 1000.into(), ..Generator::default() })
}

/// Runs a patch until `frames` frames came out of it or were dropped, and stops it; returns the drops by stage and
/// reason. The destination must be opened before the source, or the first frames are dropped.
fn run_to_end(home: &Home, ports: [RawPort; 2], frames: u64) -> BTreeMap<String, BTreeMap<String, u64>> {
    let millrace = home.start((ports, patch("from", "to")));
    let all = || millrace.port("to").tx() + millrace.port("from").dropped();
    wait_for(&format!("{frames} frames, of {:?}", millrace.stats().ports), || (all() == frames).then_some(()));
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(all(), frames, "more frames than there should be");
    let (from, to) = (millrace.port("from"), millrace.port("to"));
    assert_eq!(to.tx_bytes(), 128 * to.tx(), "{:?}", to.0);
    let drops: Drops = serde_json::from_str(&millrace.ctl("drops --json")).unwrap();
    millrace.stop();
    let stages = drops.get("from").cloned().unwrap_or_default();
    let sum: u64 = stages.values().flat_map(BTreeMap::values).sum();
    assert_eq!(sum, from.dropped(), "{:?}", from.0);
    stages
}

#[test]
fn frames_are_generated_recorded_and_replayed() {
    let home = Home::new();
    let seen = RawPort { record_to: "seen.pcap".into(), ..thousand() };
    run_to_end(&home, [record("to", "out.pcap"), seen], 1000);
    // File header, and one header per frame.
    let size = 24 + 1000 * (16 + 128);
    for name in ["out.pcap", "seen.pcap"] {
        assert_eq!(std::fs::metadata(home.path(name)).unwrap().len(), size, "{name}");
    }
    let mut editcap = Command::new("editcap");
    editcap.args(["-F", "pcapng"]).args([home.path("out.pcap"), home.path("out.pcapng")]).env("HOME", home.path("."));
    let converted = editcap.status().expect("editcap runs; it is in the Debian package wireshark-common");
    assert!(converted.success(), "editcap: {converted}");
    for name in ["out.pcap", "seen.pcap", "out.pcapng"] {
        run_to_end(&home, [sink("to"), replay("from", name)], 1000);
    }
}

fn captured(path: &Path) -> Vec<Vec<u8>> {
    Reader::open(path).unwrap().map(|frame| frame.unwrap().bytes).collect()
}

#[test]
fn a_loopback_port_returns_its_frames() {
    let home = Home::new();
    run_to_end(&home, [record("to", "in.pcap"), thousand()], 1000);
    // One worker for both halves of the port, or one for each.
    let own = RawWorker { ports: ["from".to_owned()].into_iter().collect(), ..sleeper() };
    for workers in [Vec::new(), vec![own, sleeper()]] {
        let (replay, record) = ("in.pcap".into(), "out.pcap".into());
        let from = port("from", Pcap { replay, record, rate: 2000.into(), ..Pcap::default() });
        let millrace = home.start((from, loopback("to"), patch("from", "to"), workers));
        wait_for("all frames to come back", || (millrace.port("from").tx() == 1000).then_some(()));
        millrace.stop();
        let [sent, back] = ["in.pcap", "out.pcap"].map(|name| captured(&home.path(name)));
        assert!(sent.len() == 1000 && sent == back, "{} frames, {} came back", sent.len(), back.len());
    }
}

#[test]
fn injected_faults_are_counted_and_repeatable() {
    let home = Home::new();
    let with_seed = |seed: i64| {
        let fault = RawFault { drop: 0.2.into(), seed: seed.into(), ..RawFault::default() };
        let drops = run_to_end(&home, [sink("to"), RawPort { fault: fault.into(), ..thousand() }], 1000);
        let injected = drops["fault"]["injected"];
        assert_eq!(drops, [("fault".to_owned(), [("injected".to_owned(), injected)].into())].into());
        injected
    };
    let first = with_seed(7);
    assert!((120..280).contains(&first), "{first} of 1000 frames dropped at a probability of 0.2");
    assert_eq!(with_seed(7), first);
}

#[test]
fn a_reload_disturbs_no_other_port() {
    let home = Home::new();
    let config = file((patched("a", "b"), e2e::poller()));
    let mut millrace = home.start(&config);
    let [a, b] = ["a", "b"].map(|port| Options::new(home.socket(port)).connect().unwrap());
    millrace.wait_up(&["a", "b"]);
    let pump = Pump::start(Exchange::new([a, b], [1, 2], 60..=1500, 64));
    let third = file((&config, sink("c")));
    for turn in 0..20 {
        let config = if turn % 2 == 0 { &third } else { &config };
        pump.wait_for(100, e2e::SOON).unwrap();
        home.configure(config);
        let mark = millrace.daemon.log().mark();
        millrace.daemon.signal(Signal::HUP).unwrap();
        millrace.wait_said(mark, if turn % 2 == 0 { "added port c" } else { "removed port c" });
        assert_eq!(millrace.stats().ports.len(), if turn % 2 == 0 { 3 } else { 2 });
        // A file with an error changes nothing.
        home.configure("port = 1");
        let mark = millrace.daemon.log().mark();
        millrace.daemon.signal(Signal::HUP).unwrap();
        millrace.wait_said(mark, "m.toml:1:8");
    }
    pump.wait_for(100, e2e::SOON).unwrap();
    let tally = pump.stop().unwrap();
    assert!(tally.is_complete(), "{tally:?}");
    for (port, way) in [("a", 0), ("b", 1)] {
        let port = millrace.counted(port, tally.sent[way], tally.received[1 - way]);
        assert!(port.drops().is_empty(), "{:?}", port.0);
    }
    println!("{} frames during 40 reloads, none lost", tally.total());
    millrace.stop();
}

#[test]
fn a_bad_file_is_refused_with_its_line_and_column() -> Result<()> {
    let home = Home::new();
    let file = home.configure("[[port]]\nname = \"a\"\ndriver = \"vhost-usr\"\nsocket = \"a.sock\"\n");
    let mut command = Command::new(e2e::program());
    command.args(["run", "--config"]).arg(&file);
    let mut daemon = Daemon::spawn("millrace", command)?;
    assert_eq!(daemon.wait(e2e::SOON)?.code(), Some(1));
    let place = format!("{}:3:10", file.display());
    daemon.wait_for_line(&place, e2e::SOON, |line| line.contains(&place))?;
    assert!(!home.path("control").exists(), "it left its control socket behind");
    Ok(())
}
