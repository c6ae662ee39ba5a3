//! The aggregation table against a plain map, and the fields that identify a packet's service chain.

use paflow::Nfi;
use paflow::table::{Table, VlanTable, VniTable, VniTableError, key};
use proptest::prelude::*;
use std::collections::HashMap;

proptest! {
    #[test]
    fn vni_table_is_a_bounded_map(
        changes in prop::collection::vec((0u32..64, 0u16..4), 0..300), spread in 0u32..18, capacity in 1usize..50
    ) {
        let mut table = VniTable::new(capacity);
        let mut model = HashMap::new();
        for (vni, hop) in changes {
            let vni = vni << spread;
            match Nfi::new(hop) {
                None => prop_assert_eq!(table.remove(vni), model.remove(&vni)),
                Some(hop) if model.len() == capacity && !model.contains_key(&vni) => {
                    prop_assert_eq!(table.insert(vni, hop), Err(VniTableError::Full(capacity)));
                }
                Some(hop) => prop_assert_eq!(table.insert(vni, hop), Ok(model.insert(vni, hop))),
            }
            prop_assert_eq!(table.len(), model.len());
            for vni in (0..64).map(|vni| vni << spread) {
                prop_assert_eq!(table.get(vni), model.get(&vni).copied());
            }
        }
        prop_assert_eq!(table.entries().collect::<HashMap<_, _>>(), model);
        table.clear();
        prop_assert!(table.is_empty());
    }
}

#[test]
fn vnis_have_24_bits() {
    let hop = Nfi::new(1).unwrap();
    assert_eq!(VniTable::new(4).insert(1 << 24, hop), Err(VniTableError::Range(1 << 24)));
    assert_eq!(VniTable::new(4).insert((1 << 24) - 1, hop), Ok(None));
}

#[test]
fn vlan_table_takes_8_kb() {
    assert_eq!(size_of::<VlanTable>(), 8192);
    let mut table = Box::new(VlanTable::new());
    assert_eq!(table.set(100, Nfi::new(7)), None);
    assert_eq!(table.set(4095, Nfi::new(u16::MAX)), None);
    assert_eq!(table.entries().map(|(vid, hop)| (vid, hop.get())).collect::<Vec<_>>(), [(100, 7), (4095, u16::MAX)]);
    assert_eq!(table.set(100, None), Nfi::new(7));
    assert_eq!(table.get(100), None);
}

#[test]
fn chains_of_packets() {
    let mut packet = [0u8; 64];
    packet[12..16].copy_from_slice(&[0x81, 0x00, 0xe0, 100]);
    assert_eq!(key::vid(&packet[..]), Some(100));
    packet[12..14].copy_from_slice(&[0x88, 0xa8]);
    assert_eq!(key::vid(&packet[..]), Some(100));
    packet[15] = 0;
    assert_eq!(key::vid(&packet[..]), None, "a priority tag has no VID");
    assert_eq!(key::vid(&packet[..15]), None);
    packet[12..14].copy_from_slice(&[0x08, 0x00]);
    assert_eq!(key::vid(&packet[..]), None);

    let mut vxlan = vec![0u8; 100];
    vxlan[12..14].copy_from_slice(&[0x08, 0x00]);
    vxlan[14] = 0x45;
    vxlan[23] = 17;
    vxlan[36..38].copy_from_slice(&4789u16.to_be_bytes());
    vxlan[42..50].copy_from_slice(&[8, 0, 0, 0, 0, 1, 2, 0]);
    assert_eq!(key::vni(&vxlan[..], 4789), Some(258));
    assert_eq!(key::vni(&vxlan[..], 4790), None);
    let mut tagged = vxlan.clone();
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    assert_eq!(key::vni(&tagged[..], 4789), Some(258));

    let mut table = VniTable::new(10);
    table.insert(258, Nfi::new(3).unwrap()).unwrap();
    let table = Table::Vni(table, 4789);
    assert_eq!(table.next_hop(&tagged[..]), Nfi::new(3));
    let mut vlans = Box::new(VlanTable::new());
    vlans.set(5, Nfi::new(4));
    assert_eq!(Table::Vlan(vlans).next_hop(&tagged[..]), Nfi::new(4));
}
