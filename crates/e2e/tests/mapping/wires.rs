//! The same mapping over both wires: a virtio-user port or an AF_XDP port receives into the buffers of the guest behind another
//! port.
//!
//! The "wire" is a second Millrace, which patches its end to one of its own ports. Behind a virtio-user port it writes straight
//! into the buffers that it gets, as a NIC does; behind an AF_XDP port is the kernel, and a cable.

use std::ops::RangeInclusive;

use e2e::mapped::{self, one_wire, trusted};
use e2e::virtio::{Exchange, Options, Pump};
use e2e::wire::{KINDS, Kind, Line};
use e2e::{Home, wait_for};
use lab::Result;
use lab::dpdk::{self, Testpmd};
use lab::millrace::config::*;

use super::look;

/// Frames each way.
const FRAMES: u64 = 20_000;

/// Returns every size that fits into a buffer of a mapped guest, over this wire, and how many frames may be in flight.
fn traffic(kind: Kind) -> (RangeInclusive<usize>, u64) {
    match kind {
        Kind::VirtioUser => (60..=1500, 64),
        Kind::AfXdp | Kind::Dpdk => (60..=1514, 32),
    }
}

#[test]
fn every_frame_passes_in_place_whole_and_in_order() -> Result<()> {
    for kind in KINDS {
        let (sizes, window) = traffic(kind);
        for packed in [false, true] {
            let (home, line) = (Home::new(), Line::new(kind, packed)?);
            let millrace = line.switch(&home, (one_wire(), e2e::poller()));
            // Three guests, one after the other.
            for _ in 0..3 {
                let options = Options::new(home.socket("fw"));
                let guest = if packed { options.packed() } else { options }.connect()?;
                let far = line.wire.guest("far")?;
                millrace.wait_mapped();
                let mut exchange = Exchange::new([guest, far], [1, 2], sizes.clone(), window);
                exchange.run(FRAMES / 2, e2e::SOON)?;
                look(&millrace, FRAMES / 2);
                drop(exchange);
                millrace.wait_down("fw");
                wait_for("the guest to be gone", || (!millrace.mapping().zero_copy).then_some(()));
            }
            millrace.stop();
        }
    }
    Ok(())
}

#[test]
fn every_kind_of_dpdk_guest() -> Result<()> {
    for kind in KINDS {
        let line = Line::new(kind, false)?;
        for case in 0..8 {
            let [packed, mergeable, in_order] = [case & 1, case & 2, case & 4].map(|bit| bit != 0);
            let home = Home::new();
            let millrace = line.switch(&home, (one_wire(), e2e::poller()));
            let mut port = dpdk::Port::new(home.socket("fw")).mergeable(mergeable);
            port = if packed { port.packed() } else { port };
            port = if in_order { port.in_order() } else { port };
            let far = dpdk::Port::new(line.wire.home.socket("far"));
            let mut testpmd = Testpmd::builder("loop").port(port).port(far).spawn()?;
            testpmd.wait_ready(dpdk::READY)?;
            millrace.wait_mapped();
            testpmd.start_tx_first(2)?;
            wait_for("frames to go round", || (millrace.mapping().in_place > FRAMES).then_some(()));
            testpmd.stop()?;
            let stats = testpmd.stats()?;
            // The kernel's cable drops frames if its other end has no processor.
            let wanted = if kind == Kind::VirtioUser { FRAMES / 2 } else { 1 };
            assert!(stats.iter().all(|port| port.rx_packets > wanted), "{kind:?}, case {case}: {stats:?}");
            testpmd.quit(e2e::SOON)?;
            wait_for("the guest to be gone", || (!millrace.mapping().zero_copy).then_some(()));
            let reason = millrace.mapping().reason;
            assert!(reason.is_some_and(|reason| reason.contains("no guest")), "{kind:?}, case {case}");
            millrace.stop();
        }
    }
    Ok(())
}

/// Frames for other guests also land in the mapped guest's buffers, and are copied from there; a guest that posts no buffers
/// blocks no other guest.
#[test]
fn others_in_the_bridge_get_theirs() -> Result<()> {
    for kind in KINDS {
        let (sizes, _) = traffic(kind);
        let (home, line) = (Home::new(), Line::new(kind, false)?);
        let bridge = bridge("br0", ["wan", "fw", "other"]);
        let millrace = line.switch(&home, (trusted(), vhost_user("other"), bridge, e2e::poller()));
        let mut far = line.wire.guest("far")?;
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
            let mut exchange = Exchange::new([other, far], [3, 2], sizes.clone(), 32);
            exchange.run(FRAMES / 4, e2e::SOON)?;
            [other, far] = exchange.into_guests();
            if let (1, Some(guest)) = (step, guest) {
                let mut exchange = Exchange::new([guest, far], [1, 2], sizes.clone(), 32);
                exchange.run(FRAMES / 4, e2e::SOON)?;
                [_, far] = exchange.into_guests();
            }
        }
        let mapping = millrace.mapping();
        assert!(mapping.in_place > 0 && mapping.elsewhere > 0, "{mapping:?}");
        // A device of DPDK gets buffers of the switch only while there are none of the guest's.
        assert!(mapping.copied > 0 || kind == Kind::Dpdk, "{mapping:?}");
        millrace.stop();
    }
    Ok(())
}

#[test]
fn guests_are_killed_under_load() -> Result<()> {
    for kind in KINDS {
        let (home, line) = (Home::new(), Line::new(kind, false)?);
        let millrace = line.switch(&home, (one_wire(), patched("c", "d"), e2e::poller()));
        let [c, d] = ["c", "d"].map(|port| Options::new(home.socket(port)).connect().unwrap());
        let bystanders = Pump::start(Exchange::new([c, d], [3, 4], 60..=1500, 64));
        let _far = mapped::blaster(line.wire.home.socket("far"), false, [2, 1])?;
        mapped::kill_guests(&millrace, &home, 18)?;
        let tally = bystanders.stop()?;
        assert!(tally.is_complete(), "{tally:?}");
        millrace.stop();
    }
    Ok(())
}

/// Once a guest's session has ended, nothing is written to its memory any more.
#[test]
fn nothing_is_written_late() -> Result<()> {
    for kind in KINDS {
        let (home, line) = (Home::new(), Line::new(kind, false)?);
        let millrace = line.switch(&home, (one_wire(), e2e::poller()));
        mapped::leave_again_and_again(&millrace, &home, line.wire.guest("far")?)?;
        millrace.stop();
    }
    Ok(())
}

#[test]
fn a_switch_that_stops_gives_everything_back() -> Result<()> {
    for kind in KINDS {
        let (sizes, window) = traffic(kind);
        let (home, line) = (Home::new(), Line::new(kind, false)?);
        for _ in 0..3 {
            let millrace = line.switch(&home, (one_wire(), e2e::poller()));
            let guest = Options::new(home.socket("fw")).connect()?;
            let far = line.wire.guest("far")?;
            millrace.wait_mapped();
            let mut exchange = Exchange::new([guest, far], [1, 2], sizes.clone(), window);
            exchange.run(2000, e2e::SOON)?;
            // With both still connected.
            millrace.stop();
        }
    }
    Ok(())
}
