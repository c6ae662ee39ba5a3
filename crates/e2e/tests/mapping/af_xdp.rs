//! AF_XDP ports: plain ones, and abilities and refusals that only they have as the physical side of a mapping.
//!
//! The other end of the cable, the "wire", is a second Millrace in a separate namespace, which patches its end to a guest's
//! port with packet sockets.

use std::time::Duration;

use e2e::mapped::one_wire;
use e2e::virtio::{Exchange, Guest, Options};
use e2e::wire::{Cable, wan};
use e2e::{Home, wait_for};

use engine::reload::Step;
use lab::Result;
use lab::dpdk::{self, Testpmd};
use lab::millrace::config::*;
use lab::process::Daemon;

use super::{look, nothing_dropped};

/// Every size that fits the usual MTU.
const SIZES: std::ops::RangeInclusive<usize> = 60..=1514;

/// Frames each way.
const FRAMES: u64 = 20_000;

/// Returns the port `wan` with more keys.
fn wan_with(keys: AfXdp) -> RawPort {
    port("wan", AfXdp { interface: "up0".into(), ..keys })
}

/// Returns the port `wan` with two queues.
fn two_queues() -> RawPort {
    wan_with(AfXdp { queues: 2.into(), ..AfXdp::default() })
}

#[test]
fn every_frame_passes_both_ways() -> Result<()> {
    let copying = AfXdp { mode: MoverKey::Copy.into(), queue_size: 64.into(), ..AfXdp::default() };
    for (wan, detail) in [(wan(), "driver veth can't do zero-copy"), (wan_with(copying), "as configured")] {
        let (cable, home) = (Cable::new()?, Home::new());
        let wire = cable.wire();
        let millrace = cable.switch(&home, wan, (patch("wan", "fw"), Acceleration::Off, e2e::poller()));
        let said = millrace.port("wan").0.detail;
        assert!(said.starts_with("interface up0, copied by the kernel") && said.contains(detail), "{said}");
        assert!(said.ends_with("native XDP, MTU 1500"), "{said}");
        let guest = Options::new(home.socket("fw")).connect()?;
        let mut exchange = Exchange::new([guest, wire.guest("far")?], [1, 2], SIZES, 32);
        if let Err(error) = exchange.run(FRAMES, e2e::SOON) {
            panic!("{error}; {:?}; Millrace said:\n{}", millrace.stats().ports, millrace.daemon.log().tail(40));
        }
        nothing_dropped(&millrace);
        millrace.stop();
    }
    Ok(())
}

#[test]
fn a_driver_without_zero_copy_is_named() -> Result<()> {
    let (cable, home) = (Cable::new()?, Home::new());
    let zero_copy = wan_with(AfXdp { mode: MoverKey::ZeroCopy.into(), ..AfXdp::default() });
    for (wan, says) in [(zero_copy, "zero-copy"), (two_queues(), "lower `queues`")] {
        let file = home.configure(wan);
        let mut command = cable.here.command(e2e::program().to_str().expect("a path in UTF-8"));
        command.args(["run", "--strict", "--config"]).arg(file);
        let mut daemon = Daemon::spawn("millrace", command)?;
        assert!(!daemon.wait(e2e::SOON)?.success());
        daemon.wait_for_line(says, e2e::SOON, |line| line.contains("port \"wan\" (af_xdp)") && line.contains(says))?;
    }
    Ok(())
}

/// Also tests a tap at the other side, and frames in several chunks.
#[test]
fn a_worker_that_sleeps_answers() -> Result<()> {
    for mtu in [1500, 9000] {
        let (cable, home) = (Cable::new()?, Home::new());
        let text = mtu.to_string();
        cable.here.run("ip", &["link", "set", "up0", "mtu", &text])?;
        cable.there.run("ip", &["link", "set", "up1", "mtu", &text])?;
        // The kernel leaves checksums to hardware that does not exist; XDP sees frames before they are filled in.
        let tap = port("tap0", Tap { interface: "tap0".into(), mtu: mtu.into(), ..Tap::default() });
        let patch = patch("wan", "tap0");
        let millrace = home.start_inside(&cable.here, (wan(), tap, patch, sleeper()));
        cable.here.run("ip", &["address", "add", "192.0.2.1/24", "dev", "tap0"])?;
        cable.there.run("ip", &["address", "add", "192.0.2.2/24", "dev", "up1"])?;
        let largest = if mtu == 9000 { "8972" } else { "1472" };
        for size in ["56", "1000", largest] {
            let ping = ["-c", "5", "-i", "0.05", "-W", "2", "-M", "do", "-s", size, "192.0.2.2"];
            cable.here.run("ping", &ping)?;
        }
        assert!(millrace.stats().workers[0].sleeps > 0);
        // Remaining spontaneous frames must cease.
        wait_for("it to sleep and stay asleep", || {
            let asleep = || millrace.stats().workers[0].sleeps;
            let before = asleep();
            std::thread::sleep(Duration::from_millis(300));
            (asleep() - before < 100).then_some(())
        });
        assert_eq!(millrace.port("wan").dropped(), 0, "{:?}", millrace.port("wan").0);
        millrace.stop();
    }
    Ok(())
}

#[test]
fn a_reload_opens_it_and_an_interface_may_come_and_go() -> Result<()> {
    let (cable, home) = (Cable::new()?, Home::new());
    let guest = (vhost_user("fw"), Acceleration::Off, e2e::poller());
    let millrace = home.start_inside(&cable.here, &guest);
    let config = (wan(), patch("wan", "fw"), &guest);
    for _ in 0..3 {
        home.configure(&config);
        assert_eq!(millrace.reload().ports(Step::Added), ["wan"]);
        millrace.wait_up(&["wan"]);
        home.configure(&guest);
        assert_eq!(millrace.reload().ports(Step::Removed), ["wan"]);
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
        let mut exchange = Exchange::new([guest.take().expect("it is back"), wire.guest("far")?], [1, 2], SIZES, 32);
        exchange.run(500, e2e::SOON)?;
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

#[test]
fn mappings_that_cannot_be_made_copy_and_say_why() -> Result<()> {
    let record = |port| RawPort { record_to: "seen.pcap".into(), ..port };
    let fw = || vhost_user("fw");
    for (mtu, buffer, ports, why) in [
        (1500, 1024, [wan(), fw()], "buffers of 1024 bytes"),
        (3000, 2048, [wan(), fw()], "the MTU of up0 is 3000; lower it"),
        (1500, 2048, [record(wan()), fw()], "frames of \"wan\" are recorded"),
        (1500, 2048, [wan(), record(fw())], "frames of \"fw\" are recorded"),
    ] {
        let (cable, home) = (Cable::new()?, Home::new());
        cable.here.run("ip", &["link", "set", "up0", "mtu", &mtu.to_string()])?;
        let wire = cable.wire();
        let config = (ports, one_wire(), e2e::poller());
        let millrace = home.start_inside(&cable.here, &config);
        millrace.wait_up(&["wan"]);
        let guest = Options::new(home.socket("fw")).buffer(buffer).connect()?;
        let mut exchange = Exchange::new([guest, wire.guest("far")?], [1, 2], SIZES, 32);
        // Until then the queue may stop for a moment, in which frames are lost.
        wait_for(why, || millrace.mapping().reason.filter(|reason| reason.contains(why)));
        exchange.run(FRAMES / 4, e2e::SOON)?;
        let mapping = millrace.mapping();
        assert!(mapping.reason.as_ref().is_some_and(|reason| reason.contains(why)), "{mapping:?}");
        assert!(!mapping.zero_copy && mapping.in_place == 0, "{mapping:?}");
        nothing_dropped(&millrace);
        millrace.stop();
    }
    Ok(())
}

#[test]
fn the_interface_goes_under_load_and_the_guest_stays() -> Result<()> {
    let (cable, home) = (Cable::new()?, Home::new());
    let millrace = cable.switch(&home, wan(), (one_wire(), e2e::poller()));
    let mut guest = Some(Options::new(home.socket("fw")).connect()?);
    for _ in 0..5 {
        let wire = cable.wire();
        millrace.wait_up(&["wan"]);
        millrace.wait_mapped();
        let before = millrace.mapping().in_place;
        let mut exchange = Exchange::new([guest.take().expect("it is back"), wire.guest("far")?], [1, 2], SIZES, 32);
        exchange.run(1000, e2e::SOON)?;
        assert!(millrace.mapping().in_place > before + 500, "{:?}", millrace.mapping());
        let [back, _] = exchange.into_guests();
        guest = Some(back);
        drop(wire);
        cable.here.run("ip", &["link", "delete", "up0"])?;
        millrace.wait_down("wan");
        let peer = ["type", "veth", "peer", "name", "up1", "netns", cable.there.name()];
        cable.here.run("ip", &[&["link", "add", "up0"][..], &peer[..]].concat())?;
        cable.there.run("ip", &["link", "set", "up1", "up"])?;
    }
    assert!(guest.is_some_and(|guest| guest.is_connected()), "the guest has noticed nothing");
    millrace.stop();
    Ok(())
}

/// Interfaces whose drivers do not support XDP: the kernel runs the program itself.
#[test]
fn frames_pass_by_generic_xdp_too() -> Result<()> {
    let (cable, home) = (Cable::new()?, Home::new());
    let virtual_one = ["link", "add", "link", "up0", "name", "mv0", "type", "macvlan", "mode", "passthru"];
    cable.here.run("ip", &virtual_one)?;
    let wire = cable.wire();
    let config = (lab::millrace::config::af_xdp("wan", "mv0"), vhost_user("fw"), one_wire(), e2e::poller());
    let millrace = home.start_inside(&cable.here, &config);
    millrace.wait_up(&["wan"]);
    let said = millrace.port("wan").0.detail;
    assert!(said.contains("(XDP is generic), generic XDP (native: "), "{said}");
    let guest = Options::new(home.socket("fw")).connect()?;
    millrace.wait_mapped();
    let mut exchange = Exchange::new([guest, wire.guest("far")?], [1, 2], SIZES, 32);
    exchange.run(FRAMES / 4, e2e::SOON)?;
    look(&millrace, FRAMES / 4);
    millrace.stop();
    Ok(())
}

/// The queues that the guest lacks receive into buffers of the switch.
#[test]
fn a_port_with_more_queues_than_its_guest() -> Result<()> {
    let (cable, home) = (Cable::with_queues(2)?, Home::new());
    let millrace = cable.switch(&home, two_queues(), (one_wire(), e2e::poller()));
    for _ in 0..3 {
        let guest = Options::new(home.socket("fw")).connect()?;
        millrace.wait_mapped();
        let second = millrace.stats().mappings.swap_remove(1);
        assert!(!second.zero_copy && second.reason.iter().any(|why| why.contains("no guest")), "{second:?}");
        drop(guest);
        millrace.wait_down("fw");
    }
    millrace.stop();
    Ok(())
}

#[test]
fn several_queues_each_have_their_mapping() -> Result<()> {
    let cable = Cable::with_queues(2)?;
    let wire = cable.wire();
    let home = Home::new();
    let config = (two_queues(), vhost_user("fw"), one_wire(), e2e::poller());
    let millrace = home.start_inside(&cable.here, &config);
    millrace.wait_up(&["wan"]);
    for _ in 0..3 {
        let before: u64 = millrace.stats().mappings.iter().map(|mapping| mapping.in_place).sum();
        let (port, far) = (dpdk::Port::new(home.socket("fw")), dpdk::Port::new(wire.home.socket("far")));
        let mut testpmd = Testpmd::builder("loop").port(port).port(far).queues(2).spawn()?;
        testpmd.wait_ready(dpdk::READY)?;
        wait_for("both queues to be mapped", || {
            let mappings = millrace.stats().mappings;
            assert_eq!(mappings.len(), 2);
            mappings.iter().all(|mapping| mapping.zero_copy && mapping.on_loan > 0).then_some(())
        });
        testpmd.start_tx_first(2)?;
        wait_for("frames to go round", || {
            let now: u64 = millrace.stats().mappings.iter().map(|mapping| mapping.in_place).sum();
            (now > before + FRAMES).then_some(())
        });
        testpmd.stop()?;
        testpmd.quit(e2e::SOON)?;
        wait_for("the guest to be gone", || {
            millrace.stats().mappings.iter().all(|mapping| !mapping.zero_copy).then_some(())
        });
    }
    millrace.stop();
    Ok(())
}

/// Takes the only frame available.
fn expect(guest: &mut Guest, frame: &[u8]) -> Result<()> {
    let mut received = Vec::new();
    guest.receive(2, |bytes| {
        received.push(bytes.to_vec());
        Ok(())
    })?;
    assert_eq!(received, [frame]);
    Ok(())
}

/// A worker that sleeps does not keep the guest's chains that were sent in place.
#[test]
fn chains_come_back_from_a_worker_that_sleeps() -> Result<()> {
    let (cable, home) = (Cable::new()?, Home::new());
    let wire = cable.wire();
    let millrace = cable.switch(&home, wan(), (one_wire(), sleeper()));
    let mut guest = Options::new(home.socket("fw")).connect()?;
    let mut far = wire.guest("far")?;
    wait_for("the mapping", || millrace.mapping().zero_copy.then_some(()));
    for round in 0..40u8 {
        let sent = millrace.mapping().sent_in_place;
        let frame = [0xff, round].repeat(500);
        assert!(guest.send(&[&frame], 1)?);
        guest.flush();
        assert!(far.wait(e2e::SOON)?, "the frame of round {round} did not arrive");
        expect(&mut far, &frame)?;
        assert_eq!(millrace.mapping().sent_in_place, sent + 1);
        wait_for("the chain to come back", || (guest.reap().unwrap() == 0).then_some(()));
        assert!(far.send(&[&frame], 1)?);
        far.flush();
        assert!(guest.wait(e2e::SOON)?, "no answer in round {round}");
        expect(&mut guest, &frame)?;
    }
    // The switch is not notified when the guest posts buffers: they are lent when a frame arrives.
    assert!(millrace.mapping().in_place > 10, "{:?}", millrace.mapping());
    assert!(millrace.stats().workers[0].sleeps > 0);
    millrace.stop();
    Ok(())
}
