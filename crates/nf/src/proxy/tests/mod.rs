//! Connections between two proxies.

mod wire;
mod world;

use super::counters::Refusal;
use super::options::{Endpoint, Limits, Options, Serve};
use super::relay::Relay;
use proptest::prelude::*;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::time::Duration;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Address, Ipv4Packet, Ipv4Repr, TcpControl,
    TcpPacket, TcpRepr, TcpSeqNumber,
};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use wire::Faults;
use world::{Setup, World};

/// One end of a connection: it sends some bytes, ends its stream, and reads to the end of the other's.
struct Talker {
    socket: UnixStream,
    sends: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    ended: bool,
}

impl Talker {
    fn new(socket: UnixStream, sends: Vec<u8>) -> Talker {
        socket.set_nonblocking(true).unwrap();
        Talker { socket, sends, sent: 0, received: Vec::new(), ended: false }
    }

    /// Writes and reads as much as goes; returns true at the end of both streams.
    fn talk(&mut self) -> bool {
        while self.sent < self.sends.len() {
            match self.socket.write(&self.sends[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error} after {} bytes", self.sent),
            }
            if self.sent == self.sends.len() {
                self.socket.shutdown(Shutdown::Write).unwrap();
            }
        }
        self.ended |= self.listen();
        self.ended && self.sent == self.sends.len()
    }

    /// Reads; returns true at the end.
    fn listen(&mut self) -> bool {
        let mut room = [0; 65536];
        loop {
            match self.socket.read(&mut room) {
                Ok(0) => return true,
                Ok(count) => self.received.extend_from_slice(&room[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) => panic!("{error} after {} bytes", self.received.len()),
            }
        }
    }
}

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8 ^ seed as u8).collect()
}

/// Has each pair of ends exchange bytes of these lengths, all at the same time.
fn exchange(world: &mut World, lengths: &[(usize, usize)]) {
    let service = world.service();
    let mut clients: Vec<Talker> = Vec::new();
    let mut servers: Vec<Talker> = Vec::new();
    for (number, &(ask, _)) in lengths.iter().enumerate() {
        // A tag says whose connection the service got.
        let mut sends = vec![number as u8];
        sends.extend(bytes(number, ask));
        clients.push(Talker::new(world.client("client"), sends));
    }
    world.until("all bytes to arrive", |_| {
        if let Ok((socket, _)) = service.accept() {
            servers.push(Talker::new(socket, Vec::new()));
        }
        for server in &mut servers {
            if server.sends.is_empty() && !server.ended {
                server.ended |= server.listen();
                if let Some(&tag) = server.received.first() {
                    server.sends = bytes(!usize::from(tag), lengths[usize::from(tag)].1 + 1);
                }
            }
        }
        let servers_done =
            servers.iter_mut().filter(|server| !server.sends.is_empty()).filter_map(|s| s.talk().then_some(())).count();
        let clients_done = clients.iter_mut().filter_map(|client| client.talk().then_some(())).count();
        (servers_done == lengths.len() && clients_done == lengths.len()).then_some(())
    });
    // On the worst wires, all that a proxy sends in the time that a peer has to answer may be lost.
    let given_up = world.counters().iter().map(|c| c.refused(Refusal::Silent)).sum::<u64>();
    let mut cut_off = 0;
    for (number, (client, &(_, answer))) in clients.iter().zip(lengths).enumerate() {
        let all = bytes(!number, answer + 1);
        if client.received.len() < all.len() && all.starts_with(&client.received) && cut_off < given_up {
            cut_off += 1;
            continue;
        }
        assert!(
            client.received == all,
            "connection {number}: {} of {} bytes of the answer\n{:#?}",
            client.received.len(),
            answer + 1,
            world.counters()
        );
        let mut of_it = servers.iter().filter(|server| server.received[0] == number as u8);
        assert!(of_it.next().unwrap().received == client.sends, "connection {number}: the request changed");
        assert!(of_it.next().is_none(), "connection {number} arrived twice");
    }
    world.until("no connection to be open", |w| w.counters().iter().all(|c| c.open == 0).then_some(()));
    if cut_off > 0 {
        return;
    }
    let sum = |of: fn(&(usize, usize)) -> usize| lengths.iter().map(|pair| of(pair) as u64 + 1).sum::<u64>();
    let [near, far] = world.counters();
    assert_eq!((near.reached, near.to_network, near.from_network), (lengths.len() as u64, sum(|p| p.0), sum(|p| p.1)));
    assert_eq!((far.served, far.from_network, far.to_network), (lengths.len() as u64, sum(|p| p.0), sum(|p| p.1)));
}

#[test]
fn bytes_pass_both_ways_and_streams_end_one_by_one() {
    for mtu in [1500, 9000, 576] {
        let mut world = World::new(Setup { mtu, ..Setup::default() });
        exchange(&mut world, &[(0, 1_000_000), (1_000_000, 0), (300_000, 300_000), (1, 1)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_byte_is_lost_or_repeated_on_a_bad_wire(
        lengths in prop::collection::vec((0..60_000_usize, 0..60_000_usize), 1..5),
        lost in 0..80_u32,
        repeated in 0..80_u32,
        swapped in 0..80_u32,
        damaged in 0..50_u32,
        mtu in prop::sample::select(vec![1500_u16, 9000]),
        buffer in prop::sample::select(vec![4096_usize, 65_536, 262_144]),
        seed: u64,
    ) {
        let limits = Limits { buffer, ..Limits::default() };
        let faults = Faults { lost, repeated, swapped, damaged };
        exchange(&mut World::new(Setup { mtu, faults, seed, near: limits, far: limits }), &lengths);
    }
}

/// Both sides have ended their streams, and then all acknowledgements of the last bytes are lost: that is no regular end.
#[test]
fn a_peer_that_never_acknowledges_the_last_bytes_is_silent() {
    let limits = Limits { buffer: 65_536, ..Limits::default() };
    let faults = Faults { lost: 64, repeated: 23, swapped: 3, damaged: 30 };
    let setup = Setup { mtu: 1500, faults, seed: 9_476_055_787_927_433_348, near: limits, far: limits };
    let mut world = World::new(setup);
    exchange(&mut world, &[(38_300, 46_820), (34_472, 14_904)]);
    assert_eq!(world.far.counters().refused(Refusal::Silent), 1, "{:?}", world.counters());
}

/// Connects, and returns both local ends.
fn connect(world: &mut World, service: &std::os::unix::net::UnixListener) -> (UnixStream, UnixStream) {
    let client = world.client("client");
    let server = world.until("the service to be connected", |_| service.accept().ok()).0;
    server.set_nonblocking(true).unwrap();
    (client, server)
}

#[test]
fn a_reader_that_stops_stops_the_writer() {
    let limits = Limits { buffer: 65_536, ..Limits::default() };
    let mut world = World::new(Setup { near: limits, far: limits, ..Setup::default() });
    let service = world.service();
    let (client, server) = connect(&mut world, &service);
    let all = bytes(1, 4 << 20);
    let mut client = Talker::new(client, all.clone());
    // Probes of the closed window are answered, so this may last.
    let end = world.now + Duration::from_secs(1200);
    world.until("the time to pass", |w| {
        client.talk();
        (w.now >= end).then_some(())
    });
    // Two buffers of TCP, and those of the kernel's two sockets.
    assert!(client.sent < 2 << 20, "{} bytes were taken", client.sent);
    let mut server = Talker::new(server, Vec::new());
    server.socket.shutdown(Shutdown::Write).unwrap();
    world.until("the rest to arrive", |_| (client.talk() & server.listen()).then_some(()));
    assert!(server.received == all);
}

#[test]
fn bytes_outlive_time_wait() {
    let mut world = World::new(Setup::default());
    let service = world.service();
    let (client, server) = connect(&mut world, &service);
    client.shutdown(Shutdown::Write).unwrap();
    let all = bytes(2, 500_000);
    let mut server = Talker::new(server, all.clone());
    let mut written = false;
    world.until("the answer to be on its way", |_| {
        written |= server.talk();
        written.then_some(())
    });
    world.pass(Duration::from_secs(60));
    let mut client = Talker::new(client, Vec::new());
    world.until("the answer", |_| client.listen().then_some(()));
    assert!(client.received == all, "{} of {} bytes", client.received.len(), all.len());
}

#[test]
fn a_missing_service_resets_the_connection() {
    let mut world = World::new(Setup::default());
    let mut client = world.client("client");
    world.until("the end", |_| match client.read(&mut [0]) {
        Ok(0) => Some(()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        other => panic!("{other:?}"),
    });
    let [near, far] = world.counters();
    assert_eq!((far.refused(Refusal::Unreachable), far.served, far.open), (1, 0, 0));
    assert_eq!((near.refused(Refusal::NetworkReset), near.open), (1, 0));
    // The service comes.
    let service = world.service();
    let _pair = connect(&mut world, &service);
    assert_eq!(world.counters()[1].served, 1);
}

#[test]
fn missing_ports_and_hosts_are_named() {
    let mut world = World::new(Setup::default());
    let _client = world.client("nowhere");
    world.refused(Refusal::Refused, 1);
    let _client = world.client("nobody");
    world.refused(Refusal::Silent, 1);
    assert_eq!(world.counters()[1].refused(Refusal::NoService), 1);
}

#[test]
fn connections_beyond_the_limit_are_refused_on_both_sides() {
    let few = Limits { connections: 2, ..Limits::default() };
    for (near, far) in [(few, Limits::default()), (Limits::default(), few)] {
        let mut world = World::new(Setup { near, far, ..Setup::default() });
        let service = world.service();
        let mut pairs = vec![connect(&mut world, &service), connect(&mut world, &service)];
        let _third = world.client("client");
        if near.connections == 2 {
            world.refused(Refusal::TooMany, 1);
        } else {
            world.refused(Refusal::Refused, 1);
            assert_eq!(world.counters()[1].refused(Refusal::TooMany), 1);
        }
        // One that has ended gives its place up, though TCP remembers it.
        drop(pairs.pop());
        world.until("the end of one", |w| w.counters().iter().all(|c| c.open == 1).then_some(()));
        pairs.push(connect(&mut world, &service));
    }
}

#[test]
fn half_open_requests_are_bounded() {
    let few = Limits { backlog: 2, ..Limits::default() };
    let mut world = World::new(Setup { far: few, ..Setup::default() });
    let service = world.service();
    // The address of the peer is known before answers get lost.
    drop(connect(&mut world, &service));
    world.ends[1].faults.lost = 1000;
    let _clients = [(); 3].map(|()| world.client("client"));
    world.until("a request to be dropped", |w| (w.counters()[1].refused(Refusal::BacklogFull) > 0).then_some(()));
    world.ends[1].faults.lost = 0;
    for _ in 0..3 {
        world.until("the service to be connected", |_| service.accept().ok());
    }
}

/// Returns a request for a connection to the service of `far`.
fn request(from: u8, port: u16) -> Vec<u8> {
    let [source, to] = [from, 2].map(|number| Ipv4Address::new(10, 0, 0, number));
    let tcp = TcpRepr {
        src_port: port,
        dst_port: 6379,
        control: TcpControl::Syn,
        seq_number: TcpSeqNumber(1),
        ack_number: None,
        window_len: 1000,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    };
    segment([source, to], EthernetAddress([2, 0, 0, 0, 0, 2]), &tcp)
}

/// Returns the frame of a segment between two addresses, for a station.
pub(super) fn segment([from, to]: [Ipv4Address; 2], station: EthernetAddress, tcp: &TcpRepr<'_>) -> Vec<u8> {
    let (next_header, payload_len) = (IpProtocol::Tcp, tcp.buffer_len());
    let ip = Ipv4Repr { src_addr: from, dst_addr: to, next_header, payload_len, hop_limit: 64 };
    let mut bytes = vec![0; 14 + 20 + payload_len];
    let mut frame = EthernetFrame::new_unchecked(&mut bytes[..]);
    frame.set_dst_addr(station);
    frame.set_ethertype(EthernetProtocol::Ipv4);
    let all = ChecksumCapabilities::default();
    let mut packet = Ipv4Packet::new_unchecked(frame.payload_mut());
    ip.emit(&mut packet, &all);
    tcp.emit(&mut TcpPacket::new_unchecked(packet.payload_mut()), &from.into(), &to.into(), &all);
    bytes
}

/// From one address, and from forged ones.
#[test]
fn abandoned_requests_lock_no_peer_out() {
    for sources in [1, 100] {
        let mut world = World::new(Setup::default());
        let service = world.service();
        // The address of the peer is known before.
        drop(connect(&mut world, &service));
        let mut sent = 0;
        let flood = |world: &World, sent: &mut u16| {
            world.ends[0].send(request(100 + (*sent % sources) as u8, 1024 + *sent));
            *sent += 1;
        };
        (0..200).for_each(|_| flood(&world, &mut sent));
        for _ in 0..10 {
            let client = world.client("client");
            let accepted = world.until("the service to be connected", |world| {
                (0..8).for_each(|_| flood(world, &mut sent));
                service.accept().ok()
            });
            drop((client, accepted));
        }
        assert!(world.counters()[1].refused(Refusal::BacklogFull) > 0);
    }
}

#[test]
fn connections_of_one_peer_are_limited() {
    let few = Limits { per_source: 2, ..Limits::default() };
    let mut world = World::new(Setup { far: few, ..Setup::default() });
    let service = world.service();
    let (_first, _second) = (connect(&mut world, &service), connect(&mut world, &service));
    let _third = world.client("client");
    world.refused(Refusal::Refused, 1);
    assert_eq!(world.counters()[1].refused(Refusal::TooManyOfSource), 1);
}

#[test]
fn a_reset_reaches_the_other_side() {
    let mut world = World::new(Setup::default());
    let service = world.service();
    let (mut client, server) = connect(&mut world, &service);
    client.write_all(b"a question").unwrap();
    // A process that closes a unix socket with bytes unread resets it.
    world.until("the question to arrive", |w| (w.counters()[1].from_network == 10).then_some(()));
    drop(server);
    world.until("the reset", |w| (w.counters()[1].refused(Refusal::LocalReset) == 1).then_some(()));
    world.refused(Refusal::NetworkReset, 1);
    assert!(matches!(client.read(&mut [0]), Ok(0)));
}

#[test]
fn a_silent_peer_is_given_up() {
    let mut world = World::new(Setup::default());
    let service = world.service();
    let (mut client, server) = connect(&mut world, &service);
    // An idle connection lasts.
    world.pass(Duration::from_secs(600));
    assert_eq!(world.counters().map(|c| c.open), [1, 1]);
    world.ends.iter_mut().for_each(|end| end.faults.lost = 1000);
    client.write_all(b"anybody?").unwrap();
    world.until("both to give up", |w| w.counters().iter().all(|c| c.open == 0).then_some(()));
    assert_eq!(world.counters().map(|c| c.refused(Refusal::Silent)), [1, 1]);
    drop(server);
}

#[test]
fn addresses_of_groups_and_services_that_clash_are_refused() {
    let serve = |port| Serve { port, to: Endpoint::Unix("/nowhere".into()) };
    let options = Options {
        mac: "02:00:00:00:00:01".parse().unwrap(),
        address: "10.0.0.1/24".parse().unwrap(),
        gateway: None,
        mtu: 1500,
        serve: vec![serve(1), serve(2)],
        reach: Vec::new(),
        limits: Limits::default(),
    };
    let error = |options: Options| Relay::new(&options).map(drop).unwrap_err().to_string();
    let of_group = "ff:ff:ff:ff:ff:ff".parse().unwrap();
    assert!(error(Options { mac: of_group, ..options.clone() }).contains("unicast"));
    assert!(error(Options { serve: vec![serve(1), serve(1)], ..options.clone() }).contains("port 1 is served twice"));
    assert!(error(Options { serve: Vec::new(), ..options.clone() }).contains("--serve"));
    assert!(Relay::new(&options).is_ok());
}
