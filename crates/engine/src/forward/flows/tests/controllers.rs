//! Controllers: their port configuration, and packets to and from them.

use super::*;

#[test]
fn controllers_restrict_ports() {
    let mut rig = Rig::new(true);
    let lens = |out: Vec<Vec<Vec<u8>>>| out.iter().map(Vec::len).collect::<Vec<_>>();
    rig.datapath.configure(2, PortConfig(port_config::DOWN));
    rig.datapath.configure(3, PortConfig(port_config::NO_FWD));
    rig.datapath.configure(4, PortConfig(port_config::NO_RECV));
    // By addresses, and by flows.
    for _ in 0..2 {
        assert_eq!(lens(rig.send(0, &[udp(1, 60)], 60)), [0, 0, 0, 1]);
        assert_eq!(lens(rig.send(1, &[udp(1, 60)], 60)), [0; 4]);
        assert_eq!(lens(rig.send(2, &[udp(1, 60)], 60)), [1, 0, 0, 1]);
        assert_eq!(lens(rig.send(3, &[udp(1, 60)], 60)), [0; 4]);
        assert_eq!(rig.dropped(), [("no-receive".into(), 2)]);
        let sent = rig.outputs.iter().map(|output| output.drops.named().remove("no-send").unwrap_or(0));
        assert_eq!(sent.collect::<Vec<_>>(), [0, 2, 1, 0]);
        rig.outputs.iter_mut().for_each(|output| output.drops = Arc::default());
        rig.drops = Drops::default();
        rig.set(&[(1, Match::any(), &[output(port::FLOOD)])]);
    }
}

/// Returns the packets that were sent to controllers since the last call.
fn taken(rig: &Rig) -> Vec<(Punt, Vec<u8>)> {
    let mut taken = Vec::new();
    rig.datapath.punted(|punt, bytes| {
        taken.push((*punt, bytes.to_vec()));
        true
    });
    taken
}

/// Returns the reason and the length of each of them.
fn shown(rig: &Rig) -> Vec<(u8, usize)> {
    taken(rig).into_iter().map(|(punt, frame)| (punt.reason, frame.len())).collect()
}

/// The table-miss flow is that of all packets with priority 0.
#[test]
fn a_port_may_be_forbidden_to_show_table_misses_and_nothing_else() {
    let mut rig = Rig::new(false);
    let to_controller = [output(port::CONTROLLER), output(2)];
    rig.set(&[(0, Match::any(), &to_controller), (1, to_udp(1), &to_controller)]);
    rig.datapath.configure(4, PortConfig(port_config::NO_PACKET_IN));
    let burst = [udp(1, 60), udp(2, 70)];
    assert_eq!(rig.send(3, &burst, 60)[1].len(), 2, "it goes to the other outputs");
    assert_eq!(shown(&rig), [(1, 60)]);
    assert_eq!(rig.dropped(), [("no-packet-in".into(), 1)]);
    rig.send(0, &burst, 60);
    assert_eq!(shown(&rig), [(1, 60), (0, 70)], "other ports show both");
    // Packets of controllers count as received there.
    rig.inject(4, &[output(port::TABLE)], &burst[1]);
    assert_eq!((shown(&rig), rig.datapath.drops.named()), (vec![], [("no-packet-in".to_owned(), 1)].into()));
}

#[test]
fn packets_that_no_controller_wants_are_counted() {
    let mut rig = Rig::new(false);
    rig.set(&[
        (0, Match::any(), &[output(port::CONTROLLER)]),
        (1, to_udp(1), &[output(port::CONTROLLER)]),
        (1, to_udp(3), &[Action::SetIpTtl(1), Action::PushMpls(0x8847), Action::DecMplsTtl, output(2)]),
    ]);
    let burst = [udp(1, 60), udp(2, 70), udp(3, 80)];
    let mut wanted = |wanted| {
        rig.datapath.want(WantedPackets(wanted));
        rig.drops = Drops::default();
        assert_eq!(rig.send(0, &burst, 60).concat().len(), 0);
        (shown(&rig), rig.dropped())
    };
    let dropped = |unwanted| match unwanted {
        0 => vec![("ttl".to_owned(), 1)],
        unwanted => vec![("ttl".to_owned(), 1), ("unwanted".to_owned(), unwanted)],
    };
    assert_eq!(wanted(0b000), (vec![], dropped(2)));
    assert_eq!(wanted(0b001), (vec![(0, 70)], dropped(1)));
    assert_eq!(wanted(0b010), (vec![(1, 60)], dropped(1)));
    assert_eq!(wanted(0b100), (vec![(2, 84)], dropped(2)));
    assert_eq!(wanted(0b111).1, dropped(0));
}

/// It is shown as it was when its time was over, with the flow that took it: from a flow's actions, from an action set, from a bucket
/// of a group, and from a controller's own actions.
#[test]
fn controllers_are_shown_packets_whose_time_is_over() {
    let mut rig = Rig::new(false);
    rig.datapath.want(WantedPackets(0b100));
    let mut rules = Rules::default();
    let dying = [(&[Action::DecIpTtl][..], To::Port(2)), (&[][..], To::Port(3))];
    rules.set_group(1, Some(Arc::new(group(&rig.datapath.counters(), GroupKind::All, &dying))));
    let set = Action::SetField(Field::UdpDst, 9);
    rig.add_to(
        rules,
        &[
            (0, 1, to_udp(1), program(&[set, Action::DecIpTtl, output(2)], &[], None)),
            (0, 1, to_udp(2), program(&[], &[Action::DecIpTtl, output(2)], None)),
            (0, 1, to_udp(3), program(&[Action::Group(1)], &[], None)),
            (0, 1, to_udp(4), program(&[Action::DecIpTtl], &[], Some(1))),
        ],
    );
    let dead = |to, len| {
        let mut frame = udp(to, len);
        frame[22] = 1;
        frame
    };
    let burst = [dead(1, 60), dead(2, 300), dead(3, 60), dead(4, 60), udp(1, 60)];
    // With a port that shows no misses: these are none.
    rig.datapath.configure(1, PortConfig(port_config::NO_PACKET_IN));
    let out = rig.send(0, &burst, 20);
    assert_eq!(out.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 1, 0]);
    let mut shown = taken(&rig).into_iter().map(|(punt, frame)| (punt.cookie, punt.reason, frame)).collect::<Vec<_>>();
    shown.sort();
    let wanted = [dead(9, 60), burst[1].clone(), burst[2].clone(), burst[3].clone()];
    assert_eq!(shown, (100..).zip(wanted).map(|(cookie, frame)| (cookie, 2, frame)).collect::<Vec<_>>());
    assert_eq!(rig.dropped(), [("ttl".into(), 4)]);
    rig.inject(4, &[Action::DecIpTtl, output(2)], &dead(1, 60));
    let punt = Punt { in_port: 4, cookie: u64::MAX, reason: 2, total: 60, ..Punt::default() };
    assert_eq!(taken(&rig), [(punt, dead(1, 60))]);
    assert_eq!(rig.datapath.drops.named(), [("ttl".to_owned(), 1)].into());
}

#[test]
fn controllers_are_shown_packets_as_they_are_by_then() {
    let mut rig = Rig::new(false);
    let first = Action::Output { port: port::CONTROLLER, max_len: 0 };
    rig.set(&[
        (5, to_udp(1), &[first, Action::PushVlan(0x8100), output(port::CONTROLLER), output(2)]),
        (0, Match::any(), &[output(port::CONTROLLER)]),
    ]);
    let long = udp(1, 200);
    let out = rig.send(3, &[long.clone(), udp(2, 60)], 5);
    let tagged = [&long[..12], &[0x81, 0, 0, 0], &long[12..]].concat();
    assert_eq!(out[1], std::slice::from_ref(&tagged));
    let shown = taken(&rig);
    let punt = |cookie, total| Punt { in_port: 4, cookie, reason: u8::from(cookie != 101), total, ..Punt::default() };
    // Step by step: first those of both frames, then the changed one.
    assert_eq!(shown, [(punt(100, 200), vec![]), (punt(101, 60), udp(2, 60)), (punt(100, 204), tagged)]);
    assert!(rig.drops.named().is_empty());
    let many = vec![udp(2, 60_000); 32];
    rig.send(0, &many, 60);
    let lost = rig.drops.named()["controller-busy"];
    let stats = rig.datapath.stats("br", &[], rig.plan.learning.bridge.flows.as_ref().unwrap());
    assert_eq!((stats.packet_ins, stats.packet_ins_lost), (3 + 32 - lost, lost));
    rig.datapath.punted(|_, _| false);
    let stats = rig.datapath.stats("br", &[], rig.plan.learning.bridge.flows.as_ref().unwrap());
    assert_eq!(stats.packet_ins_lost, 32, "controllers did not get the others either");
    assert!(lost > 0 && lost < 32);
}

#[test]
fn packets_of_controllers_go_out() {
    let mut rig = Rig::new(false);
    rig.set(&[(5, Match::any().with(Field::InPort, port::CONTROLLER.into(), u128::MAX), &[output(2)])]);
    let packet = udp(1, 60);
    let lens = |out: Vec<Vec<Vec<u8>>>| out.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lens(rig.inject(port::CONTROLLER, &[output(3)], &packet)), [0, 0, 1, 0]);
    assert_eq!(lens(rig.inject(port::CONTROLLER, &[output(port::ALL)], &packet)), [1, 1, 1, 1]);
    assert_eq!(lens(rig.inject(2, &[output(port::FLOOD)], &packet)), [1, 0, 1, 1]);
    assert_eq!(lens(rig.inject(2, &[output(port::IN_PORT)], &packet)), [0, 1, 0, 0]);
    assert_eq!(lens(rig.inject(port::CONTROLLER, &[output(port::TABLE)], &packet)), [0, 1, 0, 0]);
    assert_eq!(lens(rig.inject(port::CONTROLLER, &[output(port::NORMAL)], &packet)), [1, 1, 1, 1]);
    assert_eq!(rig.plan.learning.bridge.table.entries(0), [], "nobody learns from them");
    assert_eq!(lens(rig.inject(4, &[output(port::NORMAL)], &packet)), [1, 1, 1, 0]);
    assert!(rig.datapath.drops.named().is_empty());
    rig.inject(port::CONTROLLER, &[output(port::IN_PORT), output(9)], &packet);
    rig.inject(3, &[output(port::TABLE)], &packet);
    let dropped: Vec<_> = rig.datapath.drops.named().into_iter().collect();
    assert_eq!(dropped, [("no-flow".into(), 1), ("unknown-port".into(), 2)]);
}
