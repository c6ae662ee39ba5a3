//! Bundles over the protocol: all of their changes are made, or none.

use crate::controller::{FlowMod, Rig, apply, message, output, oxm};
use openflow::{ConnectionId, Event};
use proptest::prelude::*;

const OPEN: u16 = 0;
const CLOSE: u16 = 2;
const COMMIT: u16 = 4;
const DISCARD: u16 = 6;

fn control(bundle: u32, kind: u16, flags: u16) -> Vec<u8> {
    let numbers = [0x4f4e_4600, 2300, bundle, u32::from(kind) << 16 | u32::from(flags)];
    message(4, 5, &numbers.map(u32::to_be_bytes).concat())
}

fn add(bundle: u32, flags: u16, change: &[u8]) -> Vec<u8> {
    let numbers = [0x4f4e_4600, 2301, bundle, u32::from(flags)].map(u32::to_be_bytes).concat();
    // Both have the same identifier.
    let xid = u32::from_be_bytes(change[4..8].try_into().unwrap());
    message(4, xid, &[&numbers, change].concat())
}

/// Builds a FLOW_MOD for packets of a VLAN, to a port.
fn flow(command: u8, vid: u16, port: u32) -> Vec<u8> {
    let mut change = FlowMod::new(command, 1, &[oxm(6, false, &(0x1000 | vid).to_be_bytes())]);
    (change.instructions, change.flags) = (apply(&[output(port)]), 1);
    change.bytes()
}

/// Builds a GROUP_MOD of a group with one bucket.
fn group(command: u8, id: u8, port: u32) -> Vec<u8> {
    let bucket = [&[0, 32, 0, 0][..], &[0xff; 8], &[0; 4], &output(port)].concat();
    message(15, 1, &[&[0, command, 2, 0, 0, 0, 0, id][..], if command == 2 { &[] } else { &bucket }].concat())
}

/// Returns everything that controllers can see of flows, groups and meters.
fn seen(rig: &mut Rig, id: ConnectionId) -> Vec<Vec<u8>> {
    let flows = [&[0xff, 0, 0, 0][..], &[0xff; 8], &[0; 4], &[0; 16], &crate::controller::matching(&[])].concat();
    let asked =
        [(1, flows), (6, [[0xff, 0xff, 0xff, 0xfc], [0; 4]].concat()), (7, vec![]), (10, [[0xff; 4], [0; 4]].concat())];
    let ask = |(kind, body): (u8, Vec<u8>)| {
        let answers = rig.ask(id, &message(18, 1, &[&[0, kind, 0, 0, 0, 0, 0, 0], &body[..]].concat()));
        answers.into_iter().flat_map(|answer| answer.body).collect()
    };
    asked.into_iter().map(ask).collect()
}

#[test]
fn a_bundle_takes_effect_when_it_is_committed() {
    let mut rig = Rig::new();
    let id = rig.connect();
    let answer = rig.ask(id, &control(7, OPEN, 3)).remove(0);
    assert_eq!((answer.kind, &answer.body[8..16]), (4, &[0, 0, 0, 7, 0, 1, 0, 3][..]));
    for change in [flow(0, 1, 1), group(0, 9, 2), flow(0, 2, 2)] {
        assert_eq!(rig.ask(id, &add(7, 3, &change)), []);
    }
    assert_eq!(rig.ask(id, &control(7, CLOSE, 3))[0].body[13], 3);
    let version = rig.switch.tables().version();
    assert!(rig.switch.tables().all()[0].is_empty());
    let removed_later = rig.ask(id, &control(7, COMMIT, 3));
    assert_eq!((removed_later.len(), removed_later[0].body[13]), (1, 5));
    assert_eq!(rig.switch.tables().all()[0].len(), 2);
    assert!(rig.switch.tables().version() > version && rig.switch.tables().rules().group(9).is_some());
    // Bundles need not be opened; ports can be in them; and what removes flows says so at the end.
    rig.ask(id, &add(8, 0, &flow(3, 1, 1)));
    let down = [&[0, 0, 0, 2, 0, 0, 0, 0][..], &[2; 6], &[0; 2], &[0, 0, 0, 1, 0, 0, 0, 1], &[0; 8]].concat();
    rig.ask(id, &add(8, 0, &message(16, 1, &down)));
    let told = rig.ask(id, &control(8, COMMIT, 0));
    assert_eq!(told.iter().map(|answer| answer.kind).collect::<Vec<_>>(), [11, 12, 4]);
    assert!(matches!(rig.switch.event(), Some(Event::PortConfig { number: 2, .. })));
}

#[test]
fn what_is_wrong_with_bundles_is_told() {
    let mut rig = Rig::new();
    let id = rig.connect();
    let change = flow(0, 1, 1);
    rig.ask(id, &control(1, OPEN, 3));
    let mut refused = |request: &[u8]| {
        let error = rig.ask(id, request).remove(0);
        assert_eq!(error.body[4..8], [0x4f, 0x4e, 0x46, 0]);
        error.error()
    };
    assert_eq!(refused(&control(9, CLOSE, 3)), (0xffff, 2302));
    assert_eq!(refused(&control(9, DISCARD, 3)), (0xffff, 2302));
    assert_eq!(refused(&control(1, 8, 3)), (0xffff, 2306));
    assert_eq!(refused(&control(1, CLOSE, 1)), (0xffff, 2307));
    assert_eq!(refused(&control(2, OPEN, 4)), (0xffff, 2307));
    assert_eq!(refused(&add(1, 1, &change)), (0xffff, 2307));
    let mut other = add(1, 3, &change);
    other[7] += 1;
    assert_eq!(refused(&other), (0xffff, 2309));
    assert_eq!(refused(&add(1, 3, &message(13, 1, &[0; 16]))), (0xffff, 2310));
    let mut other = add(1, 3, &change);
    other[24] = 1;
    assert_eq!(rig.ask(id, &other).remove(0).error(), (1, 0));
    let mut refused = |request: &[u8]| rig.ask(id, request).remove(0).error();
    let mut long = change.clone();
    long[2..4].copy_from_slice(&500u16.to_be_bytes());
    assert_eq!(refused(&add(1, 3, &long)), (0xffff, 2308));
    assert_eq!(refused(&control(1, OPEN, 3)), (0xffff, 2303));
    assert_eq!(refused(&control(1, COMMIT, 3)), (0xffff, 2302), "opening it twice has discarded it");
    (1..=16).for_each(|bundle| assert_eq!(rig.ask(id, &control(bundle, OPEN, 3)).len(), 1));
    let mut refused = |request: &[u8]| rig.ask(id, request).remove(0).error();
    assert_eq!(refused(&control(17, OPEN, 3)), (0xffff, 2305));
    assert_eq!(rig.ask(id, &control(1, CLOSE, 3)).len(), 1);
    let mut refused = |request: &[u8]| rig.ask(id, request).remove(0).error();
    assert_eq!(refused(&control(1, CLOSE, 3)), (0xffff, 2304));
    assert_eq!(refused(&add(1, 3, &change)), (0xffff, 2304));
    assert_eq!(refused(&message(4, 1, &[0x4f, 0x4e, 0x46, 0, 0, 0, 0, 1])), (1, 4));
}

#[test]
fn a_controller_has_room_for_so_many_messages() {
    let mut rig = Rig::new();
    let id = rig.connect();
    let large = message(15, 1, &[0; 60_000]);
    let mut added = 0;
    let error = loop {
        match rig.ask(id, &add(1, 0, &large)).pop() {
            None => added += large.len(),
            Some(answer) => break answer.error(),
        }
    };
    assert_eq!((error, added / (1 << 20)), ((0xffff, 2312), 31));
    assert_eq!(rig.ask(id, &control(1, DISCARD, 0))[0].body[13], 7);
    assert_eq!(rig.ask(id, &add(1, 0, &large)), [], "there is room again");
}

#[test]
fn a_bundle_is_no_endless_work() {
    let mut rig = Rig::new();
    rig.switch.tables_mut().forwarding_mut()[0].set_limit(4000);
    let id = rig.connect();
    for vid in 0..4000 {
        rig.ask(id, &flow(0, vid, 1));
    }
    // Each looks at all flows, and means none.
    let none = flow(3, 4001, 1);
    (0..2500).for_each(|_| assert_eq!(rig.ask(id, &add(1, 0, &none)), []));
    assert_eq!(rig.ask(id, &control(1, COMMIT, 0))[0].kind, 4);
    (0..2501).for_each(|_| assert_eq!(rig.ask(id, &add(1, 0, &none)), []));
    let answers = rig.ask(id, &control(1, COMMIT, 0));
    assert_eq!(answers.iter().map(|answer| answer.error()).collect::<Vec<_>>(), [(0xffff, 2312), (0xffff, 2313)]);
    assert_eq!(rig.switch.tables().all()[0].len(), 4000);
}

proptest! {
    /// After a bundle that fails, everything is as before; one that does not has the effect of its messages.
    #[test]
    fn all_or_nothing(
        first in prop::collection::vec((0u8..8, 1u16..6, 1u32..4), 0..12),
        bundled in prop::collection::vec((0u8..8, 1u16..6, 1u32..4), 1..12),
    ) {
        let change = |&(kind, which, port): &(u8, u16, u32)| match kind {
            0..=4 => flow(kind, which, port),
            _ => group(kind - 5, which as u8, port),
        };
        let (mut rig, mut plain) = (Rig::new(), Rig::new());
        let (id, other) = (rig.connect(), plain.connect());
        for change in first.iter().map(change) {
            rig.ask(id, &change);
            plain.ask(other, &change);
        }
        let before = seen(&mut rig, id);
        for change in bundled.iter().map(change) {
            prop_assert_eq!(rig.ask(id, &add(1, 3, &change)), []);
        }
        let answers = rig.ask(id, &control(1, COMMIT, 3));
        let fails = answers.last().unwrap().kind == 1;
        if fails {
            let kinds: Vec<_> = answers.iter().map(|answer| answer.kind).collect();
            prop_assert_eq!(kinds, [1, 1], "the message that failed, and the bundle");
            prop_assert_eq!(answers[1].error(), (0xffff, 2313));
            prop_assert_eq!(seen(&mut rig, id), before);
        }
        // Messages that come one by one show whether one of them fails, and what is there without it.
        let mut failed = false;
        for change in bundled.iter().map(change) {
            failed |= !fails && plain.ask(other, &change).iter().any(|answer| answer.kind == 1);
        }
        prop_assert!(!failed);
        prop_assert_eq!(seen(&mut rig, id), seen(&mut plain, other));
    }
}
