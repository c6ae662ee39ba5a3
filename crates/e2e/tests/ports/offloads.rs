//! Hosts with the kernel's default settings, behind ports of every kind and with every choice of offloads, that talk to each other: checksums are
//! right, segments have the right lengths, and nothing is dropped.

use e2e::{Home, Millrace, SOON};
use engine::port::offloads::OffloadsKey;
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{Read, Write};
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
    let received = thread::scope(|scope| -> Result<_> {
        let receiver = scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.set_read_timeout(Some(SOON)).expect("a timeout");
            let mut received = Vec::new();
            stream.read_to_end(&mut received).expect("the stream");
            received
        });
        let mut stream = from
            .namespace()
            .within(move || TcpStream::connect_timeout(&(address, 5001).into(), SOON).expect("a connection"))?;
        stream.write_all(&sent).expect("room");
        drop(stream);
        Ok(receiver.join().expect("no panic"))
    })?;
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

/// Returns the bridges of the ports: one, or two that a cable joins, whose frames are tagged.
fn bridges(here: &Namespace, cabled: bool) -> Result<RawFile> {
    let names = KINDS.map(|kind| kind.name);
    if !cabled {
        let ports = KINDS.map(|kind| (kind.port)(kind.name));
        return Ok(file((ports, dpdk_devices(&DEVICES), bridge("br0", names), sleeper())));
    }
    here.run("ip", &["link", "add", "up0", "type", "veth", "peer", "name", "up1"])?;
    let trunks = ["up0", "up1"].map(|name| trunk_of_all(af_packet(name, name)));
    let ports = KINDS.map(|kind| access(VLAN, (kind.port)(kind.name)));
    let (near, far) = names.split_at(4);
    let bridges = [("br0", near, "up0"), ("br1", far, "up1")];
    let bridges = bridges.map(|(name, ports, up)| bridge(name, ports.iter().copied().chain([up])));
    Ok(file((ports, dpdk_devices(&DEVICES), trunks, bridges, sleeper())))
}

/// Starts a switch with a port of each kind, and a host behind each.
fn hosts<'n>(home: &Home, here: &'n Namespace, cabled: bool) -> Result<(Millrace, Vec<Host<'n>>)> {
    // Its stack answers for none of the addresses of its host at the near ends of cables.
    here.run("sh", &["-c", "echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore"])?;
    let mut hosts = Vec::new();
    for (kind, number) in KINDS.iter().zip(1..) {
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
        hosts.push(host);
    }
    let millrace = home.start_inside(here, bridges(here, cabled)?);
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
        let port = millrace.port(kind.name);
        assert_eq!(host.wrong()?, 0, "checksums that {} got", kind.name);
        let harmless = ["hairpin", "down"];
        let is_bad = port.0.drops.keys().any(|reason| !harmless.contains(&reason.as_str()));
        assert!(!is_bad, "{}: {:?}", kind.name, port.0.drops);
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
    for cabled in [false, true] {
        let (home, here) = (Home::new(), Namespace::create()?);
        let (millrace, hosts) = hosts(&home, &here, cabled)?;
        all_talk(&millrace, &hosts)?;
        // Frames that neither port wants changed are passed on; a port that takes less gets them completed.
        assert_eq!(counts(&millrace, "tap"), [true, true, false]);
        assert_eq!(counts(&millrace, "tapsum"), [true, true, true]);
        // The device finishes checksums, and the kernel behind it leaves no work.
        assert_eq!(counts(&millrace, "dtap"), [false, true, true]);
        for port in ["tapnone", "pktnone", "xdp0", "dpkt"] {
            assert_eq!(counts(&millrace, port), [false, false, true], "{port}");
        }
        if cabled {
            assert_eq!(counts(&millrace, "up0"), [true, true, false]);
        }
        millrace.stop();
    }
    Ok(())
}
