use super::*;
use proptest::prelude::*;

const LIMIT: u32 = 4096;

fn key(n: u32) -> Key {
    let [a, b, c, d] = n.to_be_bytes();
    Key::of(MacAddr([2, 0, a, b, c, d]), 0)
}

fn table(ports: usize, limit: u32, ageing: u32) -> MacTable {
    MacTable::new(ports, limit, ageing, &[]).unwrap()
}

#[test]
fn addresses_are_learned_moved_and_forgotten() {
    let table = table(8, 16, 10);
    assert_eq!(table.find(key(1), 0), None);
    table.learn(key(1), 3, 100);
    assert_eq!(table.find(key(1), 110), Some(3));
    assert_eq!(table.find(key(1), 111), None, "too old");
    table.learn(key(1), 4, 111);
    assert_eq!(table.find(key(1), 111), Some(4), "moved");
    assert_eq!((table.learning(3).learned, table.learning(4).learned), (0, 1));
    table.sweep(111, |port| port == 4);
    assert_eq!(table.find(key(1), 111), None);
    assert_eq!(table.learning(4).learned, 0);
}

#[test]
fn what_ports_have_learned_is_forgotten_when_they_leave() {
    let table = table(3, 100, 300);
    (0..30).for_each(|n| table.learn(key(n), n as u16 % 3, 100));
    table.forget(&[]);
    table.forget(&[1, 2]);
    let known: Vec<_> = (0..30).map(|n| table.find(key(n), 100)).collect();
    let expected: Vec<_> = (0..30).map(|n| (n % 3 == 0).then_some(0)).collect();
    assert_eq!(known, expected);
    assert_eq!([0, 1, 2].map(|port| table.learning(port).learned), [10, 0, 0]);
}

#[test]
fn a_worker_whose_clock_is_behind_finds_fresh_addresses() {
    let table = table(1, 16, 10);
    table.learn(key(1), 0, 100);
    assert_eq!(table.find(key(1), 99), Some(0));
}

#[test]
fn vlans_do_not_see_each_other() {
    let table = table(2, 16, 10);
    table.learn(Key::of(MacAddr([2; 6]), 10), 1, 0);
    assert_eq!(table.find(Key::of(MacAddr([2; 6]), 20), 0), None);
    assert_eq!(table.entries(0), [Learned { mac: MacAddr([2; 6]), vlan: 10, port: 1, seen: Some(0) }]);
}

/// Learns all keys behind port 0, and returns how many are known afterwards.
fn known(table: &MacTable, keys: impl Iterator<Item = Key> + Clone) -> usize {
    keys.clone().for_each(|key| table.learn(key, 0, 1));
    keys.filter(|key| table.find(*key, 1) == Some(0)).count()
}

#[test]
fn addresses_in_a_row_are_all_known() {
    // Counting in the last byte, in the first, in steps of a vendor's half, and one in every VLAN.
    assert_eq!(known(&table(2, LIMIT, 300), (0..LIMIT).map(key)), 4096);
    assert_eq!(known(&table(2, LIMIT, 300), (0..=255).map(|n| Key::of(MacAddr([n & 0xfe, 0, 0, 0, 0, n]), 0))), 256);
    assert_eq!(known(&table(2, LIMIT, 300), (0..128).map(|n| Key::of(MacAddr([n << 1, 0, 0, 0, 0, 1]), 0))), 128);
    assert_eq!(known(&table(2, LIMIT, 300), (0..LIMIT).map(|n| key(n << 12))), 4096);
    assert_eq!(known(&table(2, LIMIT, 300), (1..4095).map(|vlan| Key::of(MacAddr([2; 6]), vlan))), 4094);
}

#[test]
fn ports_at_their_limits_leave_room_for_each_other() {
    let table = table(16, 256, 300);
    for n in 0..16 * 256 {
        table.learn(key(n), (n / 256) as u16, 5);
    }
    let unknown = (0..16 * 256).filter(|&n| table.find(key(n), 5) != Some((n / 256) as u16)).count();
    let missed: u64 = (0..16).map(|port| table.learning(port).no_room).sum();
    // Half of the table is in use. It is rare that both buckets of an address are full.
    assert!(unknown <= 8, "{unknown} addresses are not known");
    assert_eq!(missed, unknown as u64, "addresses that are not learned are counted");
}

#[test]
fn a_port_that_invents_addresses_fills_its_own_share() {
    let table = table(3, 64, 300);
    let victims = 0..64;
    victims.clone().for_each(|n| table.learn(key(n), 0, 100));
    for n in 0..200_000 {
        table.learn(key(1000 + n), 1, 100 + n / 1000);
    }
    assert!(victims.clone().all(|n| table.find(key(n), 300) == Some(0)), "an address in use was evicted");
    let Learning { learned, limit, over_limit, no_room } = table.learning(1);
    assert_eq!((learned, limit), (64, 64));
    assert_eq!(over_limit + no_room, 200_000 - 64);
    // A third port's addresses still find room.
    table.learn(key(999), 2, 300);
    assert_eq!(table.find(key(999), 300), Some(2));
    // A port at its limit does not take addresses from others either.
    table.learn(key(3), 1, 300);
    assert_eq!(table.find(key(3), 300), Some(0));
    // When its addresses are old, it may learn others.
    table.sweep(700, |_| false);
    table.learn(key(5000), 1, 700);
    assert_eq!((table.find(key(5000), 700), table.learning(1).learned), (Some(1), 1));
}

#[test]
fn addresses_that_are_not_used_give_way() {
    let table = table(1, 8, 10);
    (0..8).for_each(|n| table.learn(key(n), 0, 100));
    table.learn(key(8), 0, 105);
    assert_eq!(table.find(key(8), 105), None, "there are eight that are younger");
    table.sweep(111, |_| false);
    (8..16).for_each(|n| table.learn(key(n), 0, 111));
    assert!((8..16).all(|n| table.find(key(n), 111) == Some(0)));
    assert_eq!(table.learning(0).learned, 8);
}

#[test]
fn static_addresses_all_fit_and_stay() {
    for count in [1, 65, 256, MOST_STATICS] {
        let statics: Vec<_> = (0..count as u32).map(|n| (key(n), (n % 2) as u16)).collect();
        let table = MacTable::new(2, 0, 10, &statics).unwrap();
        (0..count as u32).for_each(|n| table.learn(key(n), 1 - (n % 2) as u16, 5));
        table.sweep(1000, |_| true);
        assert!(statics.iter().all(|(key, port)| table.find(*key, 1000) == Some(*port)), "of {count}");
        table.learn(key(1 << 20), 0, 1000);
        assert_eq!(table.find(key(1 << 20), 1000), None, "nothing is learned with a limit of 0");
    }
    let one_more: Vec<_> = (0..=MOST_STATICS as u32).map(|n| (key(n), 0)).collect();
    let error = MacTable::new(2, 0, 10, &one_more).err().unwrap();
    assert_eq!(error.to_string(), "4097 static addresses are too many: a bridge has room for 4096");
}

#[test]
fn each_table_has_its_own_key() {
    let spread = |spread: &Spread| (0..64).map(|n| spread.buckets(key(n), 1 << 16)).collect::<Vec<_>>();
    assert_ne!(spread(&Spread::new()), spread(&Spread::new()));
}

proptest! {
    /// In any sequence of events, counts match the entries, and no port exceeds its limit.
    #[test]
    fn counts_are_exact(events in prop::collection::vec((0u32..40, 0u16..3, 0u32..4), 1..300)) {
        let table = table(3, 8, 10);
        let mut now = 0;
        for (n, port, pause) in events {
            now += pause;
            table.learn(key(n), port, now);
            if pause == 3 {
                table.sweep(now, |gone| gone == port && n == 0);
            }
            let there = table.buckets.iter().flat_map(|bucket| &bucket.0).filter_map(Entry::get);
            let mut counts = [0; 3];
            there.for_each(|(_, value)| counts[usize::from(value.port())] += 1);
            prop_assert_eq!([0, 1, 2].map(|port| table.learning(port).learned), counts);
            prop_assert!(counts.iter().all(|count| *count <= 8));
        }
    }
}
