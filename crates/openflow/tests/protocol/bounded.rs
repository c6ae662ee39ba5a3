//! Memory stays bounded for a controller that sends requests and does not read.

use crate::controller::{FlowMod, Rig, apply, matching, message, output, oxm};

const FLOWS: u16 = 4000;

/// Returns a switch with many flows.
fn rig() -> (Rig, openflow::ConnectionId) {
    let mut rig = Rig::new();
    rig.switch.tables_mut().forwarding_mut()[0].set_limit(FLOWS.into());
    let id = rig.connect();
    for vid in 0..FLOWS {
        let mut change = FlowMod::new(0, 1 + vid % 5, &[oxm(6, false, &(0x1000 | vid).to_be_bytes())]);
        change.instructions = apply(&[output(1)]);
        change.cookie = vid.into();
        rig.done(id, &change.bytes());
    }
    (rig, id)
}

/// A look-up takes a step for each mask, and a deletion may take as long as there are masks.
#[test]
fn flows_have_so_many_masks_in_all_tables_and_no_more() {
    let mut rig = Rig::new();
    rig.switch.tables_mut().forwarding_mut().iter_mut().for_each(|table| table.set_limit(2000));
    let id = rig.connect();
    let flow = |mask: u64, priority| {
        let table = (mask % 16) as u8;
        let masked = [&[0; 6][..], &mask.to_be_bytes()[2..]].concat();
        FlowMod { table, ..FlowMod::new(0, priority, &[oxm(4, true, &masked)]) }.bytes()
    };
    for mask in 1..=1024 {
        rig.done(id, &flow(mask, 1));
    }
    assert_eq!(rig.refused(id, &flow(1025, 1)), (5, 1));
    rig.done(id, &flow(1024, 2));
    rig.done(id, &FlowMod { table: 255, ..FlowMod::new(3, 0, &[]) }.bytes());
    rig.done(id, &flow(1025, 1));
}

/// Builds a request for all flows of all tables.
fn all_flows(xid: u32) -> Vec<u8> {
    let fixed = [&[0xff, 0, 0, 0][..], &[0xff; 8], &[0; 4], &[0; 16]].concat();
    message(18, xid, &[&[0, 1, 0, 0, 0, 0, 0, 0], &fixed[..], &matching(&[])].concat())
}

/// Returns the cookies of the flows in an answer, and whether more follow.
fn cookies(body: &[u8]) -> (Vec<u64>, bool) {
    let mut cookies = Vec::new();
    let mut rest = &body[8..];
    while !rest.is_empty() {
        cookies.push(u64::from_be_bytes(rest[24..32].try_into().unwrap()));
        rest = &rest[usize::from(u16::from_be_bytes([rest[0], rest[1]]))..];
    }
    (cookies, body[3] & 1 != 0)
}

#[test]
fn long_answers_are_made_as_fast_as_they_are_read() {
    let (mut rig, id) = rig();
    let requests: Vec<u8> = (0..).map(all_flows).take_while(|request| request[7] < 200).flatten().collect();
    assert!(requests.len() >= 8 << 10);
    rig.send(id, &requests).unwrap();
    // A controller that does not read gets nothing more.
    let mut answers = 0;
    let mut xids = Vec::new();
    let mut longest = 0;
    while answers < 200 {
        rig.send(id, &[]).unwrap();
        assert!(rig.switch.is_busy(id) && rig.switch.has_output(id));
        let bytes = std::mem::take(rig.switch.output(id).unwrap());
        longest = longest.max(bytes.len());
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let len = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
            xids.push(rest[7]);
            answers += usize::from(!cookies(&rest[8..len]).1);
            rest = &rest[len..];
        }
    }
    assert!(longest < 128 << 10, "{longest} bytes at once");
    assert!(xids.is_sorted(), "answers come in the order of their requests");
    assert!(!rig.switch.is_busy(id) && !rig.switch.has_output(id));
    assert_eq!(rig.ask(id, &message(20, 5, &[])).last().unwrap().kind, 21, "the channel works on");
}

#[test]
fn all_flows_are_in_an_answer_once() {
    let (mut rig, id) = rig();
    let answers = rig.ask(id, &all_flows(1));
    assert!(answers.len() > 3);
    let pieces: Vec<_> = answers.iter().map(|answer| cookies(&answer.body)).collect();
    let more: Vec<bool> = pieces.iter().map(|piece| piece.1).collect();
    assert!(more[..more.len() - 1].iter().all(|more| *more) && !more[more.len() - 1]);
    let all: Vec<u64> = pieces.into_iter().flat_map(|piece| piece.0).collect();
    assert_eq!(all, (0..FLOWS.into()).collect::<Vec<_>>());
}

#[test]
fn flows_may_come_and_go_while_they_are_told() {
    let (mut rig, id) = rig();
    let other = rig.connect();
    rig.send(id, &all_flows(1)).unwrap();
    rig.switch.output(id).unwrap().clear();
    // A flow that replaces another is new; and all are removed before the answer is complete.
    let mut change = FlowMod::new(0, 1, &[oxm(6, false, &0x1000u16.to_be_bytes())]);
    change.instructions = apply(&[output(2)]);
    rig.done(other, &change.bytes());
    rig.done(other, &FlowMod::new(3, 0, &[]).bytes());
    let answers = rig.take(id);
    assert_eq!(answers.len(), 1);
    let (told, more) = cookies(&answers[0].body);
    assert!(told.len() <= 1 && !more, "the one that was read already, or none: {told:?}");
}

#[test]
fn short_answers_wait_for_their_reader_too() {
    let (mut rig, id) = rig();
    // An error is ten times as long as the offending message.
    let junk = message(99, 1, &[]).repeat(8 << 10);
    rig.send(id, &junk).unwrap();
    assert!(rig.switch.output(id).unwrap().len() < 128 << 10);
    assert_eq!(rig.take(id).len(), 8 << 10);
}
