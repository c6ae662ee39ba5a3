//! A guest that breaks every rule behind a shared port, next to an honest one.

use super::*;
use e2e::virtio::rogue::{BUFFERS, F_NEXT, F_WRITE, HEADER, RX, Rogue, SIZE, TX};
use e2e::virtio::{Pump, Source};

/// Ways to attack.
const WAYS: usize = 5;

/// Frames for the rogue at a time: fewer than the wire has room for, besides those of the honest guests.
const BURST: usize = 64;

/// Where the guest has no memory.
const NOWHERE: u64 = 0x1000;

/// Prepares the rogue's rings for an attack.
fn attack(rogue: &mut Rogue, way: usize) {
    let buffer = |slot: u16| BUFFERS + u64::from(slot) * 2048;
    match way {
        // Outside its memory, and some that may not be written to.
        0 => (0..SIZE).for_each(|slot| {
            let flags = if slot % 2 == 0 { F_WRITE } else { 0 };
            rogue.describe(RX, slot, if slot % 4 < 2 { NOWHERE } else { buffer(slot) }, 2048, flags, 0);
        }),
        // Chains without an end.
        1 => (0..SIZE).for_each(|slot| rogue.describe(RX, slot, BUFFERS, 1, F_WRITE | F_NEXT, (slot + 1) % SIZE)),
        // Good buffers, which it leaves with.
        2 => (0..SIZE).for_each(|slot| rogue.describe(RX, slot, buffer(slot), 2048, F_WRITE, 0)),
        // An index that jumps.
        3 => return rogue.publish(RX, SIZE * 3),
        // Frames that are none, and an index that jumps.
        _ => {
            (0..SIZE).for_each(|slot| rogue.describe(TX, slot, NOWHERE, HEADER + 60, 0, 0));
            rogue.offer_all(TX, &(0..SIZE).collect::<Vec<_>>());
            return rogue.publish(TX, SIZE * 3);
        }
    }
    (0..SIZE).for_each(|slot| rogue.offer(RX, slot));
    let all = rogue.next[RX];
    rogue.publish(RX, all);
}

#[test]
fn a_guest_that_attacks_takes_no_frame_from_another() -> Result<()> {
    for keys in [static_roles(), locked()] {
        let (wire, home) = (forked_wire(), Home::new());
        let ports = ["wan", "fw", "a"];
        let ends = [(1, "fw"), (5, "a"), (2, "wan"), (4, "wan")];
        let wan = shared(&keys, wire.port(false));
        let config = (wan, vhost_user("fw"), vhost_user("a"), knowing(&ports, &ends), workers(3));
        let millrace = home.start(config);
        millrace.wait_up(&["wan"]);
        let exchange = Exchange::new(super::ends(&home, &millrace, &wire)?, [1, 2], SIZES, WINDOW);
        let pump = Pump::start(if is(RxSharing::Locked, &keys) { exchange.in_any_order() } else { exchange });
        let (mut sender, mut source) = (wire.guest("far2")?, Source::new(4, 5, SIZES));
        for strike in 0..6 * WAYS {
            let mut rogue = Rogue::connect(&home);
            millrace.wait_up(&["a"]);
            attack(&mut rogue, strike % WAYS);
            for _ in 0..3 {
                // This much honest traffic came after the last burst: the switch has taken that burst from the wire.
                pump.wait_for(2 * WINDOW, e2e::SOON).unwrap();
                wait_for("the wire to take the last burst", || (sender.reap().unwrap() == 0).then_some(()));
                for _ in 0..BURST {
                    assert!(source.send(&mut sender)?);
                }
                sender.flush();
            }
            assert!(millrace.ctl("stats").contains("fw") && millrace.ctl("workers").contains("wan.0:lane"));
            pump.wait_for(2 * WINDOW, e2e::SOON).unwrap();
            if strike % WAYS >= 3 {
                wait_for("the rogue to be disconnected", || (!rogue.is_connected()).then_some(()));
            }
            drop(rogue);
            millrace.wait_gone("a");
        }
        let tally = pump.stop()?;
        assert!(tally.is_complete(), "the honest guests lost frames: {tally:?}");
        let fw = millrace.counted("fw", tally.sent[0], tally.sent[1]);
        assert!(fw.drops().is_empty(), "{:?}", fw.0);
        let rogue = millrace.port("a");
        assert!(rogue.tx() > 0 && rogue.drops().contains_key("bad-buffer"), "{:?}", rogue.0);
        adds_up(&millrace, "wan", [tally.sent[1] + source.sent(), tally.sent[0]], &[0, 1, 2]);
        millrace.stop();
    }
    Ok(())
}
