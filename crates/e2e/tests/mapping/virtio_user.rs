//! A mapping of a virtio-user port: to machines and chains, with short buffers, and with a wire that is killed.

use e2e::guest::{self, Kernel, Nic, Vm};
use e2e::mapped::{one_wire, trusted};
use e2e::virtio::{Exchange, Forwarder, Options};
use e2e::wire::Wire;
use e2e::{Home, Millrace, wait_for};
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;

/// Frames each way.
const FRAMES: u64 = 20_000;

/// Every size that fits into a buffer of a mapped guest.
const SIZES: std::ops::RangeInclusive<usize> = 60..=1500;

fn switch(home: &Home, wire: &Wire, rest: impl Part) -> Millrace {
    let millrace = home.start((wire.port(false), vhost_user("fw"), rest, e2e::poller()));
    millrace.wait_up(&["wan"]);
    millrace
}

#[test]
fn a_linux_machine() -> Result<()> {
    let namespace = Namespace::create()?;
    let far = Home::new();
    let tap = tap("far", "far0");
    let patch = patch("wan", "far");
    let wire = far.start_inside(&namespace, (vhost_user("wan"), tap, patch, sleeper()));
    let wire = Wire::of(far, wire);
    namespace.run("ip", &["address", "add", "192.0.2.1/24", "dev", "far0"])?;
    let home = Home::new();
    let millrace = switch(&home, &wire, one_wire());
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
    let (home, wire) = (Home::new(), Wire::start());
    let millrace = switch(&home, &wire, (one_wire(), patched("next", "end")));
    let [fw, next, end] = ["fw", "next", "end"].map(|port| Options::new(home.socket(port)).connect());
    let first = Forwarder::start(fw?, next?);
    let far = wire.guest("far")?;
    millrace.wait_mapped();
    let is_told = |what: &str| {
        let line = format!("mapping wan.0 to fw.0: {what}");
        wait_for(&line, || millrace.ctl("events --last 200").contains(&line).then_some(()));
    };
    is_told("in place");
    Exchange::new([end?, far], [1, 2], SIZES, 32).run(FRAMES / 4, e2e::SOON)?;
    assert_eq!(first.stop()?, FRAMES / 2);
    wait_for("all frames to be counted", || (millrace.mapping().in_place == FRAMES / 4).then_some(()));
    assert!(millrace.mapping().sent_in_place > 0, "{:?}", millrace.mapping());
    is_told("copy: no guest has started queue 0 of \"fw\"");
    millrace.stop();
    Ok(())
}

/// Buffers too short for a whole frame stay with the guest, and frames are copied there.
#[test]
fn a_guest_with_short_buffers() -> Result<()> {
    for bridged in [false, true] {
        let (home, wire) = (Home::new(), Wire::start());
        let joined = if bridged { file((trusted(), bridge("br0", ["wan", "fw"]))) } else { file(one_wire()) };
        let millrace = switch(&home, &wire, joined);
        let guest = Options::new(home.socket("fw")).buffer(1024).connect()?;
        let far = wire.guest("far")?;
        wait_for("the mapping to copy", || {
            millrace.mapping().reason.filter(|reason| reason.contains("buffers of 1024 bytes"))
        });
        millrace.wait_up(&["wan", "fw"]);
        // Only then does the worker offer buffers of its own.
        millrace.wait_round();
        // Mergeable buffers also take longer frames. The queue offers two bursts at first, one of which it may not yet have offered
        // again, and its whole ring later.
        let mut guests = [guest, far];
        for window in [32, 128] {
            let mut exchange = Exchange::new(guests, [1, 2], SIZES, window);
            exchange.run(FRAMES / 8, e2e::SOON)?;
            guests = exchange.into_guests();
        }
        let mapping = millrace.mapping();
        assert!(mapping.in_place == 0 && mapping.copied >= FRAMES / 4, "{mapping:?}");
        millrace.stop();
    }
    Ok(())
}

#[test]
fn the_wire_is_killed_under_load() -> Result<()> {
    let (home, mut wire) = (Home::new(), Wire::start());
    let millrace = switch(&home, &wire, one_wire());
    let guest = Options::new(home.socket("fw")).connect()?;
    let mut guest = Some(guest);
    for _ in 0..10 {
        millrace.wait_up(&["wan"]);
        millrace.wait_mapped();
        let far = wire.guest("far")?;
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
