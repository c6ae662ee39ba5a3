//! Receive queue mapping with a backend that does not take the guest's memory: frames are copied.

use e2e::gate::{Gate, Reaction};
use e2e::mapped::one_wire;
use e2e::virtio::{Exchange, Options, Pump};
use e2e::wire::Wire;
use e2e::{Home, Millrace, wait_for};
use lab::Result;
use lab::millrace::config::*;

/// Frames each way.
const FRAMES: u64 = 3000;

/// Every size that fits into a buffer of a mapped guest.
const SIZES: std::ops::RangeInclusive<usize> = 60..=1500;

/// A virtio-user port `wan`, whose backend is a gate in front of a wire.
fn wan(queues: i64) -> RawPort {
    port("wan", VirtioUser { socket: "gate.sock".into(), queues: queues.into(), ..VirtioUser::default() })
}

/// Waits until the mapping says why it copies.
fn copies(millrace: &Millrace, mapping: usize, why: &str) {
    wait_for(&format!("a mapping that copies: {:?}", millrace.stats().mappings), || {
        let mapping = millrace.stats().mappings.swap_remove(mapping);
        (!mapping.zero_copy && mapping.reason.is_some_and(|reason| reason.contains(why))).then_some(())
    });
}

#[test]
fn frames_are_copied_and_no_other_guest_is_disturbed() -> Result<()> {
    let refused = "the device refused SET_MEM_TABLE";
    let gave_up = "the backend left, or did not answer, 3 times in a row when it was given a guest's memory";
    for (reaction, acknowledges, why, connections) in [
        (Reaction::Refuse, true, refused, 1),
        (Reaction::HangUp, true, gave_up, 4),
        (Reaction::HangUp, false, gave_up, 4),
        (Reaction::Silence, true, gave_up, 4),
    ] {
        let case = format!("{reaction:?}, REPLY_ACK: {acknowledges}");
        let (home, wire) = (Home::new(), Wire::start());
        let gate = Gate::open(&home.socket("gate"), wire.home.socket("wan"), reaction, 1, acknowledges);
        let bystanders = patched("c", "d");
        let mut millrace = home.start((wan(1), vhost_user("fw"), one_wire(), bystanders, e2e::poller()));
        millrace.wait_up(&["wan"]);
        let [c, d] = ["c", "d"].map(|port| Options::new(home.socket(port)).connect());
        let pump = Pump::start(Exchange::new([c?, d?], [3, 4], SIZES, 64));
        let guest = Options::new(home.socket("fw")).connect()?;
        copies(&millrace, 0, why);
        millrace.wait_said(0, why);
        assert_eq!(gate.connections(), connections, "{case}");
        millrace.wait_up(&["wan"]);
        let mut exchange = Exchange::new([guest, wire.guest("far")?], [1, 2], SIZES, 64);
        exchange.run(FRAMES, e2e::SOON)?;
        let mapping = millrace.mapping();
        assert!(mapping.in_place == 0 && mapping.sent_in_place == 0, "{case}: {mapping:?}");
        assert_eq!(gate.connections(), connections, "{case}: it stays connected");

        // The next guest's memory, or another backend, is tried again.
        gate.react(Reaction::Take);
        let [guest, far] = exchange.into_guests();
        let guest = if reaction == Reaction::Refuse {
            drop(guest);
            millrace.wait_gone("fw");
            Options::new(home.socket("fw")).connect()?
        } else {
            gate.hang_up();
            guest
        };
        drop(far);
        millrace.wait_mapped();
        Exchange::new([guest, wire.guest("far")?], [1, 2], SIZES, 64).run(FRAMES, e2e::SOON)?;
        assert!(millrace.mapping().in_place > FRAMES / 2, "{case}: {:?}", millrace.mapping());
        pump.wait_for(100, e2e::SOON)?;
        let tally = pump.stop()?;
        assert!(tally.is_complete(), "{case}: {tally:?}");
        millrace.stop();
    }
    Ok(())
}

/// A backend that has room for the memory of one guest only.
#[test]
fn a_guest_too_many_does_not_disturb_the_first() -> Result<()> {
    let (home, wire) = (Home::new(), Wire::start());
    let gate = Gate::open(&home.socket("gate"), wire.home.socket("wan"), Reaction::Refuse, 2, true);
    let ports = [vhost_user("near0"), vhost_user("near1")];
    let mappings = [("wan.0", "near0"), ("wan.1", "near1")]
        .map(|(from, to)| RawMapping { copy_break: 0.into(), ..pass_through(from, to) });
    let millrace = home.start((wan(2), ports, mappings, e2e::poller()));
    millrace.wait_up(&["wan"]);
    let first = Options::new(home.socket("near0")).connect()?;
    let far = wire.guest("far")?;
    millrace.wait_mapped();
    let pump = Pump::start(Exchange::new([first, far], [1, 2], SIZES, 64));
    for _ in 0..10 {
        let second = Options::new(home.socket("near1")).connect()?;
        copies(&millrace, 1, "SET_MEM_TABLE");
        pump.wait_for(100, e2e::SOON)?;
        let mapping = millrace.mapping();
        assert!(mapping.zero_copy && mapping.on_loan > 0, "{mapping:?}");
        drop(second);
        millrace.wait_gone("near1");
    }
    let tally = pump.stop()?;
    assert!(tally.is_complete(), "{tally:?}");
    assert_eq!(gate.connections(), 1);
    millrace.stop();
    Ok(())
}
