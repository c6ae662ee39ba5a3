//! Hosts with the kernel's default settings, behind ports of every kind and with every choice of offloads, that talk to each other: checksums are
//! right, segments have the right lengths, and nothing is dropped.

mod merged;
mod peers;

use e2e::{Home, Millrace, SOON, wait_for};
use engine::port::offloads::OffloadsKey;
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;
use netdev::TapWrite;
use nix::sys::socket::{setsockopt, sockopt};
use packet::offload::Offloads;
use std::io::{IoSlice, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::thread;

/// Bytes of a stream: several messages of the longest.
const STREAM: usize = 300_000;

/// Payload of a datagram, and datagrams of a message.
const DATAGRAM: usize = 1400;
const DATAGRAMS: usize = 20;

/// A VLAN.
const VLAN: i64 = 10;

/// A port, and the interface by which its host reaches it.
struct Kind {
    name: &'static str,
    port: fn(&str) -> RawPort,
    end: End,
}

/// The interface of a host, `eth0`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The switch makes it, and it is moved to the host.
    Tap,
    /// A driver of the switch makes it, where the switch is, and it stays there: the switch's namespace is the host.
    OfDriver,
    /// One of a veth pair.
    Cable,
    /// The same, on which the host leaves no work: its port can't be told of any.
    PlainCable,
}

fn tap_with(name: &str, offloads: Option<OffloadsKey>) -> RawPort {
    port(name, Tap { interface: name.into(), offloads: offloads.map(Into::into).unwrap_or_default(), ..Tap::default() })
}

fn packet_with(name: &str, offloads: Option<OffloadsKey>) -> RawPort {
    port(name, AfPacket { interface: name.into(), offloads: offloads.map(Into::into).unwrap_or_default() })
}

/// The devices of these ports.
const DEVICES: [&str; 2] = ["net_tap0,iface=eth0", "net_af_packet0,iface=dpkt"];

const KINDS: [Kind; 8] = [
    Kind { name: "tap", port: |name| tap_with(name, None), end: End::Tap },
    Kind { name: "tapsum", port: |name| tap_with(name, Some(OffloadsKey::Checksum)), end: End::Tap },
    Kind { name: "tapnone", port: |name| tap_with(name, Some(OffloadsKey::None)), end: End::Tap },
    Kind { name: "dtap", port: |name| dpdk_port(name, "net_tap0"), end: End::OfDriver },
    Kind { name: "pkt", port: |name| packet_with(name, None), end: End::Cable },
    Kind { name: "pktnone", port: |name| packet_with(name, Some(OffloadsKey::None)), end: End::PlainCable },
    Kind { name: "xdp0", port: |name| af_xdp(name, name), end: End::PlainCable },
    Kind { name: "dpkt", port: |name| dpdk_port(name, "net_af_packet0"), end: End::PlainCable },
];

/// A host: its namespace, and the last byte of its addresses.
struct Host<'n> {
    /// `None`: it is the switch's own.
    namespace: Option<Namespace>,
    here: &'n Namespace,
    number: u8,
}

impl Host<'_> {
    fn namespace(&self) -> &Namespace {
        self.namespace.as_ref().unwrap_or(self.here)
    }

    fn addresses(&self) -> [IpAddr; 2] {
        let v6 = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, self.number.into());
        [Ipv4Addr::new(192, 0, 2, self.number).into(), v6.into()]
    }

    /// Gives its interface addresses.
    fn set_up(&self) -> Result<()> {
        let ip = |args: &[&str]| self.namespace().run("ip", args).map(drop);
        ip(&["link", "set", "eth0", "up"])?;
        for (address, len) in self.addresses().iter().zip([24, 64]) {
            ip(&["address", "add", &format!("{address}/{len}"), "dev", "eth0", "nodad"])?;
        }
        Ok(())
    }

    /// Returns how many segments and datagrams with wrong checksums its kernel got.
    fn wrong(&self) -> Result<u64> {
        let counters = self.namespace().run("sh", &["-c", "cat /proc/net/snmp /proc/net/snmp6"])?;
        let mut wrong = 0;
        let mut names: Vec<&str> = Vec::new();
        for line in counters.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [name, count] if name.ends_with("InCsumErrors") => wrong += count.parse::<u64>().unwrap(),
                _ if names.first() == words.first() => {
                    let counts = names.iter().zip(&words).filter(|(name, _)| **name == "InCsumErrors");
                    wrong += counts.map(|(_, count)| count.parse::<u64>().unwrap()).sum::<u64>();
                }
                _ => names = words,
            }
        }
        Ok(wrong)
    }
}

fn content(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at / 7) as u8 ^ seed.wrapping_mul(at as u8)).collect()
}

/// Moves a stream of TCP from one host to an address of another.
fn stream(from: &Host<'_>, to: &Host<'_>, address: IpAddr) -> Result<()> {
    let listener = to.namespace().within(move || TcpListener::bind((address, 5001)).expect("a listener"))?;
    let sent = content(STREAM, from.number);
    // The kernel takes it before it is accepted.
    let connect = move || TcpStream::connect_timeout(&(address, 5001).into(), SOON).expect("a connection");
    let mut sender = from.namespace().within(connect)?;
    sender.set_write_timeout(Some(SOON)).expect("a timeout");
    let (mut stream, _) = listener.accept().expect("the connection");
    stream.set_read_timeout(Some(SOON)).expect("a timeout");
    let received = thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let mut received = Vec::new();
            stream.read_to_end(&mut received).expect("the stream");
            received
        });
        sender.write_all(&sent).expect("room");
        drop(sender);
        receiver.join().expect("no panic")
    });
    assert!(received == sent, "the stream changed from {} to {address}", from.number);
    Ok(())
}

/// Sends datagrams, which the kernel hands over as one message, from one host to an address of another.
fn datagrams(from: &Host<'_>, to: &Host<'_>, address: IpAddr) -> Result<()> {
    let receiver = to.namespace().within(move || UdpSocket::bind((address, 5002)).expect("a socket"))?;
    receiver.set_read_timeout(Some(SOON)).expect("a timeout");
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let sender = from.namespace().within(move || UdpSocket::bind((any, 0)).expect("a socket"))?;
    setsockopt(&sender, sockopt::UdpGsoSegment, &(DATAGRAM as i32)).expect("a kernel that segments UDP");
    let sent = content(DATAGRAM * DATAGRAMS - 100, to.number);
    sender.send_to(&sent, (address, 5002)).expect("room");
    for part in sent.chunks(DATAGRAM) {
        let mut received = vec![0; 2 * DATAGRAM];
        let len = receiver.recv(&mut received).expect("a datagram, with a right checksum");
        assert!(received[..len] == *part, "a datagram changed from {} to {address}", from.number);
    }
    Ok(())
}

/// The link between the bridges of the ports.
#[derive(Clone, Copy, Debug)]
enum Joint {
    /// There is only one.
    None,
    /// A cable between packet sockets.
    Cable,
    /// A VXLAN tunnel between packet sockets.
    Tunnel,
    /// A vhost-user port, and a virtio-user port that is its driver.
    Rings { packed: bool },
}

/// Returns one end of the tunnel.
fn tunnel_end(name: &str) -> RawPort {
    let ends = [("02:00:00:00:01:01", "198.51.100.1"), ("02:00:00:00:01:02", "198.51.100.2")];
    let [here, there] = ends.map(|(mac, ip)| RawTunnelEnd { mac: mac.into(), ip: ip.into() }.into());
    let (local, remote) = if name == "up0" { (here, there) } else { (there, here) };
    RawPort {
        vxlan: RawVxlan { vni: 100.into(), local, remote, mtu: 1600.into(), ..RawVxlan::default() }.into(),
        ..af_packet(name, name)
    }
}

/// Returns both ends of a tunnel, over a cable.
fn tunnel(here: &Namespace) -> Result<[RawPort; 2]> {
    // The tunnel's headers come on top.
    here.run("ip", &["link", "add", "up0", "mtu", "1600", "type", "veth", "peer", "name", "up1", "mtu", "1600"])?;
    Ok(["up0", "up1"].map(tunnel_end))
}

/// Returns the bridges of the ports: one, or two that are joined, whose frames are tagged.
fn bridges(here: &Namespace, joint: Joint) -> Result<RawFile> {
    let names = KINDS.map(|kind| kind.name);
    let trunks = match joint {
        Joint::None => {
            let ports = KINDS.map(|kind| (kind.port)(kind.name));
            return Ok(file((ports, dpdk_devices(&DEVICES), bridge("br0", names), sleeper())));
        }
        Joint::Cable => {
            here.run("ip", &["link", "add", "up0", "type", "veth", "peer", "name", "up1"])?;
            ["up0", "up1"].map(|name| af_packet(name, name))
        }
        Joint::Tunnel => tunnel(here)?,
        Joint::Rings { packed } => {
            let driver = VirtioUser { socket: "up1.sock".into(), packed: packed.into(), ..VirtioUser::default() };
            [port("up0", driver), vhost_user("up1")]
        }
    };
    let ports = KINDS.map(|kind| access(VLAN, (kind.port)(kind.name)));
    let (near, far) = names.split_at(4);
    let bridges = [("br0", near, "up0"), ("br1", far, "up1")];
    let bridges = bridges.map(|(name, ports, up)| bridge(name, ports.iter().copied().chain([up])));
    Ok(file((ports, dpdk_devices(&DEVICES), trunks.map(trunk_of_all), bridges, sleeper())))
}

/// Returns a host for a port of this kind, whose interface is there unless the switch makes it.
fn host_behind<'n>(here: &'n Namespace, kind: &Kind, number: u8) -> Result<Host<'n>> {
    let namespace = if kind.end == End::OfDriver { None } else { Some(Namespace::create()?) };
    let host = Host { namespace, here, number };
    if matches!(kind.end, End::Cable | End::PlainCable) {
        let there = host.namespace().name();
        here.run("ip", &["link", "add", kind.name, "type", "veth", "peer", "name", "eth0", "netns", there])?;
        // DPDK leaves that to others.
        here.run("ip", &["link", "set", kind.name, "up"])?;
    }
    // The kernel can't be told what ports without offloads take; sockets of AF_XDP and DPDK are not told what frames leave.
    if kind.end == End::PlainCable {
        host.namespace().run("ethtool", &["-K", "eth0", "tx", "off", "tso", "off", "gso", "off"])?;
    }
    Ok(host)
}

/// Starts a switch with a port of each kind, and a host behind each.
fn hosts<'n>(home: &Home, here: &'n Namespace, joint: Joint) -> Result<(Millrace, Vec<Host<'n>>)> {
    // Its stack answers for none of the addresses of its host at the near ends of cables.
    here.run("sh", &["-c", "echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore"])?;
    let mut hosts = Vec::new();
    for (kind, number) in KINDS.iter().zip(1..) {
        hosts.push(host_behind(here, kind, number)?);
    }
    let millrace = home.start_inside(here, bridges(here, joint)?);
    for (kind, host) in KINDS.iter().zip(&hosts) {
        match kind.end {
            End::Tap => {
                here.run("ip", &["link", "set", kind.name, "netns", host.namespace().name(), "name", "eth0"])?
            }
            End::OfDriver => here.run("sh", &["-c", "until ip link show eth0 2>&-; do sleep 0.05; done"])?,
            End::Cable | End::PlainCable => String::new(),
        };
        host.set_up()?;
    }
    let ports = millrace.stats().ports;
    millrace.wait_up(&ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>());
    Ok((millrace, hosts))
}

/// Has each host send to each other, by TCP and UDP, over both versions of IP.
fn all_talk(millrace: &Millrace, hosts: &[Host<'_>]) -> Result<()> {
    for (from, to) in hosts.iter().flat_map(|from| hosts.iter().map(move |to| (from, to))) {
        if from.number != to.number {
            for address in to.addresses() {
                stream(from, to, address)?;
                datagrams(from, to, address)?;
            }
        }
    }
    for (host, kind) in hosts.iter().zip(KINDS) {
        assert_eq!(host.wrong()?, 0, "checksums that {} got", kind.name);
    }
    // The kernel itself sends from the ends of a cable: untagged, and outside the tunnel.
    let harmless = ["hairpin", "down", "vlan", "not-tunnel"];
    for port in millrace.stats().ports {
        let is_bad = port.drops.keys().any(|reason| !harmless.contains(&reason.as_str()));
        assert!(!is_bad, "{}: {:?}", port.name, port.drops);
    }
    Ok(())
}

/// Returns the frames of a port that came with work, went with it, and were completed.
fn counts(millrace: &Millrace, port: &str) -> [bool; 3] {
    let offloads = millrace.port(port).0.offloads.unwrap_or_default();
    [offloads.received, offloads.passed_on, offloads.completed].map(|frames| frames > 0)
}

#[test]
fn every_kind_of_port_talks_to_every_other() -> Result<()> {
    for joint in
        [Joint::None, Joint::Cable, Joint::Tunnel, Joint::Rings { packed: false }, Joint::Rings { packed: true }]
    {
        let (home, here) = (Home::new(), Namespace::create()?);
        let (millrace, hosts) = hosts(&home, &here, joint)?;
        all_talk(&millrace, &hosts)?;
        // Frames that neither port wants changed are passed on; a port that takes less gets them completed.
        assert_eq!(counts(&millrace, "tap"), [true, true, false]);
        assert_eq!(counts(&millrace, "tapsum"), [true, true, true]);
        // The device finishes checksums, and the kernel behind it leaves no work.
        assert_eq!(counts(&millrace, "dtap"), [false, true, true]);
        for port in ["tapnone", "pktnone", "xdp0", "dpkt"] {
            assert_eq!(counts(&millrace, port), [false, false, true], "{port}");
        }
        match joint {
            Joint::None => {}
            // The switch completes frames before they enter a tunnel.
            Joint::Tunnel => assert_eq!(counts(&millrace, "up0"), [false, false, true]),
            Joint::Cable | Joint::Rings { .. } => {
                assert_eq!(counts(&millrace, "up0"), [true, true, false], "{joint:?}");
            }
        }
        millrace.stop();
    }
    Ok(())
}

/// Returns what a port offers, and why.
fn offered(millrace: &Millrace, port: &str) -> (Vec<String>, String) {
    let offloads = millrace.port(port).0.offloads.unwrap_or_default();
    (offloads.offered, offloads.why)
}

#[test]
fn a_driver_agrees_with_its_backend_on_what_both_have() -> Result<()> {
    let home = Home::new();
    let (all, checksum) = (vec!["checksum", "tcp4", "tcp6", "ecn", "udp"], vec!["checksum"]);
    let driver = |name: &str, back: &str, keys: VirtioUser| {
        port(name, VirtioUser { socket: format!("{back}.sock").into(), ..keys })
    };
    let device = |name: &str, keys: VhostUser| port(name, VhostUser { socket: format!("{name}.sock").into(), ..keys });
    let less = |offloads: OffloadsKey| VhostUser { offloads: offloads.into(), ..VhostUser::default() };
    let asks = |offloads: OffloadsKey| VirtioUser { offloads: offloads.into(), ..VirtioUser::default() };
    let cases = [
        ("all", VirtioUser::default(), VhostUser::default(), all, "by default"),
        ("sum", VirtioUser::default(), less(OffloadsKey::Checksum), checksum.clone(), "the backend offers no more"),
        ("old", VirtioUser::default(), less(OffloadsKey::None), Vec::new(), "the backend offers no more"),
        ("few", asks(OffloadsKey::Checksum), VhostUser::default(), checksum, "as the port's section says"),
        ("off", asks(OffloadsKey::None), VhostUser::default(), Vec::new(), "as the port's section says"),
    ];
    let backs = cases.each_ref().map(|case| format!("{}-back", case.0));
    let ports = cases
        .clone()
        .into_iter()
        .zip(&backs)
        .map(|((name, front, back, ..), at)| (driver(name, at, front), device(at, back), patch(name, at)));
    let millrace = home.start((ports.collect::<Vec<_>>(), sleeper()));
    let names: Vec<&str> = cases.iter().map(|case| case.0).collect();
    millrace.wait_up(&names);
    for (name, _, _, work, why) in cases {
        assert_eq!(offered(&millrace, name), (work.into_iter().map(str::to_owned).collect(), why.to_owned()), "{name}");
    }
    millrace.stop();
    Ok(())
}

/// A program behind a tap leaves work that the kernel can't describe to a packet socket, and then hands over nothing: the port opens anew.
#[test]
fn a_packet_port_recovers_from_a_frame_that_the_kernel_cannot_describe() -> Result<()> {
    let (home, here) = (Home::new(), Namespace::create()?);
    let tap = here.within(|| netdev::Tap::open("t0", 1, Offloads::ALL).expect("a tap").remove(0))?;
    here.run("ip", &["link", "set", "t0", "up"])?;
    let millrace = home.start_inside(&here, file((af_packet("in", "t0"), sink("out"), patch("in", "out"), sleeper())));
    millrace.wait_up(&["in"]);
    let mut frame = vec![2; 12];
    frame.extend([
        8, 0, 0x45, 0, 3, 0xda, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2, 0, 9, 0, 9, 3, 0xc6, 0, 0,
    ]);
    frame.resize(14 + 0x3da, 7);
    let send = |header: [u8; 10]| {
        let sent = tap.write_vectored(&[IoSlice::new(&header), IoSlice::new(&frame)]);
        assert!(matches!(sent, Ok(TapWrite::Sent)), "{sent:?}");
    };
    for _ in 0..3 {
        // A message of UDP that is to be cut into fragments (UFO).
        send([1, 3, 42, 0, 0x90, 1, 34, 0, 6, 0]);
        let before = millrace.port("in").rx();
        wait_for("frames", || {
            send([0; 10]);
            (millrace.port("in").rx() > before + 2).then_some(())
        });
    }
    millrace.stop();
    Ok(())
}
