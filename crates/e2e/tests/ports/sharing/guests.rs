//! Guests whose own queues are shared.

use super::*;
use e2e::mapped::{self, one_wire};
use e2e::virtio::rogue::{BUFFERS, HEADER, Rogue, SIZE, TX};
use e2e::virtio::{Pump, Source};
use e2e::wire::{Cable, wan};
use engine::reload::Step;
use lab::dpdk::{self, Testpmd};

/// Frames each way.
const FRAMES: u64 = 5000;

/// Returns the guest's port with these keys.
fn fw(keys: &RawPort) -> RawPort {
    shared(keys, vhost_user("fw"))
}

/// A guest's flow keeps its order, whatever its ring is like; if it demands its buffers back in order, too.
#[test]
fn a_guests_queue_has_three_workers() -> Result<()> {
    for keys in [static_roles(), parented(0, roles(&[2, 1])), locked()] {
        let home = Home::new();
        let millrace = home.start((fw(&keys), vhost_user("far"), patch("fw", "far"), workers(3)));
        let mut sent = [0; 2];
        for kind in 0..4 {
            let options = |socket: &str| {
                let options = Options::new(home.socket(socket));
                let options = if kind % 2 == 1 { options.packed() } else { options };
                if kind >= 2 { options.in_order() } else { options }
            };
            let ends = [options("fw").connect()?, Options::new(home.socket("far")).connect()?];
            millrace.wait_up(&["fw", "far"]);
            let exchange = Exchange::new(ends, [1, 2], SIZES, WINDOW);
            let mut exchange = if is(RxSharing::Locked, &keys) { exchange.in_any_order() } else { exchange };
            exchange.run(FRAMES, e2e::SOON).unwrap();
            sent = sent.map(|sum| sum + FRAMES);
            let lanes: &[usize] = if keys.parent.is_some() { &[2, 1] } else { &[0, 1, 2] };
            adds_up(&millrace, "fw", sent, lanes);
            drop(exchange);
            millrace.wait_gone("fw");
            millrace.wait_gone("far");
        }
        millrace.stop();
    }
    Ok(())
}

/// testpmd sends a few flows round and round: one queue of each side, and then several, which the guest opens when it comes.
#[test]
fn dpdk_guests_share_their_queues() -> Result<()> {
    for (packed, queues) in [(false, 1), (true, 1), (false, 3)] {
        let home = Home::new();
        let far = shared(&roles(&[1, 2]), vhost_user("far"));
        let millrace = home.start((fw(&static_roles()), far, patch("fw", "far"), workers(3)));
        let mut testpmd = Testpmd::builder("loop").queues(queues);
        for name in ["fw", "far"] {
            let port = dpdk::Port::new(home.socket(name));
            testpmd = testpmd.port(if packed { port.packed() } else { port });
        }
        let mut testpmd = testpmd.spawn()?;
        testpmd.wait_ready(dpdk::READY)?;
        testpmd.start_tx_first(2)?;
        wait_for("frames to go round", || {
            let ports = ["fw", "far"].map(|name| millrace.port(name));
            ports.iter().all(|port| port.rx() > 4 * FRAMES && port.tx() > 4 * FRAMES).then_some(())
        });
        testpmd.stop()?;
        let queues = usize::from(queues);
        for (name, lanes) in [("fw", 3), ("far", 2)] {
            let port = millrace.port(name);
            assert_eq!(port.dropped(), 0, "{:?}", port.0);
            let of_queues: Vec<_> = port.0.queues.iter().map(|queue| queue.lanes.len()).collect();
            assert_eq!(of_queues, vec![lanes; queues], "{:?}", port.0);
        }
        testpmd.quit(e2e::SOON)?;
        millrace.wait_gone("fw");
        millrace.stop();
    }
    Ok(())
}

/// Workers of a guest's queue come and go while frames pass. Its session goes on, and no frame is lost or overtakes another.
#[test]
fn workers_of_a_guests_queue_come_and_go() -> Result<()> {
    for (packed, in_order) in [(false, false), (true, false), (false, true)] {
        let home = Home::new();
        let config =
            |(keys, count): &(RawPort, usize)| (fw(keys), vhost_user("far"), patch("fw", "far"), workers(*count));
        let ways = [
            (static_roles(), 3),
            (roles(&[0, 1]), 3),
            (RawPort::default(), 3),
            (parented(4, roles(&[0, 1, 2, 3])), 5),
            (sharing(RxSharing::Rss, &[1]), 2),
            (parented(1, roles(&[3, 1])), 4),
            (sharing(RxSharing::Locked, &[0]), 1),
        ];
        let millrace = home.start(config(&ways[0]));
        let options = Options::new(home.socket("fw"));
        let options = if packed { options.packed() } else { options };
        let near = if in_order { options.in_order() } else { options }.connect()?;
        let far = Options::new(home.socket("far")).connect()?;
        millrace.wait_up(&["fw", "far"]);
        let pump = Pump::start(Exchange::new([near, far], [1, 2], SIZES, WINDOW));
        for way in ways.iter().cycle().skip(1).take(3 * ways.len()) {
            pump.wait_for(100, e2e::SOON).unwrap();
            home.configure(config(way));
            let report = millrace.reload();
            assert_eq!(report.failed(), 0, "{way:?}: {report}");
            assert!(report.ports(Step::Reopened).is_empty(), "{way:?}: {report}");
        }
        pump.wait_for(100, e2e::SOON).unwrap();
        let tally = pump.stop()?;
        assert!(tally.is_complete(), "{tally:?}");
        for (name, rx, tx) in [("fw", 0, 1), ("far", 1, 0)] {
            let port = millrace.counted(name, tally.sent[rx], tally.sent[tx]);
            assert!(port.drops().is_empty(), "{:?}", port.0);
        }
        millrace.stop();
    }
    Ok(())
}

/// Guests die while workers read their frames, and leave nothing behind.
#[test]
fn guests_with_shared_queues_are_killed() -> Result<()> {
    const WARM: usize = 4;
    for keys in [static_roles(), locked()] {
        let home = Home::new();
        let millrace = home.start((fw(&keys), vhost_user("far"), patch("fw", "far"), workers(3)));
        let mut before = None;
        for death in 0..3 * WARM {
            let mut far = mapped::blaster(home.socket("far"), false, [2, 1])?;
            let mut victim = mapped::blaster(home.socket("fw"), death % 2 == 0, [1, 2])?;
            let then = ["fw", "far"].map(|name| millrace.port(name).rx());
            wait_for("frames both ways", || {
                let now = ["fw", "far"].map(|name| millrace.port(name).rx());
                now.iter().zip(then).all(|(now, then)| *now > then + 500).then_some(())
            });
            victim.kill()?;
            far.kill()?;
            millrace.wait_gone("fw");
            millrace.wait_gone("far");
            if death == WARM {
                before = Some(millrace.usage_at_rest());
            }
        }
        millrace.holds_no_more(before.expect("there were as many"), 3 * WARM - WARM);
        let ends = ["fw", "far"].map(|name| guest(&home, &millrace, name).unwrap());
        let exchange = Exchange::new(ends, [3, 4], SIZES, WINDOW);
        let mut exchange = if is(RxSharing::Locked, &keys) { exchange.in_any_order() } else { exchange };
        exchange.run(FRAMES / 5, e2e::SOON).unwrap();
        millrace.stop();
    }
    Ok(())
}

/// A switch whose port `wan`, at a cable or a virtio NIC, is mapped to the shared port `fw`.
fn mapped_scene(keys: &RawPort, cable: Option<&Cable>) -> (Home, Wire, Millrace) {
    let home = Home::new();
    let wire = cable.map_or_else(Wire::start, Cable::wire);
    // Workers that sleep are not told when a guest's first buffers can be lent.
    let rest = (fw(keys), one_wire(), vec![RawWorker::default(); 3]);
    let millrace = match cable {
        Some(cable) => home.start_inside(&cable.here, (wan(), rest)),
        None => home.start((wire.port(false), rest)),
    };
    millrace.wait_up(&["wan"]);
    (home, wire, millrace)
}

/// The guest receives in place as without sharing. What it sends is copied, and chains that the NIC had kept before come back.
#[test]
fn a_mapped_guest_shares_its_queue() -> Result<()> {
    for has_cable in [true, false] {
        let cable = has_cable.then(Cable::new).transpose()?;
        let (home, wire, millrace) = mapped_scene(&RawPort::default(), cable.as_ref());
        let ends = ends(&home, &millrace, &wire)?;
        millrace.wait_mapped();
        let pump = Pump::start(Exchange::new(ends, [1, 2], 1000..=1514, 32));
        let port = || if has_cable { wan() } else { wire.port(false) };
        let ways = [static_roles(), parented(0, roles(&[1, 2])), RawPort::default(), roles(&[2])];
        for keys in ways.iter().cycle().take(12) {
            let before = millrace.mapping();
            home.configure((port(), fw(keys), one_wire(), vec![RawWorker::default(); 3]));
            let report = millrace.reload();
            assert_eq!(report.failed(), 0, "{report}");
            assert!(report.ports(Step::Reopened).is_empty(), "{report}");
            // More than the guest's ring has room for: no buffer is left with the NIC.
            pump.wait_for(600, e2e::SOON).unwrap();
            let now = millrace.mapping();
            assert!(now.in_place > before.in_place, "{now:?}");
            assert!(now.sent_in_place + now.sent_copied > before.sent_in_place + before.sent_copied, "{now:?}");
        }
        let tally = pump.stop()?;
        assert!(tally.is_complete(), "{tally:?}");
        assert!(millrace.mapping().sent_copied > 0 && millrace.mapping().sent_in_place > 0, "{:?}", millrace.mapping());
        millrace.stop();
    }
    Ok(())
}

#[test]
fn mapped_guests_with_shared_queues_are_killed() -> Result<()> {
    for has_cable in [true, false] {
        let cable = has_cable.then(Cable::new).transpose()?;
        let (home, wire, millrace) = mapped_scene(&static_roles(), cable.as_ref());
        let _far = mapped::blaster(wire.home.socket("far"), false, [2, 1])?;
        mapped::kill_guests(&millrace, &home, 14)?;
        millrace.stop();
    }
    Ok(())
}

/// Guests that publish what is no frame, one frame many times, and an index that jumps; that change frames which workers read; and
/// that leave in the middle of it. Another guest of the same workers loses nothing.
#[test]
fn a_guest_that_attacks_its_own_shared_queue_harms_nobody() -> Result<()> {
    for keys in [static_roles(), locked()] {
        let home = Home::new();
        let ports = ["fw", "far", "a"];
        let ends = [(1, "fw"), (2, "far"), (9, "a")];
        let rogues = shared(&keys, vhost_user("a"));
        let millrace = home.start((fw(&keys), vhost_user("far"), rogues, knowing(&ports, &ends), workers(3)));
        let honest = ["fw", "far"].map(|name| guest(&home, &millrace, name).unwrap());
        let exchange = Exchange::new(honest, [1, 2], SIZES, WINDOW);
        let pump = Pump::start(if is(RxSharing::Locked, &keys) { exchange.in_any_order() } else { exchange });
        for strike in 0..20 {
            let mut rogue = Rogue::connect(&home);
            millrace.wait_up(&["a"]);
            let before = millrace.port("a");
            // To its own end, so that they go nowhere.
            let frame = Source::new(9, 9, 60..=60).make();
            rogue.write(BUFFERS + u64::from(HEADER), &frame);
            // One frame many times, every other time; outside its memory, every other two times.
            let slots: Vec<u16> = (0..SIZE).map(|slot| if strike % 2 == 0 { 0 } else { slot }).collect();
            let at = if strike % 4 < 2 { BUFFERS } else { 0x1000 };
            (0..SIZE).for_each(|slot| rogue.describe(TX, slot, at, HEADER + 60, 0, 0));
            for round in 0..3 {
                slots.iter().for_each(|&head| rogue.offer(TX, head));
                let next = rogue.next[TX];
                rogue.publish(TX, next);
                // While they are processed.
                rogue.write(BUFFERS + u64::from(HEADER) + 14, &[round; 46]);
                wait_for("the switch to return them", || (rogue.used_index(TX) == next).then_some(()));
            }
            let now = millrace.port("a");
            assert!(now.rx() + now.dropped() > before.rx() + before.dropped(), "{:?}", now.0);
            match strike % 3 {
                // In the middle of a batch.
                0 => {
                    slots.iter().for_each(|&head| rogue.offer(TX, head));
                    let next = rogue.next[TX];
                    rogue.publish(TX, next);
                }
                1 => {
                    rogue.publish(TX, SIZE * 3 + rogue.next[TX]);
                    wait_for("the rogue to be disconnected", || (!rogue.is_connected()).then_some(()));
                }
                _ => {}
            }
            drop(rogue);
            millrace.wait_gone("a");
            pump.wait_for(WINDOW, e2e::SOON).unwrap();
        }
        let tally = pump.stop()?;
        assert!(tally.is_complete(), "the honest guests lost frames: {tally:?}");
        adds_up_received(&millrace, "fw", tally.sent[0]);
        millrace.stop();
    }
    Ok(())
}

/// Checks that a port has received this many frames, each processed by one of its workers.
fn adds_up_received(millrace: &Millrace, name: &str, frames: u64) {
    let queue = millrace.port(name).0.queues[0].clone();
    assert_eq!(queue.rx_packets, frames, "{queue:?}");
    assert_eq!(queue.lanes.iter().map(|lane| lane.rx_packets).sum::<u64>(), frames, "{queue:?}");
}
