//! Tests of tags against a bridge that handles one frame at a time in the plainest way.

use super::*;
use std::collections::HashMap;

/// Bytes of a frame before the tag.
const ADDRESSES: usize = 12;

/// The bridge to compare with.
struct Model {
    vlans: Vec<Vlan>,
    known: HashMap<(Vec<u8>, u16), usize>,
}

impl Model {
    /// Returns the frame that leaves by each port when `frame` arrives at `from`.
    fn forward(&mut self, from: usize, frame: &[u8]) -> Vec<Option<Vec<u8>>> {
        let nothing = vec![None; self.vlans.len()];
        let tag =
            (frame.len() >= 18 && frame[12..14] == [0x81, 0x00]).then(|| u16::from_be_bytes([frame[14], frame[15]]));
        let vid = match (&self.vlans[from], tag.map(|tag| tag & 0xfff)) {
            (Vlan::Ignore, _) => 0,
            (Vlan::Access(own), None | Some(0)) => *own,
            (Vlan::Trunk(_), Some(vid)) if self.carries(from, vid) => vid,
            _ => return nothing,
        };
        let (destination, source) = (frame[..6].to_vec(), frame[6..12].to_vec());
        self.known.insert((source, vid), from);
        let out = |port: usize| {
            let bare = [&frame[..ADDRESSES], &frame[if tag.is_some() { 16 } else { 12 }..]].concat();
            match &self.vlans[port] {
                Vlan::Ignore => frame.to_vec(),
                Vlan::Access(_) => bare,
                Vlan::Trunk(_) => {
                    let priority = tag.unwrap_or(0) & 0xf000;
                    let tag = [[0x81, 0x00], (priority | vid).to_be_bytes()].concat();
                    [&bare[..ADDRESSES], &tag, &bare[ADDRESSES..]].concat()
                }
            }
        };
        let to = self.known.get(&(destination.clone(), vid)).filter(|_| destination[0] & 1 == 0);
        let goes = |port: &usize| *port != from && self.carries(*port, vid) && to.is_none_or(|to| to == port);
        (0..nothing.len()).map(|port| goes(&port).then(|| out(port))).collect()
    }

    fn carries(&self, port: usize, vid: u16) -> bool {
        match &self.vlans[port] {
            Vlan::Ignore => true,
            Vlan::Access(own) => *own == vid,
            Vlan::Trunk(vids) if vids.is_empty() => (1..4095).contains(&vid),
            Vlan::Trunk(vids) => vids.contains(&vid),
        }
    }
}

fn vlan() -> impl Strategy<Value = Vlan> {
    prop_oneof![
        prop::sample::select(vec![10, 20, 4094]).prop_map(Vlan::Access),
        prop::sample::subsequence(vec![10, 20, 30, 4094], 1..4).prop_map(Vlan::Trunk),
        Just(Vlan::Trunk(vec![])),
    ]
}

/// Returns ports of a bridge: all of them handle tags, or none does.
fn vlans() -> impl Strategy<Value = Vec<Vlan>> {
    prop_oneof![4 => prop::collection::vec(vlan(), 2..6), 1 => Just(vec![Vlan::Ignore; 4])]
}

/// A tag of a customer or of a provider, with or without a VLAN, with any priority.
fn any_tag() -> impl Strategy<Value = [u8; 4]> {
    let kind = prop::sample::select(vec![[0x81, 0x00], [0x81, 0x00], [0x88, 0xa8], [0x91, 0x00]]);
    (kind, prop::sample::select(vec![0u16, 0, 10, 20, 30, 40, 4094, 4095]), 0u16..16).prop_map(
        |(kind, vid, priority)| {
            let [high, low] = (priority << 12 | vid).to_be_bytes();
            [kind[0], kind[1], high, low]
        },
    )
}

/// A frame between few stations, with up to three tags; some end within a tag.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let tags = prop::collection::vec(any_tag(), 0..4);
    (0u8..5, 0u8..4, tags, prop_oneof![4 => Just(60usize), 1 => 14usize..20]).prop_map(|(to, from, tags, len)| {
        let to = if to == 4 { BROADCAST } else { mac(to) };
        let mut frame = [&to[..], &mac(from), &tags.concat(), &[0x08, 0x00]].concat();
        frame.resize(len.max(14), from);
        frame
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Frames leave as in the model, tags included, and each frame that leaves nowhere is counted once.
    #[test]
    fn a_bridge_treats_tags_as_the_model_does(
        vlans in vlans(),
        bursts in prop::collection::vec((0usize..6, prop::collection::vec(any_frame(), 1..6)), 1..12),
        cut in 1u32..60,
    ) {
        let mut rig = Rig::new(&vlans);
        let mut model = Model { vlans: vlans.clone(), known: HashMap::new() };
        let mut lost = 0;
        for (from, frames) in &bursts {
            let from = from % vlans.len();
            let mut expected = vec![vec![]; vlans.len()];
            for frame in frames {
                let out = model.forward(from, frame);
                lost += u64::from(out.iter().all(Option::is_none));
                expected.iter_mut().zip(out).for_each(|(all, new)| all.extend(new));
            }
            prop_assert_eq!(rig.send(from, frames, cut), expected, "from {} of {:?}", from, vlans);
        }
        prop_assert_eq!(rig.drops.named().values().sum::<u64>(), lost);
    }
}

#[test]
fn a_priority_tag_leaves_with_the_vlan_of_its_port() {
    let mut rig = Rig::new(&[Vlan::Access(10), Vlan::Trunk(vec![]), Vlan::Access(10), Vlan::Access(20)]);
    let tagged = |tag| frame(BROADCAST, mac(1), Some(tag), 7);
    let out = rig.send(0, &[tagged(0xb000)], 60);
    assert_eq!(out, [vec![], vec![tagged(0xb00a)], vec![frame(BROADCAST, mac(1), None, 7)], vec![]]);
    // There is no VLAN 0 and no VLAN 4095.
    assert_eq!(rig.send(1, &[tagged(0xb000), tagged(0x0fff)], 60).concat(), [] as [Vec<u8>; 0]);
    assert_eq!(rig.dropped(Reason::Vlan), 2);
}

#[test]
fn controllers_packets_without_a_vlan_get_none() {
    let mut rig = Rig::new(&[Vlan::Access(10), Vlan::Trunk(vec![])]);
    let [bare, priority, tagged] = [None, Some(0x2000), Some(0x200a)].map(|tag| frame(BROADCAST, mac(1), tag, 7));
    assert_eq!(rig.send_from_nowhere(&[bare.clone(), priority]).concat(), [] as [Vec<u8>; 0]);
    assert_eq!(rig.dropped(Reason::NoPort), 2);
    assert_eq!(rig.send_from_nowhere(std::slice::from_ref(&tagged)), [vec![bare], vec![tagged]]);
}
