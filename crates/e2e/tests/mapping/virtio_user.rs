//! Receive queue mapping: a virtio-user port receives into the buffers of the guest behind another port.
//!
//! Behind the virtio-user port is the "wire", a second Millrace, which patches it to one of its own ports. It writes straight
//! into the buffers that it gets, as a NIC does.

use e2e::guest::{self, Kernel, Nic, Vm};
use e2e::mapped::{self, BRIDGE, PASS_THROUGH};
use e2e::virtio::{Exchange, Forwarder, Options, Pump};
use e2e::wire::Wire;
use e2e::{Home, Millrace, wait_for};
use lab::dpdk::{self, Testpmd};
use lab::netns::Namespace;
use lab::{Result, cpu};

/// Frames each way.
const FRAMES: u64 = 20_000;

/// Every size that fits into a buffer of a mapped guest.
const SIZES: std::ops::RangeInclusive<usize> = 60..=1500;

fn switch(home: &Home, wire: &Wire, packed: bool, rest: &str) -> Millrace {
    let millrace = home.start(&[&wire.port(packed), &e2e::port("fw"), rest, &e2e::poller()].concat());
    millrace.wait_up(&["wan"]);
    millrace
}

/// Checks that frames are received in place, and that none were lost.
fn look(millrace: &Millrace, frames: u64) {
    let mapping = millrace.mapping();
    assert!(mapping.zero_copy && mapping.in_place + mapping.copied >= frames, "{mapping:?}");
    assert!(mapping.in_place > frames / 2, "{mapping:?}");
    assert!(mapping.sent_in_place > 0 && mapping.sent_copied > 0, "long frames and short ones: {mapping:?}");
    for port in ["wan", "fw"] {
        assert_eq!(millrace.port(port).dropped(), 0, "{:?}", millrace.port(port).0);
    }
}

#[test]
fn every_frame_passes_in_place_whole_and_in_order() -> Result<()> {
    let _alone = cpu::alone();
    for packed in [false, true] {
        let (home, wire) = (Home::new(), Wire::new());
        let millrace = switch(&home, &wire, packed, PASS_THROUGH);
        let options = Options::new(home.socket("fw"));
        let guest = if packed { options.packed() } else { options }.connect()?;
        let far = wire.far().connect()?;
        millrace.wait_mapped();
        let mut exchange = Exchange::new([guest, far], [1, 2], SIZES, 64);
        exchange.run(FRAMES, e2e::SOON)?;
        look(&millrace, FRAMES);
        millrace.stop();
    }
    Ok(())
}

#[test]
fn every_kind_of_dpdk_guest() -> Result<()> {
    let _alone = cpu::alone();
    for case in 0..8 {
        let [packed, mergeable, in_order] = [case & 1, case & 2, case & 4].map(|bit| bit != 0);
        let (home, wire) = (Home::new(), Wire::new());
        let millrace = switch(&home, &wire, false, PASS_THROUGH);
        let mut port = dpdk::Port::new(home.socket("fw")).mergeable(mergeable);
        port = if packed { port.packed() } else { port };
        port = if in_order { port.in_order() } else { port };
        let far = dpdk::Port::new(wire.home.socket("far"));
        let mut testpmd = Testpmd::builder("loop").port(port).port(far).spawn()?;
        testpmd.wait_ready(dpdk::READY)?;
        millrace.wait_mapped();
        testpmd.start_tx_first(2)?;
        wait_for("frames to go round", || (millrace.mapping().in_place > FRAMES).then_some(()));
        testpmd.stop()?;
        let stats = testpmd.stats()?;
        assert!(stats.iter().all(|port| port.rx_packets > FRAMES / 2), "case {case}: {stats:?}");
        testpmd.quit(e2e::SOON)?;
        wait_for("the guest to be gone", || (!millrace.mapping().zero_copy).then_some(()));
        assert!(millrace.mapping().reason.is_some_and(|reason| reason.contains("no guest")), "case {case}");
        millrace.stop();
    }
    Ok(())
}

#[test]
fn a_linux_machine() -> Result<()> {
    let _alone = cpu::alone();
    let namespace = Namespace::create()?;
    let far = Home::new();
    let tap = "[[port]]\nname = \"far\"\ndriver = \"tap\"\ninterface = \"far0\"\n";
    let patch = "[[patch]]\nports = [\"wan\", \"far\"]\n";
    let wire = far.start_inside(&namespace, &[&e2e::port("wan"), tap, patch, e2e::SLEEPER].concat());
    let wire = Wire::of(far, wire);
    namespace.run("ip", &["address", "add", "192.0.2.1/24", "dev", "far0"])?;
    let home = Home::new();
    let millrace = switch(&home, &wire, false, PASS_THROUGH);
    let kernel = Kernel::prepare()?;
    let machine = Vm::builder("a").nic(Nic::new(home.socket("fw"))).spawn(&kernel)?;
    machine.wait_ready(guest::READY)?;
    machine.set_address("eth0", "192.0.2.2/24")?;
    millrace.wait_mapped();
    for size in ["56", "1400"] {
        namespace.run("ping", &["-c", "5", "-i", "0.2", "-W", "2", "-s", size, "192.0.2.2"])?;
    }
    assert_eq!(machine.ping("192.0.2.1", 5)?.received, 5);
    let mapping = millrace.mapping();
    assert!(mapping.in_place >= 15 && mapping.sent_in_place >= 5, "{mapping:?}");
    machine.power_off(e2e::SOON)?;
    millrace.wait_down("fw");
    millrace.stop();
    Ok(())
}

/// The first function of a chain is mapped to a NIC; a patch joins it to the next one.
#[test]
fn a_chain_behind_a_mapping() -> Result<()> {
    let _alone = cpu::alone();
    let (home, wire) = (Home::new(), Wire::new());
    let millrace = switch(&home, &wire, false, &[PASS_THROUGH, &e2e::patch("next", "end")].concat());
    let [fw, next, end] = ["fw", "next", "end"].map(|port| Options::new(home.socket(port)).connect());
    let first = Forwarder::start(fw?, next?);
    let far = wire.far().connect()?;
    millrace.wait_mapped();
    Exchange::new([end?, far], [1, 2], SIZES, 32).run(FRAMES / 4, e2e::SOON)?;
    assert_eq!(first.stop()?, FRAMES / 2);
    wait_for("all frames to be counted", || (millrace.mapping().in_place == FRAMES / 4).then_some(()));
    assert!(millrace.mapping().sent_in_place > 0, "{:?}", millrace.mapping());
    millrace.stop();
    Ok(())
}

/// Frames for other guests also land in the mapped guest's buffers, and are copied from there; a guest that posts no buffers
/// blocks nobody.
#[test]
fn others_in_the_bridge_get_theirs() -> Result<()> {
    let _alone = cpu::alone();
    let (home, wire) = (Home::new(), Wire::new());
    let bridge = [BRIDGE, &e2e::port("other"), "[[bridge]]\nname = \"br0\"\nports = [\"wan\", \"fw\", \"other\"]\n"];
    let millrace = switch(&home, &wire, false, &bridge.concat());
    let mut far = wire.far().connect()?;
    let mut other = Options::new(home.socket("other")).connect()?;
    // Without a guest, with one that takes its frames, and with one that has posted its buffers but never looks again.
    for step in 0..3 {
        let guest = if step > 0 { Some(Options::new(home.socket("fw")).connect()?) } else { None };
        if guest.is_some() {
            millrace.wait_mapped();
        }
        // Frames flooded before their destination was known.
        for guest in [&mut other, &mut far] {
            guest.receive(usize::MAX, |_| Ok(()))?;
        }
        let mut exchange = Exchange::new([other, far], [3, 2], SIZES, 32);
        exchange.run(FRAMES / 4, e2e::SOON)?;
        [other, far] = exchange.into_guests();
        if let (1, Some(guest)) = (step, guest) {
            let mut exchange = Exchange::new([guest, far], [1, 2], SIZES, 32);
            exchange.run(FRAMES / 4, e2e::SOON)?;
            [_, far] = exchange.into_guests();
        }
    }
    let mapping = millrace.mapping();
    assert!(mapping.in_place > 0 && mapping.elsewhere > 0 && mapping.copied > 0, "{mapping:?}");
    millrace.stop();
    Ok(())
}

/// Buffers too short for a whole frame stay with the guest, and frames are copied there.
#[test]
fn a_guest_with_short_buffers() -> Result<()> {
    let _alone = cpu::alone();
    for bridge in [false, true] {
        let (home, wire) = (Home::new(), Wire::new());
        let rest = [BRIDGE, "[[bridge]]\nname = \"br0\"\nports = [\"wan\", \"fw\"]\n"].concat();
        let millrace = switch(&home, &wire, false, if bridge { &rest } else { PASS_THROUGH });
        let guest = Options::new(home.socket("fw")).buffer(1024).connect()?;
        let far = wire.far().connect()?;
        wait_for("the mapping to copy", || {
            millrace.mapping().reason.filter(|reason| reason.contains("buffers of 1024 bytes"))
        });
        // Mergeable buffers also take longer frames.
        let mut exchange = Exchange::new([guest, far], [1, 2], SIZES, 64);
        exchange.run(FRAMES / 4, e2e::SOON)?;
        let mapping = millrace.mapping();
        assert!(mapping.in_place == 0 && mapping.copied >= FRAMES / 4, "{mapping:?}");
        millrace.stop();
    }
    Ok(())
}

#[test]
fn guests_are_killed_under_load() -> Result<()> {
    let _alone = cpu::alone();
    let (home, wire) = (Home::new(), Wire::new());
    let millrace = switch(&home, &wire, false, &[PASS_THROUGH, &e2e::patch("c", "d")].concat());
    let [c, d] = ["c", "d"].map(|port| Options::new(home.socket(port)).connect().unwrap());
    let bystanders = Pump::start(Exchange::new([c, d], [3, 4], 60..=1500, 64));
    let _far = mapped::blaster(wire.home.socket("far"), false, [2, 1])?;
    mapped::kill_guests(&millrace, &home, 18)?;
    let tally = bystanders.stop()?;
    assert!(tally.is_complete(), "{tally:?}");
    millrace.stop();
    Ok(())
}

/// Once a guest's session has ended, nothing is written to its memory any more.
#[test]
fn nothing_is_written_late() -> Result<()> {
    let _alone = cpu::alone();
    let (home, wire) = (Home::new(), Wire::new());
    let millrace = switch(&home, &wire, false, PASS_THROUGH);
    mapped::leave_again_and_again(&millrace, &home, wire.far().connect()?)?;
    millrace.stop();
    Ok(())
}

#[test]
fn the_wire_is_killed_under_load() -> Result<()> {
    let _alone = cpu::alone();
    let (home, mut wire) = (Home::new(), Wire::new());
    let millrace = switch(&home, &wire, false, PASS_THROUGH);
    let guest = Options::new(home.socket("fw")).connect()?;
    let mut guest = Some(guest);
    for _ in 0..10 {
        millrace.wait_up(&["wan"]);
        millrace.wait_mapped();
        let far = wire.far().connect()?;
        let mut exchange = Exchange::new([guest.take().expect("it is back"), far], [1, 2], SIZES, 64);
        exchange.run(2000, e2e::SOON)?;
        let [back, far] = exchange.into_guests();
        guest = Some(back);
        drop(far);
        wire.kill()?;
        millrace.wait_down("wan");
        wire.revive();
    }
    assert!(guest.is_some_and(|guest| guest.is_connected()), "the guest has noticed nothing");
    millrace.stop();
    Ok(())
}

#[test]
fn a_switch_that_stops_gives_everything_back() -> Result<()> {
    let _alone = cpu::alone();
    let (home, wire) = (Home::new(), Wire::new());
    for _ in 0..3 {
        let millrace = switch(&home, &wire, false, PASS_THROUGH);
        let guest = Options::new(home.socket("fw")).connect()?;
        let far = wire.far().connect()?;
        millrace.wait_mapped();
        let mut exchange = Exchange::new([guest, far], [1, 2], SIZES, 64);
        exchange.run(2000, e2e::SOON)?;
        // With both still connected.
        millrace.stop();
    }
    Ok(())
}
