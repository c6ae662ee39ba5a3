//! Functions of a group that get each other's buffers instead of copies.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use e2e::live::Live;
use e2e::stream::{Arrived, packet};
use e2e::virtio::{Guest, Options};
use e2e::wire::{Cable, wan};
use e2e::{Home, Millrace, SOON, wait_for};
use engine::stats::ExchangePair;
use lab::Result;
use lab::millrace::config::*;
use lab::process::Daemon;
use nf::{Packet, PortOptions, Ports};
use vhost_user::Mode;
use vhost_user::frontend::{DriverQueue, Exchange, FrontendOptions, Link, Member, Membership};
use virtqueue::driver::Buffer;
use virtqueue::memory::Arena;
use virtqueue::{NET_HEADER, features};

const PACKETS: u64 = 3000;

/// Packets in flight in each direction: fewer than there are buffers.
const WINDOW: u64 = 96;
const VIDS: [u16; 1] = [100];

/// Returns an exchange of these ports from this length of frames on.
fn exchange_from(threshold: Threshold, ports: &[&str]) -> RawExchange {
    RawExchange { buffers: 8192.into(), threshold: threshold.into(), ..exchange(ports.iter().copied()) }
}

/// Returns an exchange of all frames between these ports.
fn exchange_all(ports: &[&str]) -> RawExchange {
    exchange_from(Threshold::Bytes(0), ports)
}

/// An end of a chain: a function of the test's own process.
struct End {
    ports: Ports,
    burst: Vec<Packet>,
    sent: u64,
    arrived: Arrived,
    /// Packets that have arrived.
    count: u64,
}

impl End {
    fn connect(socket: PathBuf, packed: bool, buffer_size: usize) -> End {
        End::by(PortOptions { packed, ..PortOptions::new(socket) }, buffer_size)
    }

    fn by(port: PortOptions, buffer_size: usize) -> End {
        let options = nf::Options { exchange: nf::Exchange::Group, buffer_size, ..nf::Options::new(vec![port]) };
        let ports = Ports::open(options, &AtomicBool::new(false)).unwrap();
        End { ports, burst: Vec::new(), sent: 0, arrived: Arrived::default(), count: 0 }
    }

    fn send(&mut self, bytes: &[u8]) {
        let mut packet = self.ports[0].alloc(bytes.len()).expect("few are in flight");
        packet.copy_from_slice(bytes);
        self.burst.push(packet);
        self.ports[0].transmit_all(&mut self.burst);
        self.sent += 1;
    }

    /// Passes received packets to `take`.
    fn receive(&mut self, mut take: impl FnMut(&mut Arrived, &[u8])) {
        self.ports[0].receive(&mut self.burst);
        for packet in self.burst.drain(..) {
            let bytes: Vec<u8> = packet.chunks().flatten().copied().collect();
            take(&mut self.arrived, &bytes);
            self.count += 1;
        }
    }
}

/// Exchanges packets between two ends, in both directions.
fn stream(ends: &mut [End; 2], packets: u64) {
    let until: [u64; 2] = [0, 1].map(|end| ends[end].sent + packets);
    wait_for("all packets to arrive", || {
        for (from, to) in [(0, 1), (1, 0)] {
            while ends[from].sent < until[from] && ends[from].sent - ends[to].count < WINDOW {
                let bytes = packet(from as u64, ends[from].sent, &VIDS);
                ends[from].send(&bytes);
            }
            ends[to].receive(|arrived, bytes| arrived.take(from as u64, &VIDS, bytes));
        }
        (ends[1].count == until[0] && ends[0].count == until[1]).then_some(())
    });
}

fn start(home: &Home, ports: [&str; 2], options: &[&str]) -> Result<Daemon> {
    let mut command = Command::new(e2e::function("nf-forward"));
    command.args(ports.map(|port| home.socket(port))).arg("--exchange").args(options);
    let mut function = Daemon::spawn("nf-forward", command)?;
    function.wait_for_line("the network function to run", SOON, |line| line.starts_with("memory: "))?;
    Ok(function)
}

/// Returns the counts of frames exchanged and copied from one port to another.
fn pair(switch: &Millrace, from: &str, to: &str) -> ExchangePair {
    let mut pairs = switch.stats().exchanges.into_iter().flat_map(|exchange| exchange.pairs);
    pairs.find(|pair| pair.from.as_deref() == Some(from) && pair.to == to).unwrap_or_default()
}

/// Waits until `frames` frames of this pair were exchanged, and none copied but for these reasons.
fn exchanged(switch: &Millrace, from: &str, to: &str, frames: u64, copied: &[(&str, u64)]) {
    let pair = || pair(switch, from, to);
    let copied = copied.iter().filter(|(_, count)| *count > 0);
    let copied = copied.map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
    wait_for(&format!("{frames} frames to be exchanged from {from} to {to}: {:?}", pair()), || {
        (pair().exchanged == frames && pair().copied == copied).then_some(())
    });
}

/// By patches and by bridges, split and packed rings in turn.
#[test]
fn a_chain_of_functions_copies_nothing() -> Result<()> {
    let ports = ["e0", "f0a", "f0b", "f1a", "f1b", "e1"];
    let pairs = [["e0", "f0a"], ["f0b", "f1a"], ["f1b", "e1"]];
    let bridges = file(pairs.map(|pair| (pair.map(vhost_user), bridge(pair[0], pair))));
    let patches = file(pairs.map(|[a, b]| patched(a, b)));
    for (joined, bridged) in [(patches, false), (bridges, true)] {
        let home = Home::new();
        let switch = home.start((joined, exchange_all(&ports), sleeper()));
        let mut functions = [start(&home, ["f0a", "f0b"], &[])?, start(&home, ["f1a", "f1b"], &["--packed"])?];
        let mut ends =
            [("e0", true), ("e1", false)].map(|(port, packed)| End::connect(home.socket(port), packed, 2048));
        switch.wait_up(&ports);
        // The first packet each way tells bridges where its sender is.
        stream(&mut ends, 1);
        stream(&mut ends, PACKETS - 1);
        for [a, b] in pairs {
            for (from, to) in [(a, b), (b, a)] {
                wait_for("all frames to be counted", || {
                    let pair = pair(&switch, from, to);
                    // A bridge floods frames until it knows where their destination is.
                    let flooded = pair.copied.get("changed").copied().unwrap_or(0);
                    assert!(flooded == 0 || bridged && flooded == 1, "{pair:?}");
                    let all = pair.exchanged + pair.copied.values().sum::<u64>();
                    (all == PACKETS && pair.copied.len() <= 1).then_some(())
                });
            }
        }
        let shown = switch.ctl("exchange");
        assert!(shown.contains("functions: 4") && shown.contains("f0b"), "{shown}");
        for function in &mut functions {
            let status = function.terminate(SOON)?;
            let said = function.log().tail(20);
            assert!(status.success() && said.matches(", 0 malformed").count() == 2, "{status}: {said}");
        }
        switch.none_dropped();
        switch.stop();
    }
    Ok(())
}

/// Ports of one group need no `[[exchange]]`. A port that a NIC is patched to is mapped, too: its function needs all of its ports in
/// the exchange.
#[test]
fn functions_of_one_owner_exchange_by_themselves() -> Result<()> {
    let (cable, home) = (Cable::new()?, Home::new());
    let wire = cable.wire();
    let own = |name: &str| RawPort { group: "own".into(), ..vhost_user(name) };
    let patches = [patch("wan", "f0a"), patch("f0b", "end")];
    let switch = home.start_inside(&cable.here, (wan(), ["f0a", "f0b", "end"].map(own), patches, e2e::poller()));
    switch.wait_up(&["wan"]);
    let mut function = start(&home, ["f0a", "f0b"], &[])?;
    let mut end = End::connect(home.socket("end"), false, 2048);
    let mut far = wire.guest("far")?;
    switch.wait_up(&["f0a", "f0b", "end"]);
    switch.wait_mapped();
    let frame = |number: u64| (0..1000).map(|at: u64| (at ^ number).to_le_bytes()[0]).collect::<Vec<u8>>();
    let mut sent = 0;
    wait_for("all packets to arrive", || {
        if sent < PACKETS && sent - end.count < 16 {
            far.reap().unwrap();
            if far.send(&[&frame(sent)], 1).unwrap() {
                far.flush();
                sent += 1;
            }
        }
        let mut next = end.count;
        end.receive(|_, bytes| {
            assert!(bytes == frame(next), "frame {next}");
            next += 1;
        });
        (end.count == PACKETS).then_some(())
    });
    let (mapping, pair) = (switch.mapping(), pair(&switch, "f0b", "end"));
    assert!(mapping.in_place > PACKETS / 2 && pair.exchanged > PACKETS / 2, "{mapping:?} {pair:?}");
    let stats = switch.stats();
    let exchange = &stats.exchanges[0];
    assert_eq!((&*exchange.ports, &*exchange.chosen_by), (&["f0a", "f0b", "end"].map(String::from)[..], "auto"));
    let shown = switch.ctl("why f0b");
    for part in
        ["acceleration auto, group own.", "exchanged", "end: chosen by the switch, as both are of group \"own\""]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(switch.ctl("exchange").contains("chosen by: auto"));
    assert!(function.terminate(SOON)?.success());
    switch.stop();
    Ok(())
}

/// Frames of 9000 bytes change hands in one buffer, as buffers are long enough; those below the threshold are copied.
#[test]
fn long_frames() -> Result<()> {
    let home = Home::new();
    let exchange = RawExchange { buffer_size: 9018.into(), ..exchange_from(Threshold::Bytes(1000), &["a", "b"]) };
    let switch = home.start((patched("a", "b"), exchange, sleeper()));
    let [mut a, mut b] = ["a", "b"].map(|port| End::connect(home.socket(port), false, 9018));
    switch.wait_up(&["a", "b"]);
    let frame = |number: u64| {
        let len = if number.is_multiple_of(2) { 9018 } else { 999 };
        (0..len).map(|at: u64| (at ^ number).to_le_bytes()[0]).collect::<Vec<u8>>()
    };
    wait_for("all packets to arrive", || {
        if a.sent < 800 && a.sent - b.count < 16 {
            a.send(&frame(a.sent));
        }
        let mut next = b.count;
        b.receive(|_, bytes| {
            assert!(bytes == frame(next), "frame {next}");
            next += 1;
        });
        (b.count == 800).then_some(())
    });
    exchanged(&switch, "a", "b", 400, &[("short", 400)]);
    switch.none_dropped();
    switch.stop();
    Ok(())
}

/// With a measured threshold, frames of any length are exchanged and copied in turn, in both directions, and arrive whole.
#[test]
fn both_ways_are_tried() {
    let home = Home::new();
    let exchange = exchange_from(Threshold::Measured, &["a", "b"]);
    let switch = home.start((patched("a", "b"), exchange, sleeper()));
    let mut ends = [("a", true), ("b", false)].map(|(port, packed)| {
        End::by(PortOptions { packed, queue_size: RING, ..PortOptions::new(home.socket(port)) }, 2048)
    });
    let pairs = || [("a", "b"), ("b", "a")].map(|(from, to)| pair(&switch, from, to));
    switch.wait_up(&["a", "b"]);
    for len in [60, 1500] {
        let before = pairs();
        wait_for("frames to be exchanged and copied in both directions", || {
            // Only bursts of many frames, without pauses, tell which way is faster.
            (0..5000).for_each(|_| pass_burst(&mut ends, len));
            let is_tried = |(now, before): (ExchangePair, &ExchangePair)| {
                now.exchanged > before.exchanged && now.copied.get("short") > before.copied.get("short")
            };
            pairs().into_iter().zip(&before).all(is_tried).then_some(())
        });
    }
    let shown = switch.ctl("exchange");
    assert!(shown.contains("(measured)"), "{shown}");
    switch.none_dropped();
    switch.stop();
}

/// Frames that an end may have in flight, and a ring with room for them: enough for the switch to measure them without a pause, even
/// if all take turns on one processor.
const IN_FLIGHT: u64 = 640;
const RING: u16 = 1024;

/// Lets each end send a burst, unless too many frames are in flight, and receive one.
fn pass_burst(ends: &mut [End; 2], len: usize) {
    let moved = |ends: &[End; 2]| ends.each_ref().map(|end| (end.sent, end.count));
    let before = moved(ends);
    for (from, to) in [(0, 1), (1, 0)] {
        if ends[from].sent - ends[to].count <= IN_FLIGHT {
            for _ in 0..64 {
                let End { ports, burst, sent, .. } = &mut ends[from];
                let mut packet = ports[0].alloc(len).expect("few are in flight");
                packet.copy_from_slice(&[*sent as u8; 1500][..len]);
                burst.push(packet);
                *sent += 1;
            }
            let End { ports, burst, .. } = &mut ends[from];
            ports[0].transmit_all(burst);
        }
        let mut next = ends[to].count as u8;
        ends[to].receive(|_, bytes| {
            assert!(bytes.iter().all(|byte| *byte == next), "frame {next}");
            next = next.wrapping_add(1);
        });
    }
    if moved(ends) == before {
        e2e::rest();
    }
}

/// A guest outside the group, and a function that did not join, get copies.
#[test]
fn ports_of_other_kinds_get_copies() -> Result<()> {
    let home = Home::new();
    let ports = ["a", "b", "c"].map(vhost_user);
    let bridge = bridge("br", ["a", "b", "c"]);
    let switch = home.start((ports, bridge, exchange_all(&["a", "b"]), sleeper()));
    let mut ends = ["a", "b"].map(|port| End::connect(home.socket(port), false, 2048));
    let mut plain: Guest = Options::new(home.socket("c")).connect()?;
    switch.wait_up(&["a", "b", "c"]);
    let frame = |from: u8, to: u8, number: u8| {
        // Too long for one buffer of the group, if it comes from outside.
        let mut bytes = vec![number; if from == 3 { 5000 } else { 200 }];
        bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from]);
        bytes
    };
    // One from each, so that the bridge knows where they are: the first ones are flooded, and these are copies.
    let mut seen = 0;
    let mut receive_plain = |plain: &mut Guest| {
        plain.receive(64, |_| {
            seen += 1;
            Ok(())
        })
    };
    for round in 0..100 {
        for (end, [own, other]) in [[1, 2], [2, 1]].into_iter().enumerate() {
            ends[end].send(&frame(own, other, round));
            ends[end].send(&frame(own, 3, round));
        }
        assert!(plain.send(&[&frame(3, 1, round)], 1)?);
        plain.flush();
        wait_for("the frames of a round", || {
            ends.iter_mut().for_each(|end| end.receive(|_, bytes| assert!([200, 5000].contains(&bytes.len()))));
            plain.reap().unwrap();
            receive_plain(&mut plain).unwrap();
            let counted = ends[0].count >= 2 * u64::from(round + 1) && ends[1].count > u64::from(round);
            counted.then_some(())
        });
    }
    let pairs = switch.stats().exchanges.remove(0).pairs;
    let pair = |from: Option<&str>, to: &str| {
        pairs.iter().find(|pair| pair.from.as_deref() == from && pair.to == to).cloned().unwrap_or_default()
    };
    assert!(pair(Some("a"), "b").exchanged >= 90 && pair(Some("b"), "a").exchanged >= 90, "{pairs:?}");
    assert!(pair(None, "a").copied["outside"] >= 90 && pair(None, "a").exchanged == 0, "{pairs:?}");
    switch.none_dropped();
    switch.stop();
    Ok(())
}

/// A function is killed and comes back, and so is the switch: no buffer is lost.
#[test]
fn functions_and_the_switch_come_and_go() -> Result<()> {
    let home = Home::new();
    let ports = ["e0", "f0a", "f0b", "e1"];
    let config = (patched("e0", "f0a"), patched("f0b", "e1"), exchange_all(&ports), sleeper());
    let mut switch = home.start(&config);
    let free = |switch: &Millrace| switch.stats().exchanges[0].buffers.unwrap().free;
    let mut ends = ["e0", "e1"].map(|port| End::connect(home.socket(port), false, 2048));
    switch.wait_up(&["e0", "e1"]);
    let at_rest = free(&switch);
    for _ in 0..5 {
        let mut function = start(&home, ["f0a", "f0b"], &[])?;
        switch.wait_up(&ports);
        stream(&mut ends, 300);
        function.kill()?;
        switch.wait_gone("f0a");
        switch.wait_gone("f0b");
        wait_for("its buffers to be free", || (free(&switch) == at_rest).then_some(()));
    }
    let function = start(&home, ["f0a", "f0b"], &[])?;
    switch.wait_up(&ports);
    stream(&mut ends, 300);
    switch.stop();
    switch = home.start(&config);
    wait_for("the ends to be there again", || {
        ends.iter_mut().for_each(|end| {
            end.ports.check(&AtomicBool::new(false)).unwrap();
        });
        ports.iter().all(|port| switch.port(port).0.up).then_some(())
    });
    stream(&mut ends, 300);
    exchanged(&switch, "e0", "f0a", 300, &[]);
    drop(function);
    switch.stop();
    Ok(())
}

/// A reload that changes the exchange reopens its ports, and the functions join again.
#[test]
fn a_reload_changes_the_threshold() -> Result<()> {
    let home = Home::new();
    let config = |bytes| (patched("a", "b"), exchange_from(Threshold::Bytes(bytes), &["a", "b"]), sleeper());
    let switch = home.start(config(0));
    let mut ends = ["a", "b"].map(|port| End::connect(home.socket(port), false, 2048));
    switch.wait_up(&["a", "b"]);
    stream(&mut ends, 200);
    exchanged(&switch, "a", "b", 200, &[]);
    home.configure(config(65_535));
    switch.reload();
    wait_for("the ends to be there again", || {
        ends.iter_mut().for_each(|end| {
            end.ports.check(&AtomicBool::new(false)).unwrap();
        });
        (["a", "b"].iter().all(|port| switch.port(port).0.up)).then_some(())
    });
    stream(&mut ends, 200);
    exchanged(&switch, "a", "b", 0, &[("short", 200)]);
    switch.stop();
    Ok(())
}

/// A member names buffers that are not its own, and the same ones again and again. Guests outside the group are not disturbed,
/// and no seat has more or fewer buffers than it was given.
#[test]
fn a_lying_member() {
    let live = Live::new((patched("a", "b"), exchange_all(&["a", "b"])));
    let mut arena = Arena::new(1 << 20, false).unwrap();
    let membership = Arc::new(Membership::new(600).unwrap());
    let options = FrontendOptions {
        socket: live.home.socket("a"),
        mode: Mode::Client,
        queue_pairs: 1,
        queue_sizes: 256.into(),
        features: features::MRG_RXBUF,
        exchange: Some(Exchange::Group(membership.clone())),
    };
    let (link, mut pairs) = Link::establish(&options, &mut arena, Some(SOON), &AtomicBool::new(false)).unwrap();
    let mut transmit = DriverQueue::<()>::new(pairs.remove(0).transmit);
    let grant = membership.member().unwrap().grant.clone();
    let socket = live.home.socket("b");
    live.millrace.wait_up(&["a"]);
    // The attacker is always busy.
    live.during_keeping(0.4, |attack| {
        let mut victim = End::connect(socket, false, 2048);
        let mut number = 0u64;
        while attack.continues() {
            while transmit.free() > 0 {
                // Its own first, then those of others, then places between buffers and after the last one.
                let buffer = match number % 4 {
                    0 => grant.buffers[0],
                    1 => grant.buffers[(number % 600) as usize],
                    _ => (number.wrapping_mul(31) % 8192) as u16,
                };
                let shift = if number % 7 == 6 { 64 } else { 0 };
                let addr = Member::ADDRESS + grant.geometry.offset(buffer) + shift;
                transmit.add_with(&[Buffer { addr, len: NET_HEADER + 60, writable: false }], ()).unwrap();
                number += 1;
            }
            transmit.flush();
            while transmit.pop().unwrap().is_some() {}
            victim.receive(|_, _| {});
            victim.ports[0].reclaim();
            if victim.ports.check(&AtomicBool::new(false)).unwrap() {
                // The victim noticed a buffer that it has already, and connected again.
                victim.burst.clear();
            }
            attack.strike();
        }
    });
    drop(link);
    wait_for("all buffers to be free again", || {
        (live.millrace.stats().exchanges[0].buffers.unwrap().free == 8192).then_some(())
    });
    live.finish();
}
