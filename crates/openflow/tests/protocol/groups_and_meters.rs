//! Groups and meters over the protocol.

use crate::controller::{FlowMod, Rig, apply, instruction, message, output};
use openflow::Excess;

/// Builds a GROUP_MOD; each bucket has a weight, a port to watch and an action.
fn group_mod(command: u8, kind: u8, id: u32, buckets: &[(u16, u32, Vec<u8>)]) -> Vec<u8> {
    let bucket = |(weight, watched, actions): &(u16, u32, Vec<u8>)| {
        let len = (16 + actions.len()) as u16;
        [&len.to_be_bytes()[..], &weight.to_be_bytes(), &watched.to_be_bytes(), &[0xff; 4], &[0; 4], actions].concat()
    };
    let buckets: Vec<u8> = buckets.iter().flat_map(bucket).collect();
    message(15, 99, &[&[0, command, kind, 0][..], &id.to_be_bytes(), &buckets].concat())
}

#[test]
fn groups_are_set_used_and_end_with_their_flows() {
    let mut rig = Rig::new();
    let id = rig.connect();
    let any = u32::MAX;
    let to = |port: u32| (0, any, output(port));
    let send_to = |group: u32| {
        let mut change = FlowMod::new(0, 1, &[]);
        change.flags = 1;
        change.instructions = apply(&[[&[0, 22, 0, 8][..], &group.to_be_bytes()].concat()]);
        change
    };
    assert_eq!(rig.refused(id, &send_to(7).bytes()), (2, 9), "the group is not there yet");
    rig.done(id, &group_mod(0, 0, 7, &[to(1), to(2)]));
    rig.done(id, &send_to(7).bytes());
    let version = rig.switch.tables().version();
    rig.done(id, &group_mod(1, 2, 7, &[to(2)]));
    assert_ne!(rig.switch.tables().version(), version, "the data path is to have it");
    assert_eq!(rig.switch.tables().rules().group(7).unwrap().buckets.len(), 1);
    let mut refused = |message: Vec<u8>| rig.refused(id, &message);
    assert_eq!(refused(group_mod(0, 0, 7, &[])), (6, 0), "it exists");
    assert_eq!(refused(group_mod(1, 0, 8, &[])), (6, 8), "it does not");
    assert_eq!(refused(group_mod(0, 0, 0xffff_ff01, &[])), (6, 1));
    assert_eq!(refused(group_mod(0, 2, 8, &[to(1), to(2)])), (6, 1), "an indirect group has one bucket");
    assert_eq!(refused(group_mod(0, 3, 8, &[to(1)])), (6, 1), "a bucket to fail over from watches a port");
    for kind in [0, 2, 3] {
        assert_eq!(refused(group_mod(0, kind, 8, &[(1, any, output(1))])), (6, 1), "only select groups have weights");
    }
    for kind in [0, 2] {
        assert_eq!(refused(group_mod(0, kind, 8, &[(0, 1, output(1))])), (6, 6), "there is nothing to choose");
    }
    let mut watches_group = group_mod(0, 3, 8, &[(0, 1, output(1))]);
    watches_group[24..28].copy_from_slice(&[0, 0, 0, 7]);
    assert_eq!(refused(watches_group), (6, 6));
    assert_eq!(refused(group_mod(0, 3, 8, &[(0, 9, output(1))])), (6, 13), "and one that exists");
    assert_eq!(refused(group_mod(0, 0, 8, &[to(9)])), (2, 4));
    assert_eq!(refused(group_mod(0, 0, 8, &[(0, any, vec![0, 22, 0, 8, 0, 0, 0, 7])])), (6, 5));
    assert_eq!(
        refused(group_mod(0, 0, 8, &vec![(0, any, output(1).repeat(60)); 20])),
        (6, 4),
        "more than is described in a message"
    );
    assert_eq!(refused(group_mod(0, 9, 8, &[])), (6, 10));
    assert_eq!(refused(group_mod(9, 0, 8, &[])), (6, 11));
    assert_eq!(refused(message(15, 1, &[0, 0, 0, 0, 0, 0, 0, 8, 0, 8, 0, 0, 0, 0, 0, 0])), (6, 12));

    // The specification leaves this open: weights may be left out, and buckets of a select group may watch ports.
    rig.done(id, &group_mod(0, 1, 9, &[to(1), to(2)]));
    rig.done(id, &group_mod(1, 1, 9, &[(1, 1, output(1)), (2, any, output(2))]));
    rig.done(id, &group_mod(1, 3, 9, &[(0, 1, output(1)), (0, 2, output(2))]));
    rig.done(id, &group_mod(2, 0, 9, &[]));

    let multipart = |kind: u8, body: &[u8]| message(18, 1, &[&[0, kind, 0, 0, 0, 0, 0, 0][..], body].concat());
    let described = rig.ask(id, &multipart(7, &[])).remove(0).body;
    assert_eq!((&described[8..12], &described[12..16]), (&[0, 40, 2, 0][..], &[0, 0, 0, 7][..]));
    let stats = rig.ask(id, &multipart(6, &[0xff, 0xff, 0xff, 0xfc, 0, 0, 0, 0])).remove(0).body;
    assert_eq!((stats.len(), &stats[8..10], &stats[12..20]), (8 + 56, &[0, 56][..], &[0, 0, 0, 7, 0, 0, 0, 1][..]));
    assert_eq!(rig.ask(id, &multipart(8, &[]))[0].body.len(), 8 + 40);

    // Descriptions of many groups take several messages.
    let many = vec![(0, any, output(1).repeat(60)); 16];
    (100..110).for_each(|group| rig.done(id, &group_mod(0, 0, group, &many)));
    let answers = rig.ask(id, &multipart(7, &[]));
    let described: usize = answers.iter().map(|answer| answer.body.len() - 8).sum();
    assert_eq!((answers.len(), described), (4, 40 + 10 * (8 + 16 * 976)));

    // The flow ends with the group, and its controller is told why.
    let told = rig.ask(id, &group_mod(2, 0, 0xffff_fffc, &[]));
    assert_eq!((told[0].kind, told[0].body[10]), (11, 3));
    assert!(rig.switch.tables().all()[0].is_empty() && rig.switch.tables().rules().group(7).is_none());
}

/// Builds a METER_MOD of bands: type, rate, burst, level.
fn meter_mod(command: u8, flags: u8, id: u32, bands: &[(u8, u32, u32, u8)]) -> Vec<u8> {
    let band = |(kind, rate, burst, level): &(u8, u32, u32, u8)| {
        [&[0, *kind, 0, 16][..], &rate.to_be_bytes(), &burst.to_be_bytes(), &[*level, 0, 0, 0]].concat()
    };
    let bands: Vec<u8> = bands.iter().flat_map(band).collect();
    message(29, 1, &[&[0, command, 0, flags][..], &id.to_be_bytes(), &bands].concat())
}

#[test]
fn meters_are_set_used_and_end_with_their_flows() {
    let mut rig = Rig::new();
    let id = rig.connect();
    let through = |meter: u32, table: u8| {
        let mut change = FlowMod::new(0, 1, &[]);
        (change.flags, change.table) = (1, table);
        change.instructions = [instruction(6, &meter.to_be_bytes()), apply(&[output(2)])].concat();
        change.bytes()
    };
    let (drop, remark) = ((1, 10, 10, 0), (2, 5, 20, 1));
    assert_eq!(rig.refused(id, &through(7, 0)), (12, 3), "the meter is not there yet");
    rig.done(id, &meter_mod(0, 2 | 4, 7, &[drop, remark]));
    rig.done(id, &through(7, 0));
    assert_eq!(rig.refused(id, &through(7, 16)), (3, 1), "the aggregation table has no meters");
    let shown = rig.switch.tables().all()[0].flows().next().unwrap().instructions.to_string();
    assert_eq!(shown, "meter:7,output:2");

    // A burst of ten packets by the one band, of twenty by the other.
    let meter = rig.switch.tables().rules().meter(7).unwrap();
    let excess: Vec<_> = (0..21).map(|_| meter.measure(0, 60).map(|band| band.excess)).collect();
    assert!(excess[..10].iter().all(Option::is_none), "{excess:?}");
    assert!(excess[10..].iter().all(|excess| *excess == Some(Excess::Drop)), "{excess:?}");
    assert!(meter.measure(1_000_000_000, 60).is_none(), "a second later");

    let version = rig.switch.tables().version();
    rig.done(id, &meter_mod(1, 1, 7, &[(1, 10, 0, 0)]));
    assert_ne!(rig.switch.tables().version(), version, "the data path is to have it");
    let meter = rig.switch.tables().rules().meter(7).unwrap();
    let passed = (0..10).filter(|_| meter.measure(0, 25).is_none()).count();
    assert_eq!(passed, 5, "a tenth of ten kilobits is five times 200 bits");

    let mut refused = |message: Vec<u8>| rig.refused(id, &message);
    assert_eq!(refused(meter_mod(0, 1, 7, &[])), (12, 1), "it exists");
    assert_eq!(refused(meter_mod(1, 1, 8, &[])), (12, 3), "it does not");
    assert_eq!(refused(meter_mod(0, 1, 0, &[drop])), (12, 2));
    assert_eq!(refused(meter_mod(0, 1, 0xffff_fffe, &[drop])), (12, 2), "that of packets for controllers");
    assert_eq!(refused(meter_mod(9, 1, 8, &[])), (12, 4));
    assert_eq!(refused(meter_mod(0, 3, 8, &[drop])), (12, 5), "both units");
    assert_eq!(refused(meter_mod(0, 16, 8, &[drop])), (12, 5));
    assert_eq!(refused(meter_mod(0, 1, 8, &[(1, 0, 0, 0)])), (12, 6));
    assert_eq!(refused(meter_mod(0, 1, 8, &[(3, 1, 0, 0)])), (12, 8));
    assert_eq!(refused(meter_mod(0, 1, 8, &[drop; 9])), (12, 11));
    let half = meter_mod(0, 1, 8, &[drop]);
    assert_eq!(refused(message(29, 1, &half[8..half.len() - 8])), (1, 6));

    let multipart = |kind: u8, id: &[u8]| message(18, 1, &[&[0, kind, 0, 0, 0, 0, 0, 0][..], id].concat());
    let all = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    let stats = rig.ask(id, &multipart(9, &all)).remove(0).body;
    assert_eq!((stats.len(), &stats[8..14], stats[23]), (8 + 56, &[0, 0, 0, 7, 0, 56][..], 1));
    let described = rig.ask(id, &multipart(10, &[0, 0, 0, 7, 0, 0, 0, 0])).remove(0).body;
    assert_eq!(described[8..], [&[0, 24, 0, 1, 0, 0, 0, 7][..], &[0, 1, 0, 16, 0, 0, 0, 10], &[0; 8]].concat());
    assert_eq!(rig.ask(id, &multipart(11, &[]))[0].body.len(), 8 + 16);
    assert_eq!(rig.refused(id, &multipart(9, &[0, 0, 0, 8, 0, 0, 0, 0])), (12, 3));

    // The flow ends with the meter.
    let told = rig.ask(id, &meter_mod(2, 0, 0xffff_ffff, &[]));
    assert_eq!((told[0].kind, told[0].body[10]), (11, 2));
    assert!(rig.switch.tables().all()[0].is_empty() && rig.switch.tables().rules().meter(7).is_none());
    rig.done(id, &meter_mod(2, 0, 7, &[]));
}
