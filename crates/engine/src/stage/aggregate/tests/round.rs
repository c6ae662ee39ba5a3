//! Bursts of one round are joined with each other.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn bursts_of_a_round_are_joined(
        rounds in prop::collection::vec(prop::collection::vec((bursts(), cuts()), 1..5), 1..4),
        vxlan: bool,
        checksum in prop_oneof![Just(Checksum::Zero), Just(Checksum::Computed)],
        (longest, most) in prop_oneof![3 => Just((u32::MAX, MAX_BURST)), 1 => (500u32..1600, 0usize..20)],
    ) {
        let rig = Rig::new(&spec(vxlan, checksum), longest, most);
        let (mut one_by_one, mut all, mut total) = (0, Vec::new(), Sent::default());
        for round in rounds {
            for (packets, cut) in round {
                let cut = cut.max(fewest(&packets));
                total = total.and(rig.send_more(&packets, cut));
                let alone = Rig::new(&spec(vxlan, checksum), u32::MAX, MAX_BURST);
                alone.send(&packets, cut);
                one_by_one += alone.taken().len();
                all.extend(packets);
            }
            total = total.and(rig.flush());
            prop_assert_eq!(total.held, 0, "nothing waits beyond the round");
        }
        let wire = rig.taken();
        prop_assert!(wire.len() <= one_by_one, "{} frames, and {one_by_one} without holding", wire.len());
        for frame in &wire {
            prop_assert!(frame.len() <= usize::from(MTU) + 14 || all.contains(frame), "{} bytes", frame.len());
        }
        let (arrived, _) = rig.receive(&wire, usize::MAX);
        prop_assert!(rig.drops[1].named().is_empty());
        prop_assert_eq!(arrived.len(), total.frames as usize);
        prop_assert_eq!(total.bytes, arrived.iter().map(|packet| packet.len() as u64).sum::<u64>());
        prop_assert_eq!(rig.counted()[0].packets, u64::from(total.frames));
        if longest == u32::MAX {
            prop_assert_eq!(by_next_hop(&arrived), by_next_hop(&all));
        }
    }
}

/// Four queues with eight packets each fill the same frames as one with 32.
#[test]
fn the_rest_of_a_burst_leaves_with_the_next() {
    let rig = Rig::new(&spec(false, Checksum::Zero), u32::MAX, MAX_BURST);
    let packets: Vec<_> = (0..32).map(|fill| packet(60, Some(10), fill)).collect();
    let mut told = Vec::new();
    for some in packets.chunks(8) {
        let sent = rig.send_more(some, usize::MAX);
        told.push((sent.frames, sent.held));
    }
    let sent = rig.flush();
    told.push((sent.frames, sent.held));
    // Half of a frame is 11 packets: eight are held, and sixteen leave.
    assert_eq!(told, [(0, 8), (16, -8), (0, 8), (16, -8), (0, 0)]);
    let wire = rig.taken();
    assert_eq!(wire.len(), 2);
    assert_eq!(rig.receive(&wire, usize::MAX).0, packets);
    // A packet that is alone at the end of a round leaves unchanged.
    rig.send_more(&packets[..1], usize::MAX);
    rig.flush();
    assert_eq!(rig.taken(), packets[..1]);
}

#[test]
fn held_packets_follow_the_rules_of_their_arrival() {
    let rig = Rig::new(&spec(false, Checksum::Zero), u32::MAX, MAX_BURST);
    let packets: Vec<_> = (0..3).map(|fill| packet(60, Some(10), fill)).collect();
    rig.send_more(&packets, usize::MAX);
    rig.rules.set(AggregationRules::none());
    let sent = rig.send_more(&packets[..1], usize::MAX);
    assert_eq!((sent.frames, sent.held), (4, -3));
    let wire = rig.taken();
    assert_eq!((wire.len(), &wire[1]), (2, &packets[0]));
}

/// More next hops at a time than slabs: packets to the others leave with their burst.
#[test]
fn held_packets_stay_within_the_room() {
    let mut many = spec(false, Checksum::Zero);
    many.next_hops =
        (1..=30).map(|nfi| NextHopSpec { nfi, route: route(nfi, false, Checksum::Zero), port: None }).collect();
    many.flows = (1..=30).map(|vid| (vid, vid as u16)).collect();
    let rig = Rig::new(&many, u32::MAX, MAX_BURST);
    let packets: Vec<_> = (1..=30).map(|vid| packet(60, Some(vid), vid as u8)).collect();
    let sent = rig.send_more(&packets, usize::MAX);
    assert_eq!((sent.frames, sent.held), (14, 16));
    // Each long packet pushes a held one out: more frames than a burst has.
    let long: Vec<_> = (1..=30).map(|vid| packet(1450, Some(vid), vid as u8)).collect();
    let sent = rig.send_more(&long, 2000);
    assert_eq!((sent.frames, sent.held), (46, -16));
    assert_eq!(rig.taken().len(), 60);
    assert_eq!(rig.flush(), Sent::default());
}

#[test]
fn packets_held_when_the_queue_goes_are_counted() {
    let rig = Rig::new(&spec(false, Checksum::Zero), u32::MAX, MAX_BURST);
    rig.send_more(&[packet(60, Some(10), 1)], usize::MAX);
    let Rig { join, drops, .. } = rig;
    drop(join);
    assert_eq!(drops[0].named(), [("down".to_owned(), 1)].into());
}
