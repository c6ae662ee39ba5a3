//! Workers of a shared queue that come and go while frames pass, and its port.

use super::*;
use e2e::mapped;
use e2e::virtio::Pump;
use e2e::wire::{Cable, wan};
use engine::reload::Step;

/// Returns the same keys without an order.
fn unordered_by(keys: RawPort) -> RawPort {
    RawPort { order: FrameOrder::None.into(), ..keys }
}

/// Reloads a switch again and again, with each of `ways` and its number of workers, while frames pass. Nothing is lost,
/// nothing comes twice, and no guest is disconnected.
fn changes_while_frames_pass(ways: &[(RawPort, usize)], is_ordered: bool) -> Result<()> {
    let (wire, home) = (Wire::start(), Home::new());
    let config = |(keys, count): &(RawPort, usize)| {
        (shared(keys, wire.port(false)), vhost_user("fw"), joined(), workers(*count))
    };
    let millrace = home.start(config(&ways[0]));
    millrace.wait_up(&["wan"]);
    let exchange = Exchange::new(ends(&home, &millrace, &wire)?, [1, 2], SIZES, WINDOW);
    let pump = Pump::start(if is_ordered { exchange } else { exchange.in_any_order() });
    for way in ways.iter().skip(1).chain(ways).chain(ways) {
        pump.wait_for(100, e2e::SOON).unwrap();
        home.configure(config(way));
        let report = millrace.reload();
        assert_eq!(report.failed(), 0, "{way:?}: {report}");
        assert!(report.ports(Step::Reopened).is_empty(), "{way:?}: {report}");
        let shares = is(RxSharing::StaticRole, &way.0) || is(RxSharing::Locked, &way.0);
        let queue = millrace.port("wan").0.queues[0].clone();
        assert_eq!(queue.sharing.is_some(), shares, "{way:?}: {queue:?}");
        assert_eq!(millrace.stats().workers.len(), way.1);
    }
    pump.wait_for(100, e2e::SOON).unwrap();
    let tally = pump.stop()?;
    assert!(tally.is_complete(), "{tally:?}");
    for (name, rx, tx) in [("wan", 1, 0), ("fw", 0, 1)] {
        let port = millrace.counted(name, tally.sent[rx], tally.sent[tx]);
        assert!(port.drops().is_empty(), "{:?}", port.0);
    }
    assert_eq!(wire.sessions(), 1, "the switch connected to the wire again");
    millrace.stop();
    Ok(())
}

#[test]
fn workers_come_and_go_and_frames_keep_their_order() -> Result<()> {
    changes_while_frames_pass(
        &[
            (sharing(RxSharing::StaticRole, &[0, 1, 2]), 3),
            (sharing(RxSharing::StaticRole, &[0, 1]), 3),
            (parented(4, sharing(RxSharing::StaticRole, &[0, 1, 2, 3])), 5),
            (parented(1, sharing(RxSharing::StaticRole, &[3, 1])), 4),
            (RawPort::default(), 4),
            (sharing(RxSharing::StaticRole, &[0]), 1),
            (sharing(RxSharing::Rss, &[1]), 2),
            (sharing(RxSharing::Locked, &[0]), 2),
        ],
        true,
    )
}

#[test]
fn the_way_changes_while_frames_pass() -> Result<()> {
    changes_while_frames_pass(
        &[
            (sharing(RxSharing::Locked, &[0, 1, 2]), 3),
            (unordered_by(sharing(RxSharing::StaticRole, &[0, 1, 2])), 3),
            (sharing(RxSharing::Rss, &[2]), 3),
            (sharing(RxSharing::Locked, &[3, 0]), 4),
            (RawPort::default(), 2),
            (parented(0, sharing(RxSharing::StaticRole, &[1])), 2),
        ],
        false,
    )
}

/// Both ends send as fast as they can, and frames are dropped all the time: each is counted.
#[test]
fn the_way_changes_while_all_queues_are_full() -> Result<()> {
    let (wire, home) = (Wire::start(), Home::new());
    let config = |keys: &RawPort| (shared(keys, wire.port(true)), vhost_user("fw"), joined(), workers(3));
    let millrace = home.start(config(&RawPort::default()));
    millrace.wait_up(&["wan"]);
    let mut ends =
        [mapped::blaster(home.socket("fw"), false, [1, 2])?, mapped::blaster(wire.home.socket("far"), true, [2, 1])?];
    let ways = [
        roles(&[0, 1, 2]),
        sharing(RxSharing::Locked, &[0, 1, 2]),
        parented(0, unordered_by(roles(&[1, 2]))),
        roles(&[2]),
        RawPort::default(),
    ];
    for way in ways.iter().cycle().take(20) {
        home.configure(config(way));
        let report = millrace.reload();
        assert_eq!(report.failed(), 0, "{way:?}: {report}");
        let before = ["wan", "fw"].map(|port| millrace.port(port).tx());
        wait_for("frames both ways", || {
            let now = ["wan", "fw"].map(|port| millrace.port(port).tx());
            now.iter().zip(before).all(|(now, before)| *now > before + 500).then_some(())
        });
    }
    for end in &mut ends {
        end.kill()?;
    }
    millrace.wait_gone("fw");
    nothing_vanished(&millrace);
    millrace.stop();
    Ok(())
}

#[test]
fn a_shared_port_is_removed_and_added_while_frames_arrive() -> Result<()> {
    for keys in [static_roles(), locked()] {
        let (wire, home) = (Wire::start(), Home::new());
        let without = (vhost_user("fw"), workers(3));
        let with = (shared(&keys, wire.port(false)), joined(), &without);
        let millrace = home.start(&with);
        let mut guest = guest(&home, &millrace, "fw")?;
        let mut far = mapped::blaster(wire.home.socket("far"), false, [2, 1])?;
        for _ in 0..10 {
            millrace.wait_up(&["wan"]);
            let before = millrace.port("fw").tx();
            wait_for("frames", || {
                guest.receive(64, |_| Ok(())).unwrap();
                (millrace.port("fw").tx() > before + 500).then_some(())
            });
            home.configure(&without);
            let report = millrace.reload();
            assert_eq!((report.failed(), report.ports(Step::Removed)), (0, vec!["wan"]), "{report}");
            home.configure(&with);
            let report = millrace.reload();
            assert_eq!((report.failed(), report.ports(Step::Added)), (0, vec!["wan"]), "{report}");
        }
        assert!(guest.is_connected());
        far.kill()?;
        millrace.wait_up(&["wan"]);
        wait_at_rest(&millrace, "wan");
        guest.receive(usize::MAX, |_| Ok(()))?;
        unordered([guest, wire.guest("far")?], [3, 4]).run(500, e2e::SOON).unwrap();
        millrace.stop();
    }
    Ok(())
}

/// The device goes while its workers have frames of it.
#[test]
fn the_interface_of_a_shared_port_goes_and_comes_back() -> Result<()> {
    for keys in [static_roles(), locked()] {
        let (cable, home) = (Cable::new()?, Home::new());
        let millrace = home.start_inside(&cable.here, (shared(&keys, wan()), vhost_user("fw"), joined(), workers(3)));
        let mut guest = guest(&home, &millrace, "fw")?;
        for round in 0..4u8 {
            let wire = cable.wire();
            millrace.wait_up(&["wan"]);
            let mut exchange = unordered([guest, wire.guest("far")?], [1 + 2 * round, 2 + 2 * round]);
            exchange.run(500, e2e::SOON).unwrap();
            let [back, other] = exchange.into_guests();
            guest = back;
            drop(other);
            let _far = mapped::blaster(wire.home.socket("far"), false, [2, 1])?;
            let before = millrace.port("fw").tx();
            wait_for("frames", || {
                guest.receive(64, |_| Ok(())).unwrap();
                (millrace.port("fw").tx() > before + 500).then_some(())
            });
            cable.here.run("ip", &["link", "delete", "up0"])?;
            millrace.wait_down("wan");
            drop(wire);
            wait_at_rest(&millrace, "wan");
            guest.receive(usize::MAX, |_| Ok(()))?;
            let peer = ["type", "veth", "peer", "name", "up1", "netns", cable.there.name()];
            cable.here.run("ip", &[&["link", "add", "up0"][..], &peer[..]].concat())?;
            cable.here.run("ip", &["link", "set", "up0", "arp", "off", "up"])?;
            cable.there.run("ip", &["link", "set", "up1", "up"])?;
        }
        assert!(guest.is_connected(), "the guest has noticed nothing");
        let wan = millrace.port("wan");
        assert!(!wan.drops().contains_key("worker-stalled"), "{:?}", wan.0);
        millrace.stop();
    }
    Ok(())
}
