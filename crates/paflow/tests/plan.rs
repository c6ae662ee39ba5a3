//! Grouping: every packet once, in order per next hop, never beyond the room, and joined where possible.

use paflow::header::entry_size;
use paflow::plan::{MAX_BURST, Room};
use paflow::{Nfi, Planner};
use proptest::prelude::*;

fn bursts() -> impl Strategy<Value = Vec<(u16, Option<Nfi>)>> {
    let len = prop_oneof![4 => 14u16..200, 2 => 200u16..1500, 1 => 0u16..14, 1 => 1400u16..=u16::MAX];
    // Few next hops, so that groups grow; or many, so that slots collide.
    let hop = prop_oneof![4 => 0u16..6, 1 => any::<u16>()].prop_map(Nfi::new);
    prop::collection::vec((len, hop), 0..=MAX_BURST)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn groups_have_their_guaranteed_properties(rounds in prop::collection::vec(bursts(), 1..4), room in 128u32..9000) {
        // One planner for all rounds: nothing of the previous burst may remain.
        let mut planner = Planner::new();
        for burst in rounds {
            let (lengths, hops): (Vec<_>, Vec<_>) = burst.into_iter().unzip();
            let plan = planner.plan(&lengths, &hops, |_| room);
            let mut seen = vec![0; lengths.len()];
            let mut last_of = std::collections::HashMap::new();
            let mut open = std::collections::HashMap::new();
            for group in plan.groups() {
                let members: Vec<_> = plan.members(group).collect();
                prop_assert_eq!(members.len(), group.count() as usize);
                prop_assert_eq!(members[0], group.first());
                prop_assert_eq!(group.goes_as_it_is(), members.len() == 1);
                let size: u32 = members.iter().map(|&index| entry_size(lengths[index])).sum();
                prop_assert_eq!(group.size(), size);
                if members.len() > 1 {
                    prop_assert!(size <= room && group.next_hop().is_some());
                    prop_assert!(members.iter().all(|&index| lengths[index] >= 14));
                }
                for &index in &members {
                    seen[index] += 1;
                    prop_assert_eq!(hops[index], group.next_hop());
                    if let Some(hop) = group.next_hop() {
                        let before = last_of.insert(hop, index);
                        prop_assert!(before.is_none_or(|before| before < index), "order to one next hop");
                    }
                }
                // Next-fit: the packet that opens a group did not fit the previous group to the same next hop.
                if let Some(hop) = group.next_hop() {
                    let first = lengths[members[0]];
                    if let Some((size, joinable)) = open.insert(hop, (size, lengths[members[0]] >= 14)) {
                        let fits = joinable && first >= 14 && size + entry_size(first) <= room;
                        prop_assert!(!fits, "two groups that could have been one");
                    }
                }
            }
            prop_assert!(seen.iter().all(|&times| times == 1), "everything once");
        }
    }
}

#[test]
fn a_long_packet_is_not_overtaken() {
    let hop = Nfi::new(7);
    let mut planner = Planner::new();
    let plan = planner.plan(&[64, 64, 1500, 64, 64], &[hop; 5], |_| 1400);
    let groups: Vec<Vec<_>> = plan.groups().iter().map(|group| plan.members(group).collect()).collect();
    assert_eq!(groups, [vec![0, 1], vec![2], vec![3, 4]]);
}

#[test]
fn a_burst_of_256_next_hops_and_then_of_one() {
    let mut planner = Planner::new();
    let hops: Vec<_> = (1..=256).map(|id| Nfi::new(id * 255)).collect();
    assert_eq!(planner.plan(&[64; 256], &hops, |_| 65_000).groups().len(), 256);
    let plan = planner.plan(&[64; 256], &[Nfi::new(9); 256], |_| 65_000);
    assert_eq!(plan.groups().len(), 1);
    assert!(plan.members(&plan.groups()[0]).eq(0..256));
}

#[test]
fn rooms_differ_between_next_hops() {
    let hops = [1, 2, 1, 2, 1, 2].map(Nfi::new);
    let mut planner = Planner::new();
    let plan = planner.plan(&[100; 6], &hops, |hop| if hop.get() == 1 { 204 } else { 306 });
    let groups: Vec<Vec<_>> = plan.groups().iter().map(|group| plan.members(group).collect()).collect();
    assert_eq!(groups, [vec![0, 2], vec![1, 3, 5], vec![4]]);
}

/// Bursts of one round: a group that is open after one of them is held, and leaves with the next one.
#[test]
fn held_packets_go_first() {
    let (one, two) = (Nfi::new(1), Nfi::new(2));
    let held = |hop: Nfi| Room { bytes: 400, held: if hop.get() == 1 { 200 } else { 0 }, routed: false };
    let mut planner = Planner::new();
    // 102 bytes each after 200: one fits, the other opens a new group.
    let plan = planner.plan(&[100, 100, 100], &[one, two, one], held);
    let groups = plan.groups();
    let told: Vec<_> = groups.iter().map(|group| (group.held(), group.count(), group.size())).collect();
    assert_eq!(told, [(200, 1, 302), (0, 1, 102), (0, 1, 102)]);
    assert!(!groups[0].goes_as_it_is() && groups[1].goes_as_it_is() && groups[2].goes_as_it_is());
    assert_eq!([0, 1, 2].map(|index| plan.is_open(index)), [false, true, true]);
    // A packet that does not fit after the held packets, or can't be joined, makes them leave alone, and first.
    for len in [300, 13, 2000] {
        let lengths = [len, 100];
        let plan = planner.plan(&lengths, &[one, two], held);
        let told: Vec<_> = plan.groups().iter().map(|group| (group.held(), group.count())).collect();
        assert_eq!(told, [(200, 0), (0, 1), (0, 1)], "{len}");
        assert_eq!(plan.members(&plan.groups()[0]).count(), 0);
        assert!(!plan.is_open(0) && plan.is_open(1));
    }
}

/// Routers know nothing of the packets: none leaves as it is.
#[test]
fn packets_to_a_next_hop_behind_routers_are_always_in_aggregates() {
    let hops = [1, 2].map(Nfi::new);
    let room = |hop: Nfi| Room { bytes: 400, held: 0, routed: hop.get() == 1 };
    let mut planner = Planner::new();
    let [one, two] = hops;
    let plan = planner.plan(&[100, 100, 500, 13, 398, 399], &[one, two, one, one, one, one], room);
    let told: Vec<_> =
        plan.groups().iter().map(|group| (group.first(), group.goes_as_it_is(), group.is_too_long())).collect();
    let expected =
        [(0, false, false), (1, true, false), (2, false, true), (3, false, true), (4, false, false), (5, false, true)];
    assert_eq!(told, expected);
    // Packets held before one that is too long leave before it.
    let plan = planner.plan(&[500], &[one], |_| Room { bytes: 400, held: 200, routed: true });
    let told: Vec<_> = plan.groups().iter().map(|group| (group.count(), group.held(), group.is_too_long())).collect();
    assert_eq!(told, [(0, 200, false), (1, 0, true)]);
}

#[test]
fn every_packet_of_a_burst_may_push_something_held_out() {
    let mut planner = Planner::new();
    let hops: Vec<_> = (1..=256).map(|id| Nfi::new(id * 255)).collect();
    for _ in 0..2 {
        let plan = planner.plan(&[1000; 256], &hops, |_| Room { bytes: 1400, held: 700, routed: false });
        assert_eq!(plan.groups().len(), 512);
        assert!(plan.groups().iter().enumerate().all(|(index, group)| plan.is_open(index) == (group.count() == 1)));
    }
}
