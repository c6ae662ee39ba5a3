//! VXLAN tunnels that end at a port, and VLAN tags that change on the way: to a guest whose buffers frames are received into,
//! and to one that gets copies.

use e2e::host::Host;
use e2e::mapped::{one_wire, trusted};
use e2e::virtio::{Exchange, Guest, Options};
use e2e::{Home, Millrace, wait_for};
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;

/// Frames each way.
const FRAMES: u64 = 4000;

/// Every size that fits the usual MTU inside a tunnel over IPv4.
const SIZES: std::ops::RangeInclusive<usize> = 60..=1464;

/// Addresses of both ends of a tunnel, the switch's first.
const V4: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
const V6: [&str; 2] = ["2001:db8::1", "2001:db8::2"];
const MACS: [&str; 2] = ["02:00:00:00:01:01", "02:00:00:00:01:02"];

/// Makes a tunnel end at a port: this one of its two ends.
fn tunnelled(ips: [&str; 2], here: usize, port: RawPort) -> RawPort {
    let end = |index: usize| RawTunnelEnd { mac: MACS[index].into(), ip: ips[index].into() };
    let (local, remote) = (end(here).into(), end(1 - here).into());
    RawPort { vxlan: RawVxlan { vni: 100.into(), local, remote, ..RawVxlan::default() }.into(), ..port }
}

/// Makes the kernel the other end of the tunnel: `up1` is the cable, `vx0` the inner interface.
fn linux_end(there: &Namespace, ips: [&str; 2]) -> Result<()> {
    let [ours, its] = ips;
    let v6 = ours.contains(':');
    let ip = |line: String| there.run("ip", &line.split(' ').collect::<Vec<_>>());
    ip(format!("link set up1 address {}", MACS[1]))?;
    if v6 {
        there.run("sh", &["-c", "echo 0 >/proc/sys/net/ipv6/conf/up1/disable_ipv6"])?;
        ip(format!("-6 address add {its}/64 dev up1 nodad"))?;
    } else {
        ip(format!("address add {its}/24 dev up1"))?;
    }
    for vni in [100, 101] {
        let name = if vni == 100 { "vx0" } else { "vx1" };
        ip(format!("link add {name} type vxlan id {vni} local {its} remote {ours} dstport 4789 dev up1"))?;
        ip(format!("address add 10.{}.0.2/24 dev {name}", vni - 99))?;
        ip(format!("link set {name} up"))?;
    }
    Ok(())
}

fn ping(there: &Namespace, size: u32, to: &str) -> Result<String> {
    there.run("ping", &["-c", "5", "-i", "0.05", "-W", "5", "-M", "do", "-s", &size.to_string(), to])
}

/// Tests a tunnel from the kernel's own VXLAN to a guest; ping checks the payloads.
fn linux_to_guest(driver: fn(&str, &str) -> RawPort, ips: [&str; 2], mapped: bool) -> Result<()> {
    let (here, there) = e2e::cable::two_namespaces()?;
    linux_end(&there, ips)?;
    let home = Home::new();
    let wan = tunnelled(ips, 0, driver("wan", "up0"));
    let joined = if mapped { file(one_wire()) } else { file(patch("wan", "fw")) };
    // A sleeping worker is not told when the first buffers can be lent.
    let worker = if mapped { e2e::poller() } else { sleeper() };
    let millrace = home.start_inside(&here, (wan, vhost_user("fw"), joined, worker));
    let host = Host::start(home.socket("fw"), "10.1.0.1");
    millrace.wait_up(&["wan", "fw"]);
    if mapped {
        millrace.wait_mapped();
    }
    let overhead = if ips == V4 { 50 } else { 70 };
    for size in [56, 1000, 1500 - overhead - 28] {
        ping(&there, size, "10.1.0.1")?;
    }
    // The kernel was not told the switch's address.
    let neighbour = there.run("ip", &["neigh", "show", ips[0], "dev", "up1"])?;
    assert!(neighbour.contains(MACS[0]) && millrace.port("wan").0.neighbours_answered > 0, "{neighbour}");
    let seen = millrace.port("fw");
    assert!(seen.tx() >= 15 && seen.rx() >= 15, "{seen:?}");
    if mapped {
        let mapping = millrace.mapping();
        assert!(mapping.zero_copy && mapping.in_place >= 15 && mapping.copied == 0, "{mapping:?}");
    }
    // Frames of no tunnel, and frames of another one.
    assert!(there.run("ping", &["-c", "1", "-W", "1", "10.2.0.1"]).is_err());
    wait_for("drops to be named", || millrace.port("wan").drops().contains_key("other-vni").then_some(()));
    let drops = millrace.port("wan").0.drops;
    // The kernel may lose frames while it gets the guest's memory.
    let expected = |reason: &String| ["other-vni", "not-tunnel", "kernel-loss"].contains(&&**reason);
    assert!(drops.keys().all(expected), "{drops:?}");
    there.run("ip", &["neigh", "replace", "192.0.2.77", "lladdr", MACS[0], "dev", "up1"])?;
    if ips == V4 {
        assert!(there.run("ping", &["-c", "5", "-i", "0.05", "-W", "1", "192.0.2.77"]).is_err());
        assert!(millrace.port("wan").drops()["not-tunnel"] >= 5);
    }
    // Drop it while the switch is still there.
    drop(host);
    millrace.stop();
    Ok(())
}

#[test]
fn linux_over_packet_sockets() -> Result<()> {
    linux_to_guest(af_packet, V4, false)?;
    linux_to_guest(af_packet, V6, false)
}

#[test]
fn linux_over_xdp() -> Result<()> {
    linux_to_guest(af_xdp, V4, false)?;
    linux_to_guest(af_xdp, V6, false)
}

#[test]
fn linux_over_xdp_into_a_guests_buffers() -> Result<()> {
    linux_to_guest(af_xdp, V4, true)?;
    linux_to_guest(af_xdp, V6, true)
}

/// A Millrace between `wan.sock`, which the switch connects to, and the port `far`: a NIC and the network behind it. In between
/// is a virtio-user port, at which a tunnel can end and tags can change.
struct Wire {
    home: Home,
    _millrace: Millrace,
}

impl Wire {
    /// Creates a wire whose port in between is changed; `far` is the far one, and `joined` joins them.
    fn new(between: impl FnOnce(RawPort) -> RawPort, far: RawPort, joined: impl Part) -> Wire {
        let home = Home::new();
        let between = between(virtio_user("between", "back.sock".as_ref()));
        let millrace = home.start((patched("wan", "back"), between, far, joined, sleeper()));
        millrace.wait_up(&["between"]);
        Wire { home, _millrace: millrace }
    }

    fn far(&self) -> Result<Guest> {
        Options::new(self.home.socket("far")).connect()
    }

    /// Returns the configuration of the port that is connected to it.
    fn port(&self, packed: bool) -> RawPort {
        let socket = socket(&self.home.socket("wan"));
        port("wan", VirtioUser { socket, packed: packed.into(), ..VirtioUser::default() })
    }
}

#[test]
fn every_frame_comes_out_of_the_tunnel_in_place() -> Result<()> {
    for (packed, ips) in [(false, V4), (true, V4), (false, V6)] {
        let wire = Wire::new(|port| tunnelled(ips, 1, port), vhost_user("far"), patch("between", "far"));
        let home = Home::new();
        let wan = tunnelled(ips, 0, wire.port(packed));
        let millrace = home.start((wan, vhost_user("fw"), one_wire(), e2e::poller()));
        millrace.wait_up(&["wan"]);
        let options = Options::new(home.socket("fw"));
        let guest = if packed { options.packed() } else { options }.connect()?;
        let far = wire.far()?;
        millrace.wait_mapped();
        let sizes = *SIZES.start()..=SIZES.end() - if ips == V4 { 0 } else { 20 };
        let mut exchange = Exchange::new([guest, far], [1, 2], sizes, 64);
        exchange.run(FRAMES, e2e::SOON)?;
        let mapping = millrace.mapping();
        assert!(mapping.zero_copy && mapping.in_place > FRAMES / 2, "{mapping:?}");
        assert!(mapping.in_place + mapping.copied >= FRAMES && mapping.elsewhere == 0, "{mapping:?}");
        for port in ["wan", "fw"] {
            assert_eq!(millrace.port(port).dropped(), 0, "{:?}", millrace.port(port).0);
        }
        millrace.stop();
    }
    Ok(())
}

/// Frames for other guests in the bridge are received into the mapped guest's buffers too, and delivered from there.
#[test]
fn a_tunnel_to_several_guests() -> Result<()> {
    let wire = Wire::new(|port| tunnelled(V4, 1, port), vhost_user("far"), patch("between", "far"));
    let home = Home::new();
    let bridge = bridge("br0", ["wan", "fw", "other"]);
    let ports = (vhost_user("fw"), vhost_user("other"));
    let wan = tunnelled(V4, 0, wire.port(false));
    let millrace = home.start((wan, ports, trusted(), bridge, e2e::poller()));
    millrace.wait_up(&["wan"]);
    let [guest, other] = ["fw", "other"].map(|port| Options::new(home.socket(port)).connect());
    let far = wire.far()?;
    millrace.wait_mapped();
    let mut exchange = Exchange::new([guest?, far], [1, 2], SIZES, 32);
    exchange.run(FRAMES / 2, e2e::SOON)?;
    let [_guest, far] = exchange.into_guests();
    let mut other = other?;
    // Frames flooded before their destination was known.
    other.receive(usize::MAX, |_| Ok(()))?;
    Exchange::new([other, far], [3, 2], SIZES, 32).run(FRAMES / 2, e2e::SOON)?;
    let mapping = millrace.mapping();
    assert!(mapping.in_place > FRAMES / 4 && mapping.elsewhere > 0, "{mapping:?}");
    millrace.stop();
    Ok(())
}

/// Returns the switch's bridge of a mapped port `wan` and its guest.
fn bridged() -> RawFile {
    file((trusted(), bridge("br0", ["wan", "fw"])))
}

/// Exchanges frames between two access ports, whose tags are added and removed at both ends of a trunk, and checks that they
/// are received into the mapped guest's buffers.
fn tags_come_and_go(millrace: &Millrace, home: &Home, far: Guest) -> Result<()> {
    millrace.wait_up(&["wan"]);
    let guest = Options::new(home.socket("fw")).connect()?;
    millrace.wait_mapped();
    let sizes = *SIZES.start()..=SIZES.end() - 4;
    // As many in flight as the guest has buffers that are not lent: the first frames are copied.
    let mut exchange = Exchange::new([guest, far], [1, 2], sizes, 16);
    let ran = exchange.run(FRAMES / 2, e2e::SOON);
    let mapping = millrace.mapping();
    ran.map_err(|error| panic!("{error}: {mapping:?}, {:?}", millrace.drops()))?;
    assert!(mapping.zero_copy && mapping.in_place > FRAMES / 4 && mapping.elsewhere == 0, "{mapping:?}");
    Ok(())
}

/// A guest at an access port behind a trunk: the tag is removed in the guest's own buffers.
#[test]
fn a_tag_is_taken_off_in_place() -> Result<()> {
    for vxlan in [false, true] {
        let joined = bridge("br1", ["between", "far"]);
        let end = |here, port| if vxlan { tunnelled(V4, here, port) } else { port };
        let wire = Wire::new(|port| trunk(&[10], end(1, port)), access(10, vhost_user("far")), joined);
        let home = Home::new();
        let wan = trunk(&[10], end(0, wire.port(false)));
        let millrace = home.start((wan, access(10, vhost_user("fw")), bridged(), e2e::poller()));
        tags_come_and_go(&millrace, &home, wire.far()?)?;
        millrace.stop();
    }
    Ok(())
}

/// Both directions with AF_XDP, which receives frames such that only their addresses have to move; a reload swaps the
/// directions.
#[test]
fn tags_come_and_go_in_place_by_xdp() -> Result<()> {
    let (here, there) = e2e::cable::two_namespaces()?;
    let (home, far) = (Home::new(), Home::new());
    type Vlans = fn(RawPort) -> RawPort;
    let wire = |[cable, far]: [Vlans; 2]| {
        let ports = [cable(af_packet("cable", "up1")), far(vhost_user("far"))];
        (ports, bridge("br1", ["cable", "far"]), sleeper())
    };
    let switch = |[wan, fw]: [Vlans; 2]| {
        let ports = [wan(af_xdp("wan", "up0")), fw(vhost_user("fw"))];
        (ports, bridged(), e2e::poller())
    };
    let (trunk, access, none): (Vlans, Vlans, Vlans) =
        (|port| trunk(&[10], port), |port| access(10, port), |port| port);
    let wires = far.start_inside(&there, wire([trunk, access]));
    let millrace = home.start_inside(&here, switch([trunk, access]));
    tags_come_and_go(&millrace, &home, Options::new(far.socket("far")).connect()?)?;
    millrace.wait_down("fw");
    far.configure(wire([none, none]));
    wires.reload();
    home.configure(switch([access, trunk]));
    millrace.reload();
    tags_are_put_on(&millrace, &home, Options::new(far.socket("far")).connect()?)?;
    millrace.stop();
    Ok(())
}

/// The opposite direction: the guest is at a trunk, and gets frames with an added tag.
fn tags_are_put_on(millrace: &Millrace, home: &Home, mut far: Guest) -> Result<()> {
    millrace.wait_up(&["wan"]);
    let mut guest = Options::new(home.socket("fw")).connect()?;
    millrace.wait_mapped();
    // The first frames land in the switch's own buffers, which are there for other guests of the bridge.
    for len in (1315..1515).rev().chain([60usize, 61, 500, 1514]) {
        let mut frame: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        far.reap()?;
        assert!(far.send(&[&frame], 1)?);
        far.flush();
        let mut seen = Vec::new();
        wait_for("the frame", || {
            let take = |bytes: &[u8]| {
                seen.extend_from_slice(bytes);
                Ok(())
            };
            guest.receive(1, take).unwrap();
            (!seen.is_empty()).then_some(())
        });
        assert_eq!(seen, [&frame[..12], &[0x81, 0, 0, 10], &frame[12..]].concat(), "{len} bytes");
    }
    let mapping = millrace.mapping();
    assert!(mapping.zero_copy && mapping.in_place >= 4 && mapping.elsewhere == 0, "{mapping:?}");
    assert!(guest.is_connected());
    Ok(())
}

#[test]
fn a_tag_is_put_on_in_place() -> Result<()> {
    let wire = Wire::new(|port| port, vhost_user("far"), patch("between", "far"));
    let home = Home::new();
    let ports = [access(10, wire.port(false)), trunk(&[10], vhost_user("fw"))];
    let millrace = home.start((ports, bridged(), e2e::poller()));
    tags_are_put_on(&millrace, &home, wire.far()?)?;
    millrace.stop();
    Ok(())
}
