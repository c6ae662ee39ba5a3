//! Each message: its answers, their recipients, and its errors.

use crate::controller::{FlowMod, Rig, apply, instruction, matching, message, output, oxm, set_nfi};
use openflow::{Action, Closed, Event, PacketIn, PacketInReason, Port, PortConfig, ServiceChain};
use packet::MacAddr;

fn flow_mod(command: u8, priority: u16, fields: &[Vec<u8>], port: u32) -> FlowMod {
    let mut change = FlowMod::new(command, priority, fields);
    change.instructions = apply(&[output(port)]);
    change
}

#[test]
fn versions_are_negotiated() {
    let hello = |version: u8, elements: &[u8]| {
        let mut rig = Rig::new();
        let id = rig.switch.connect();
        let mut bytes = message(0, 5, elements);
        bytes[0] = version;
        let result = rig.send(id, &bytes);
        let answers = rig.take(id);
        // Our own HELLO has a bitmap with version 4 alone.
        assert_eq!((answers[0].kind, &answers[0].body[..]), (0, &[0, 1, 0, 8, 0, 0, 0, 16][..]));
        (result, answers.get(1).map(|answer| answer.error()))
    };
    let refused = (Err(Closed::Version), Some((0, 0)));
    assert_eq!(hello(4, &[]), (Ok(()), None));
    assert_eq!(hello(6, &[]), (Ok(()), None), "a later version without a bitmap can do ours");
    assert_eq!(hello(1, &[]), refused);
    assert_eq!(hello(6, &[0, 1, 0, 8, 0, 0, 0, 0x52]), (Ok(()), None));
    assert_eq!(hello(6, &[0, 1, 0, 8, 0, 0, 0, 0x42]), refused, "the bitmap decides");
    assert_eq!(hello(1, &[0, 1, 0, 8, 0, 0, 0, 0x12]), (Ok(()), None));
    assert_eq!(hello(5, &[0, 9, 0, 6, 1, 2, 0, 0, 0, 1, 0, 8, 0, 0, 0, 2]), refused, "unknown elements are skipped");

    let mut rig = Rig::new();
    let id = rig.switch.connect();
    assert_eq!(rig.send(id, &message(5, 1, &[])), Err(Closed::Version), "HELLO comes first");
}

#[test]
fn bytes_may_come_one_by_one() {
    let mut rig = Rig::new();
    let id = rig.connect();
    let two = [message(2, 7, b"are you there"), message(20, 8, &[])].concat();
    for byte in &two {
        rig.send(id, &[*byte]).unwrap();
    }
    let answers = rig.take(id);
    assert_eq!((answers[0].kind, answers[0].xid, &answers[0].body[..]), (3, 7, &b"are you there"[..]));
    assert_eq!((answers[1].kind, answers[1].xid), (21, 8));
    // After a length below that of a header, the channel can't continue.
    assert_eq!(rig.send(id, &[4, 2, 0, 7, 0, 0, 0, 0]), Err(Closed::Framing));
    assert_eq!(rig.take(id)[0].error(), (1, 6));
}

#[test]
fn an_error_has_the_first_64_bytes_of_its_request() {
    let mut rig = Rig::new();
    let id = rig.connect();
    let request = message(30, 77, &[0x5a; 100]);
    let answer = &rig.ask(id, &request)[0];
    assert_eq!((answer.error(), answer.xid), ((1, 1), 77));
    assert_eq!(answer.body[4..], request[..64]);
}

#[test]
fn requests_and_their_errors() {
    let mut rig = Rig::new();
    let id = rig.connect();
    let features = &rig.ask(id, &message(5, 1, &[]))[0];
    assert_eq!((features.kind, &features.body[..8], features.body[12]), (6, &[0, 0, 0, 0, 0, 0, 0, 7][..], 17));
    rig.done(id, &message(9, 1, &[0, 0, 0xff, 0xff]));
    assert_eq!(rig.ask(id, &message(7, 1, &[]))[0].body, [0, 0, 0xff, 0xff]);
    assert_eq!(rig.refused(id, &message(9, 1, &[0, 1, 0, 0])), (10, 0));
    assert_eq!(rig.refused(id, &message(5, 1, &[0])), (1, 6));
    assert_eq!(rig.refused(id, &[3, 5, 0, 8, 0, 0, 0, 1]), (1, 0));
    assert_eq!(rig.refused(id, &message(4, 1, &[0; 8])), (1, 3));
    assert_eq!(rig.refused(id, &message(10, 1, &[])), (1, 1));
    assert_eq!(rig.refused(id, &message(30, 1, &[0; 8])), (1, 1));
    rig.done(id, &message(17, 1, &[0, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(rig.refused(id, &message(17, 1, &[17, 0, 0, 0, 0, 0, 0, 0])), (8, 0));
    assert_eq!(rig.ask(id, &message(22, 1, &[0, 0, 0, 1, 0, 0, 0, 0]))[0].kind, 23);

    let multipart = |kind: u16, flags: u8, body: &[u8]| {
        message(18, 1, &[&kind.to_be_bytes()[..], &[0, flags, 0, 0, 0, 0], body].concat())
    };
    assert_eq!(rig.refused(id, &multipart(14, 0, &[])), (1, 2));
    assert_eq!(rig.refused(id, &multipart(0xffff, 0, &[0; 8])), (1, 3));
    assert_eq!(rig.refused(id, &multipart(12, 1, &[])), (1, 13));
    assert_eq!(rig.refused(id, &multipart(12, 0, &[0; 64])), (13, 5));
    assert_eq!(rig.refused(id, &multipart(0, 0, &[0])), (1, 6));
    let desc = &rig.ask(id, &multipart(0, 0, &[]))[0];
    assert_eq!((desc.kind, desc.body.len()), (19, 8 + 1056));
    assert_eq!(rig.ask(id, &multipart(5, 0, &[0xff; 8]))[0].body.len(), 8);
    let queues = |port: u8, queue: [u8; 4]| multipart(5, 0, &[&[0, 0, 0, port][..], &queue].concat());
    assert_eq!(rig.ask(id, &queues(1, [0xff; 4]))[0].body.len(), 8);
    assert_eq!((rig.refused(id, &queues(9, [0xff; 4])), rig.refused(id, &queues(1, [0; 4]))), ((9, 0), (9, 1)));
    assert_eq!(rig.refused(id, &message(22, 1, &[0, 0, 0, 9, 0, 0, 0, 0])), (9, 0));
}

#[test]
fn packets_go_out_and_bad_ones_do_not() {
    let mut rig = Rig::new();
    let id = rig.connect();
    let out = |buffer: u32, in_port: u32, actions: &[u8], data: &[u8]| {
        let head = [buffer.to_be_bytes(), in_port.to_be_bytes()].concat();
        message(13, 1, &[&head, &(actions.len() as u16).to_be_bytes()[..], &[0; 6], actions, data].concat())
    };
    assert_eq!(rig.refused(id, &out(5, 1, &output(1), &[0; 60])), (1, 8));
    assert_eq!(rig.refused(id, &out(u32::MAX, 0, &output(1), &[0; 60])), (1, 11));
    assert_eq!(rig.refused(id, &out(u32::MAX, 1, &output(1), &[0; 13])), (1, 12));
    assert_eq!(rig.refused(id, &out(u32::MAX, 1, &output(0), &[0; 60])), (2, 4));
    assert_eq!(rig.refused(id, &out(u32::MAX, 1, &[0, 0, 0, 24], &[0; 60])), (2, 1));
    assert_eq!(rig.refused(id, &out(u32::MAX, 1, &set_nfi(1), &[0; 60])), (2, 5));
    assert_eq!(rig.switch.event(), None);
    // Nothing is to be done, so nothing can be wrong.
    rig.done(id, &out(u32::MAX, 0, &[], &[]));
    assert_eq!(rig.switch.event(), Some(Event::PacketOut { in_port: 0, actions: vec![], data: vec![] }));
    rig.done(id, &out(u32::MAX, 0xffff_fffd, &output(0xffff_fff9), &[9; 60]));
    let actions = vec![Action::Output { port: 0xffff_fff9, max_len: 0 }];
    let event = Event::PacketOut { in_port: 0xffff_fffd, actions, data: vec![9; 60] };
    assert_eq!(rig.switch.event(), Some(event));
    // Messages after a barrier wait until the data path has handled the events before it.
    let packet = out(u32::MAX, 1, &output(1), &[9; 60]);
    let all = [packet, message(20, 5, &[]), message(2, 6, &[]), message(2, 7, &[])[..6].to_vec()].concat();
    rig.send(id, &all).unwrap();
    assert_eq!(*rig.switch.output(id).unwrap(), message(21, 5, &[]));
    assert!(rig.switch.is_left(id) && rig.switch.event().is_some());
    rig.switch.output(id).unwrap().clear();
    assert_eq!(rig.take(id).iter().map(|answer| answer.xid).collect::<Vec<_>>(), [6]);
    assert!(!rig.switch.is_left(id), "half a message is none");
}

#[test]
fn matches_and_actions_are_checked() {
    let mut rig = Rig::new();
    let id = rig.connect();
    let mut matched = |fields: &[Vec<u8>]| {
        let answers = rig.ask(id, &flow_mod(0, 1, fields, 1).bytes());
        rig.done(id, &FlowMod::new(3, 0, &[]).bytes());
        answers.first().map(|answer| answer.error())
    };
    let ip = oxm(5, false, &[8, 0]);
    assert_eq!(matched(std::slice::from_ref(&ip)), None);
    assert_eq!(matched(&[oxm(11, false, &[10, 0, 0, 1]), ip.clone()]), Some((4, 9)), "prerequisites come first");
    assert_eq!(matched(&[ip.clone(), oxm(13, false, &[0, 80])]), Some((4, 9)), "TCP ports ask for TCP");
    assert_eq!(matched(&[ip.clone(), ip.clone()]), Some((4, 10)));
    assert_eq!(matched(&[ip.clone(), oxm(11, true, &[10, 0, 0, 1, 255, 0, 0, 0])]), Some((4, 5)));
    assert_eq!(matched(&[oxm(0, true, &[0, 0, 0, 1, 0, 0, 0, 255])]), Some((4, 8)));
    assert_eq!(matched(&[oxm(6, false, &[0, 100])]), Some((4, 7)), "a VID without the bit for present");
    assert_eq!(matched(&[oxm(6, false, &[0x20, 0])]), Some((4, 7)));
    assert_eq!(matched(&[oxm(6, false, &[0, 0]), oxm(7, false, &[1])]), Some((4, 9)), "no priority without a tag");
    assert_eq!(matched(&[oxm(6, false, &[0x10, 9]), oxm(7, false, &[8])]), Some((4, 7)));
    assert_eq!(matched(&[oxm(6, true, &[0x10, 0, 0x10, 0]), oxm(7, false, &[7])]), None);
    assert_eq!(matched(&[oxm(2, true, &[0; 16])]), None);
    assert_eq!(matched(&[oxm(1, false, &[0; 4])]), Some((4, 6)), "the physical port is not known");
    assert_eq!(matched(&[oxm(3, false, &[0; 5])]), Some((4, 1)));

    let mut acted = |fields: &[Vec<u8>], instructions: &[Vec<u8>]| {
        let mut change = FlowMod::new(0, 1, fields);
        change.instructions = instructions.concat();
        let answers = rig.ask(id, &change.bytes());
        answers.first().map(|answer| answer.error())
    };
    let set = |field: Vec<u8>| {
        let len = (4 + field.len()).next_multiple_of(8);
        let mut action = [&[0, 25][..], &(len as u16).to_be_bytes(), &field].concat();
        action.resize(len, 0);
        action
    };
    let vid = set(oxm(6, false, &[0x10, 5]));
    let push = vec![0, 17, 0, 8, 0x81, 0, 0, 0];
    let pop = vec![0, 18, 0, 8, 0, 0, 0, 0];
    let untagged = oxm(6, false, &[0, 0]);
    assert_eq!(acted(&[], &[apply(std::slice::from_ref(&vid))]), None);
    assert_eq!(acted(std::slice::from_ref(&untagged), &[apply(std::slice::from_ref(&vid))]), Some((2, 10)));
    assert_eq!(acted(std::slice::from_ref(&untagged), &[apply(std::slice::from_ref(&pop))]), Some((2, 10)));
    assert_eq!(acted(std::slice::from_ref(&untagged), &[apply(&[push, vid.clone(), pop])]), None);
    assert_eq!(acted(&[], &[apply(&[vec![0, 17, 0, 8, 0x88, 0x47, 0, 0]])]), Some((2, 5)));
    assert_eq!(acted(&[], &[apply(&[set(oxm(11, false, &[1, 2, 3, 4]))])]), Some((2, 10)));
    assert_eq!(acted(&[ip], &[apply(&[set(oxm(11, false, &[1, 2, 3, 4]))])]), None);
    assert_eq!(acted(&[], &[apply(&[set(oxm(5, false, &[8, 0]))])]), Some((2, 13)));
    assert_eq!(acted(&[], &[apply(&[set(oxm(6, false, &[0, 5]))])]), Some((2, 15)));
    assert_eq!(acted(&[], &[apply(&[set(oxm(3, false, &[0; 5]))])]), Some((2, 14)));
    assert_eq!(acted(&[], &[apply(&[vec![0, 22, 0, 8, 0, 0, 0, 1]])]), Some((2, 9)));
    assert_eq!(acted(&[], &[apply(&[set_nfi(1)])]), Some((2, 5)), "next hops are set in table 1");
    assert_eq!(acted(&[], &[apply(&vec![output(1); 65])]), Some((2, 7)));
    assert_eq!(acted(&[], &[apply(&[]), apply(&[])]), Some((3, 1)));
    assert_eq!(acted(&[], &[instruction(1, &[0, 0, 0, 0])]), Some((3, 2)));
    assert_eq!(acted(&[], &[instruction(1, &[16, 0, 0, 0])]), Some((3, 2)));
    assert_eq!(acted(&[], &[instruction(1, &[15, 0, 0, 0])]), None);
    assert_eq!(acted(&[], &[instruction(6, &[0, 0, 0, 1])]), Some((12, 3)));
    assert_eq!(acted(&[], &[instruction(9, &[0; 4])]), Some((3, 0)));
    assert_eq!(acted(&[], &[instruction(0xffff, &[0; 12])]), Some((3, 5)));
    assert_eq!(acted(&[], &[instruction(4, &[0; 3])]), Some((3, 7)));
}

#[test]
fn the_action_set_is_done_in_its_order() {
    let mut rig = Rig::new();
    let id = rig.connect();
    let mut change = FlowMod::new(0, 1, &[]);
    let write = |actions: &[Vec<u8>]| instruction(3, &[&[0; 4][..], &actions.concat()].concat());
    let push = vec![0, 17, 0, 8, 0x81, 0, 0, 0];
    change.instructions = [write(&[output(1), push.clone(), output(2)]), apply(&[output(1)])].concat();
    rig.done(id, &change.bytes());
    let flow = rig.switch.tables().all()[0].flows().next().unwrap();
    let out = |port| Action::Output { port, max_len: 0 };
    assert_eq!(flow.instructions.applied[..], [out(1)]);
    assert_eq!(flow.instructions.written[..], [Action::PushVlan(0x8100), out(2)]);
}

#[test]
fn roles() {
    let mut rig = Rig::new();
    let (first, second) = (rig.connect(), rig.connect());
    let role = |role: u8, generation: u8| message(24, 3, &[0, 0, 0, role, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, generation]);
    let add = flow_mod(0, 1, &[], 1).bytes();
    assert_eq!(rig.ask(first, &role(2, 5))[0].body[3], 2);
    assert_eq!(rig.ask(second, &role(2, 6))[0].body[3], 2);
    assert_eq!(rig.ask(first, &role(0, 0))[0].body[3], 3, "there is one master");
    assert_eq!(rig.refused(first, &add), (1, 10));
    rig.done(second, &add);
    assert_eq!(rig.refused(first, &role(2, 5)), (11, 0));
    assert_eq!(rig.refused(first, &role(9, 7)), (11, 2));
    assert_eq!(rig.ask(first, &role(1, 0))[0].body[3], 1);
    rig.done(first, &add);
}

#[test]
fn notices_go_to_those_who_want_them() {
    let mut rig = Rig::new();
    let (equal, slave) = (rig.connect(), rig.connect());
    rig.ask(slave, &message(24, 3, &[0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]));
    let packet = PacketIn {
        table: 3,
        metadata: 5,
        reason: PacketInReason::NoMatch,
        cookie: 9,
        in_port: 1,
        tunnel_id: 0,
        data: &[7; 60],
        total_len: 60,
    };
    assert!(rig.switch.packet_in(&packet));
    let seen = rig.take(equal);
    assert_eq!((seen[0].kind, seen[0].xid), (10, 0));
    assert!(seen[0].body.ends_with(&[7; 60]));
    assert_eq!(rig.take(slave), []);
    let down = Port { number: 1, mac: MacAddr([2; 6]), name: "p1".into(), up: false, speed: 0, configurable: true };
    rig.switch.set_port(down.clone(), 0);
    assert_eq!((rig.take(equal)[0].body[0], rig.take(slave)[0].body[0]), (2, 2));
    rig.switch.set_port(down.clone(), 0);
    assert_eq!(rig.take(equal), [], "nothing has changed");

    // The masks that are set are reported, and take effect.
    let masks = [0u32, 1, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
    rig.done(equal, &message(28, 1, &masks));
    rig.done(slave, &message(28, 1, &masks));
    assert_eq!(rig.ask(slave, &message(26, 1, &[]))[0].body, masks);
    assert!(rig.switch.packet_in(&packet));
    assert_eq!((rig.take(equal).len(), rig.take(slave).len()), (0, 1));
    rig.switch.disconnect(slave);
    assert!(!rig.switch.packet_in(&packet), "nobody gets it");
}

/// Packets whose time to live is over go to controllers that ask for them, and the data path knows for which reasons any does.
#[test]
fn the_data_path_knows_which_packets_are_wanted() {
    let mut rig = Rig::new();
    let reasons = |rig: &Rig| rig.switch.wanted_packets().0;
    assert_eq!(reasons(&rig), 0);
    let greeting = rig.switch.connect();
    assert_eq!(reasons(&rig), 0, "it has not agreed on a version");
    rig.switch.disconnect(greeting);
    let (first, second) = (rig.connect(), rig.connect());
    assert_eq!(reasons(&rig), 0b011);
    let masks = |equal: u32, slave: u32| [equal, slave, 0, 0, 0, 0].map(u32::to_be_bytes).concat();
    let dead = PacketIn {
        table: 0,
        metadata: 0,
        reason: PacketInReason::InvalidTtl,
        cookie: 9,
        in_port: 1,
        tunnel_id: 0,
        data: &[7; 60],
        total_len: 60,
    };
    assert!(!rig.switch.packet_in(&dead));
    rig.done(first, &message(28, 1, &masks(0b100, 0)));
    rig.done(second, &message(28, 1, &masks(0b001, 0b010)));
    assert_eq!(reasons(&rig), 0b101);
    assert!(rig.switch.wanted_packets().has(PacketInReason::InvalidTtl));
    assert!(!rig.switch.wanted_packets().has(PacketInReason::Action));
    assert!(rig.switch.packet_in(&dead));
    assert_eq!((rig.take(first)[0].body[6], rig.take(second).len()), (2, 0), "the one that asks for it gets it");
    rig.ask(second, &message(24, 3, &[0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]));
    assert_eq!(reasons(&rig), 0b110, "a slave has wishes of its own");
    rig.switch.disconnect(first);
    assert_eq!(reasons(&rig), 0b010);
}

#[test]
fn a_controller_that_does_not_read_loses_notices_only() {
    let mut rig = Rig::new();
    let id = rig.connect();
    let data = vec![0; 60_000];
    for _ in 0..30 {
        let (reason, cookie) = (PacketInReason::Action, 0);
        rig.switch.packet_in(&PacketIn {
            table: 3,
            metadata: 5,
            reason,
            cookie,
            in_port: 1,
            tunnel_id: 0,
            data: &data,
            total_len: data.len(),
        });
    }
    assert!(rig.switch.lost_notices(id) > 0);
    assert!(rig.switch.output(id).unwrap().len() < openflow::BACKLOG + 70_000);
    assert_eq!(rig.ask(id, &message(20, 5, &[])).last().unwrap().kind, 21);
}

#[test]
fn a_port_that_floods_does_not_keep_the_packets_of_others_from_controllers() {
    let mut rig = Rig::new();
    let id = rig.connect();
    let data = [0; 1500];
    let shown = |rig: &mut Rig, in_port| {
        let before = rig.switch.lost_notices(id);
        let (reason, cookie, tunnel_id) = (PacketInReason::NoMatch, 0, 0);
        rig.switch.packet_in(&PacketIn {
            reason,
            table: 0,
            metadata: 0,
            cookie,
            in_port,
            tunnel_id,
            data: &data,
            total_len: data.len(),
        });
        rig.switch.lost_notices(id) == before
    };
    for _ in 0..3 {
        assert!((0..2000).filter(|_| shown(&mut rig, 1)).count() < 300, "port 1 gets its share");
        assert!((0..100).all(|_| shown(&mut rig, 2)), "and port 2 has its own");
        assert!(rig.take(id).len() > 300);
    }
}

#[test]
fn next_hops_are_set_by_action_and_by_relay() {
    let mut rig = Rig::new();
    let id = rig.connect();
    let vid = |vid: u16| oxm(6, false, &(0x1000 | vid).to_be_bytes());
    let chain = |command: u8, fields: &[Vec<u8>], nfi: u16| {
        let mut change = FlowMod::new(command, 1, fields);
        change.table = 16;
        change.instructions = apply(&[set_nfi(nfi)]);
        change
    };
    rig.done(id, &chain(0, &[vid(100)], 7).bytes());
    rig.done(id, &chain(0, &[oxm(38, false, &[0, 0, 0, 0, 0, 0, 1, 0])], 8).bytes());
    let version = rig.switch.tables().aggregation().version();
    assert_eq!(rig.refused(id, &chain(0, &[vid(100), oxm(0, false, &[0, 0, 0, 1])], 7).bytes()), (4, 5));
    assert_eq!(rig.refused(id, &chain(0, &[oxm(38, false, &[1; 8])], 7).bytes()), (4, 7));
    assert_eq!(rig.refused(id, &chain(0, &[oxm(6, false, &[0, 0])], 7).bytes()), (4, 7));
    assert_eq!(rig.switch.tables().aggregation().version(), version);
    let hops = |rig: &Rig| rig.switch.next_hops().into_iter().collect::<Vec<_>>();
    assert_eq!(hops(&rig), [(ServiceChain::Vid(100), 7), (ServiceChain::Vni(256), 8)]);

    let relay = |change: &[u8]| [&[2; 6][..], &[4; 6], &[0x88, 0xb6], change, &[0; 9]].concat();
    let frame = relay(&chain(0, &[vid(200)], 9).bytes());
    let wrapped = openflow::aggregation::relayed(&frame).unwrap();
    rig.switch.apply_relayed(wrapped, 0).unwrap();
    assert_eq!(rig.switch.next_hops()[&ServiceChain::Vid(200)], 9);
    let frame = relay(&flow_mod(0, 1, &[], 1).bytes());
    let wrapped = openflow::aggregation::relayed(&frame).unwrap();
    let refused = rig.switch.apply_relayed(wrapped, 0).unwrap_err();
    assert_eq!(refused, openflow::Error::FlowNotAllowed, "forwarding can't be changed this way");
    for cut in 0..frame.len() - 9 {
        assert_eq!(openflow::aggregation::relayed(&frame[..cut]), None);
    }
    // Deleting from all tables includes this one.
    let mut all = FlowMod::new(3, 0, &[]);
    all.table = 0xff;
    rig.done(id, &all.bytes());
    assert!(hops(&rig).is_empty());
}

#[test]
fn the_match_comes_back_as_it_was() {
    let mut rig = Rig::new();
    let id = rig.connect();
    let fields = [
        oxm(0, false, &[0, 0, 0, 1]),
        oxm(3, true, &[1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]),
        oxm(4, false, &[2; 6]),
        oxm(5, false, &[0x86, 0xdd]),
        oxm(6, true, &[0x10, 0, 0x10, 0]),
        oxm(7, false, &[5]),
        oxm(10, false, &[17]),
        oxm(15, false, &[0, 53]),
        oxm(26, true, &[&[0x20; 16][..], &[0xf0; 16]].concat()),
        oxm(27, false, &[9; 16]),
        oxm(38, true, &[0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0]),
    ];
    rig.done(id, &flow_mod(0, 1, &fields, 1).bytes());
    let filter = [&[0xff, 0, 0, 0][..], &[0xff; 8], &[0; 20], &matching(&[])].concat();
    let answer = &rig.ask(id, &message(18, 1, &[&[0, 1, 0, 0, 0, 0, 0, 0][..], &filter].concat()))[0];
    let expected = [matching(&fields), apply(&[output(1)])].concat();
    assert_eq!(answer.body[8 + 48..], expected);
}

#[test]
fn ports_are_configured_by_controllers() {
    let mut rig = Rig::new();
    let id = rig.connect();
    let change = |port: u8, mac: u8, config: u8, mask: u8, advertised: u8| {
        let words = [0, 0, 0, config, 0, 0, 0, mask, 0, 0, 0, advertised, 0, 0, 0, 0];
        message(16, 1, &[&[0, 0, 0, port, 0, 0, 0, 0][..], &[mac; 6], &[0; 2], &words].concat())
    };
    let configured = |rig: &mut Rig| {
        let events = std::iter::from_fn(|| rig.switch.event());
        let config =
            |event| if let Event::PortConfig { number, config } = event { Some((number, config)) } else { None };
        events.filter_map(config).collect::<Vec<_>>()
    };
    let told = rig.ask(id, &change(2, 2, 1, 1, 0));
    assert_eq!((told[0].kind, told[0].body[0], told[0].body[8 + 35]), (12, 2, 1), "all controllers are told");
    assert_eq!(configured(&mut rig), [(2, PortConfig(1))]);
    assert!(!PortConfig(1).sends() && !PortConfig(1).receives() && PortConfig(1).shows_misses());
    assert!(!PortConfig(4).receives() && PortConfig(4).sends());
    assert!(!PortConfig(32).sends() && PortConfig(32).receives() && !PortConfig(64).shows_misses());
    // Bits outside the mask stay.
    rig.ask(id, &change(2, 2, 64, 64, 0));
    assert_eq!(configured(&mut rig), [(2, PortConfig(65))]);
    assert_eq!(rig.ask(id, &change(2, 2, 65, 65, 0)), [], "nothing has changed");
    let described = rig.ask(id, &message(18, 1, &[0, 13, 0, 0, 0, 0, 0, 0])).remove(0).body;
    let second = &described[8 + 64..];
    assert_eq!((second[35], second[39]), (65, 0), "and it is not live");
    rig.ask(id, &change(2, 2, 0, 65, 0));
    // A spanning tree's port that is blocked, listens or learns is live (Section 6.5); its state is that of its link.
    for config in [4 | 32, 32 | 64, 64] {
        let told = rig.ask(id, &change(2, 2, config, 4 | 32 | 64, 0));
        assert_eq!((told[0].body[8 + 35], told[0].body[8 + 39]), (config, 4));
    }
    configured(&mut rig);
    let mut refused = |message: Vec<u8>| rig.refused(id, &message);
    assert_eq!(refused(change(9, 2, 1, 1, 0)), (7, 0));
    assert_eq!(refused(change(2, 3, 1, 1, 0)), (7, 1));
    assert_eq!(refused(change(2, 2, 16, 16, 0)), (7, 2));
    assert_eq!(refused(change(2, 2, 1, 1, 1)), (7, 3));
    rig.switch.remove_port(2);
    assert_eq!(configured(&mut rig), [(2, PortConfig(0))], "a port that comes back is as at first");
    let port = Port { number: 2, mac: MacAddr([2; 6]), name: "p2".into(), up: true, speed: 0, configurable: false };
    rig.switch.set_port(port, 0);
    rig.take(id);
    assert_eq!(rig.refused(id, &change(2, 2, 1, 1, 0)), (7, 4), "no flows forward there");
}
