//! Tests of bridges, with queues that only record what they are given.

pub(super) mod changed;
mod tags;

use super::bridge::Bridge;
use super::mac_table::{Key, MacTable};
use super::{Arrival, BridgePlan, Half, NO_OUTPUT, Output, Scratch, TransmitQueue};
use crate::drops::{Drops, Reason};
use crate::port::{Sent, TxQueue};
use crate::spec::Vlan;
use crate::stage::egress::{Egress, Outgoing};
use packet::{BurstStorage, Frames, MAX_BURST, Segment};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

pub(super) type Delivered = Arc<Mutex<Vec<Vec<u8>>>>;

struct Remember(Delivered);

impl TxQueue for Remember {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        for frame in frames.as_slice() {
            let mut bytes = vec![0; frame.len() as usize];
            frames.copy_to(frame, &mut bytes);
            self.0.lock().unwrap().push(bytes);
        }
        Sent { frames: frames.len() as u32, ..Sent::default() }
    }
}

/// Returns `count` outputs, and the frames given to each.
pub(super) fn remembering(count: usize) -> (Vec<Output>, Vec<Delivered>) {
    let delivered: Vec<Delivered> = (0..count).map(|_| Arc::default()).collect();
    let output = |(port, delivered): (usize, &Delivered)| {
        let half = Half::Own(Egress::new(Box::new(Remember(delivered.clone()))));
        Output::new(port as u64, vec![TransmitQueue { half, counters: Arc::default() }], Arc::default())
    };
    (delivered.iter().enumerate().map(output).collect(), delivered)
}

struct Rig {
    plan: BridgePlan,
    outputs: Vec<Output>,
    delivered: Vec<Delivered>,
    drops: Drops,
    storage: Box<BurstStorage>,
    scratch: Scratch,
    now: u32,
}

impl Rig {
    fn new(vlans: &[Vlan]) -> Rig {
        Rig::knowing(vlans, &[])
    }

    /// Returns a rig with static addresses.
    fn knowing(vlans: &[Vlan], statics: &[(Key, u16)]) -> Rig {
        let (outputs, delivered) = remembering(vlans.len());
        let places: Vec<_> = vlans.iter().map(Some).collect();
        let table = MacTable::new(vlans.len(), 4096, 300, statics).unwrap();
        let bridge = Arc::new(Bridge::of(table, &places));
        Rig {
            plan: BridgePlan::new(bridge, (0..vlans.len()).collect(), 0),
            outputs,
            delivered,
            drops: Drops::default(),
            storage: Box::default(),
            scratch: Scratch::default(),
            now: 0,
        }
    }

    /// Sends a burst into port `from`, each frame cut in two at `cut`. Returns the frames that left each port.
    fn send(&mut self, from: usize, frames: &[Vec<u8>], cut: u32) -> Vec<Vec<Vec<u8>>> {
        self.forward(from, frames, cut, BridgePlan::forward)
    }

    /// Sends a burst as a controller does.
    fn send_from_nowhere(&mut self, frames: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
        self.forward(usize::MAX, frames, u32::MAX, |plan, arrival, scratch| {
            plan.learning.forward_on(&arrival, Outgoing::Frames(arrival.frames), scratch)
        })
    }

    fn forward<'f>(
        &mut self,
        from: usize,
        frames: &'f [Vec<u8>],
        cut: u32,
        forward: impl Fn(&BridgePlan, Arrival<'_, '_>, &mut Scratch),
    ) -> Vec<Vec<Vec<u8>>> {
        let cut = |frame: &'f Vec<u8>| {
            let (a, b) = Segment::from(&frame[..]).split_at(cut);
            [a, b].into_iter().filter(|s| !s.is_empty())
        };
        self.forward_segments(from, frames.iter().map(cut), forward)
    }

    fn forward_segments<'f>(
        &mut self,
        from: usize,
        frames: impl IntoIterator<Item = impl IntoIterator<Item = Segment<'f>>>,
        forward: impl Fn(&BridgePlan, Arrival<'_, '_>, &mut Scratch),
    ) -> Vec<Vec<Vec<u8>>> {
        let mut burst = self.storage.start();
        for frame in frames {
            assert!(burst.push_segments(frame));
        }
        let arrival = Arrival {
            frames: burst.frames(),
            from,
            queue: 0,
            now: self.now,
            outputs: &self.outputs,
            drops: &self.drops,
        };
        forward(&self.plan, arrival, &mut self.scratch);
        self.delivered.iter().map(|d| std::mem::take(&mut *d.lock().unwrap())).collect()
    }

    fn dropped(&self, reason: Reason) -> u64 {
        let name = crate::drops::REASONS[reason as usize].0;
        self.drops.named().get(name).copied().unwrap_or(0)
    }
}

fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

fn frame(to: [u8; 6], from: [u8; 6], tag: Option<u16>, fill: u8) -> Vec<u8> {
    let mut bytes = [to, from].concat();
    if let Some(vid) = tag {
        bytes.extend([0x81, 0x00]);
        bytes.extend(vid.to_be_bytes());
    }
    bytes.extend([0x08, 0x00]);
    bytes.extend([fill; 46]);
    bytes
}

const BROADCAST: [u8; 6] = [0xff; 6];

#[test]
fn unknown_destinations_are_flooded_and_known_ones_are_not() {
    let mut rig = Rig::new(&[Vlan::Ignore, Vlan::Ignore, Vlan::Ignore]);
    let hello = frame(mac(2), mac(1), None, 1);
    assert_eq!(rig.send(0, std::slice::from_ref(&hello), 60), [vec![], vec![hello.clone()], vec![hello]]);
    let answer = frame(mac(1), mac(2), None, 2);
    assert_eq!(rig.send(2, std::slice::from_ref(&answer), 60), [vec![answer], vec![], vec![]]);
    let broadcast = frame(BROADCAST, mac(1), None, 3);
    assert_eq!(rig.send(0, std::slice::from_ref(&broadcast), 60), [vec![], vec![broadcast.clone()], vec![broadcast]]);
}

#[test]
fn addresses_that_bridges_keep_to_themselves_pass_only_if_they_may() {
    let to = |last| frame([1, 0x80, 0xc2, 0, 0, last], mac(1), None, 0);
    let frames = [to(0x00), to(0x0e), to(0x10), to(0x0f)];
    let mut rig = Rig::new(&[Vlan::Ignore, Vlan::Ignore]);
    assert_eq!(rig.send(0, &frames, 60), [vec![], vec![to(0x10)]]);
    assert_eq!(rig.send_from_nowhere(&frames), [vec![to(0x10)], vec![to(0x10)]]);
    assert_eq!(rig.dropped(Reason::Reserved), 6);
    let mut bridge = Bridge::of(MacTable::new(2, 4096, 300, &[]).unwrap(), &[Some(&Vlan::Ignore); 2]);
    bridge.forwards_reserved = true;
    rig.plan = BridgePlan::new(Arc::new(bridge), vec![0, 1], 0);
    assert_eq!(rig.send(0, &frames, 60), [vec![], frames.to_vec()]);
}

#[test]
fn a_frame_for_its_own_port_is_dropped() {
    let mut rig = Rig::new(&[Vlan::Ignore, Vlan::Ignore]);
    rig.send(0, &[frame(BROADCAST, mac(1), None, 0)], 60);
    assert_eq!(rig.send(0, &[frame(mac(1), mac(9), None, 0)], 60), [vec![], vec![] as Vec<Vec<u8>>]);
    assert_eq!(rig.dropped(Reason::Hairpin), 1);
}

#[test]
fn frames_of_a_bridge_with_one_port_are_dropped() {
    let mut rig = Rig::new(&[Vlan::Ignore]);
    rig.send(0, &[frame(BROADCAST, mac(1), None, 0)], 60);
    assert_eq!(rig.dropped(Reason::NoPort), 1);
}

/// A port has gone, or has come since: another worker may know it. Its place is empty, or there is none of that number yet.
#[test]
fn frames_to_a_port_that_is_not_in_the_plan_are_dropped() {
    for vlan in [Vlan::Ignore, Vlan::Access(10)] {
        let vid = if vlan == Vlan::Ignore { 0 } else { 10 };
        let table = MacTable::new(4, 16, 300, &[]).unwrap();
        (1..4).for_each(|port: u8| table.learn(Key::of(mac(port).into(), vid), port.into(), 0));
        let mut rig = Rig::new(&[vlan.clone(), vlan.clone()]);
        let bridge = Bridge::of(table, &[Some(&vlan), None, Some(&vlan)]);
        rig.plan = BridgePlan::new(Arc::new(bridge), vec![0, NO_OUTPUT, 1], 0);
        let to = |n| frame(mac(n), mac(9), None, n);
        assert_eq!(rig.send(0, &[to(1)], 60), [vec![], vec![] as Vec<Vec<u8>>]);
        assert_eq!(rig.send(0, &[to(3), to(3)], 60), [vec![], vec![] as Vec<Vec<u8>>]);
        let mixed = [to(3), to(2), to(1), frame(BROADCAST, mac(9), None, 0)];
        assert_eq!(rig.send(0, &mixed, 60), [vec![], vec![mixed[1].clone(), mixed[3].clone()]]);
        assert_eq!(rig.dropped(Reason::NoPort) + rig.dropped(Reason::Vlan), 5);
    }
}

#[test]
fn floods_are_counted_at_their_source() {
    let mut rig = Rig::knowing(&[Vlan::Ignore, Vlan::Ignore, Vlan::Ignore], &[(Key::of(mac(7).into(), 0), 2)]);
    let to = |destination| frame(destination, mac(1), None, 0);
    rig.send(0, &[to(mac(9)), to(mac(7)), to(mac(8)), to(BROADCAST)], 60);
    rig.send(1, &[to(mac(9)), to(mac(9))], 60);
    assert_eq!([0, 1, 2].map(|port| rig.plan.learning.bridge.learning(port).1), [2, 2, 0]);
}

#[test]
fn addresses_age() {
    let mut rig = Rig::new(&[Vlan::Ignore, Vlan::Ignore, Vlan::Ignore]);
    rig.send(1, &[frame(BROADCAST, mac(2), None, 0)], 60);
    rig.now = 301;
    let out = rig.send(0, &[frame(mac(2), mac(1), None, 0)], 60);
    assert_eq!((out[1].len(), out[2].len()), (1, 1));
}

#[test]
fn tags_are_pushed_and_popped_at_the_edge() {
    let mut rig = Rig::new(&[Vlan::Access(10), Vlan::Access(10), Vlan::Access(20), Vlan::Trunk(vec![10, 30])]);
    let plain = frame(BROADCAST, mac(1), None, 7);
    let tagged = frame(BROADCAST, mac(1), Some(10), 7);
    for cut in [3, 12, 13, 60] {
        let out = rig.send(0, std::slice::from_ref(&plain), cut);
        assert_eq!(out, [vec![], vec![plain.clone()], vec![], vec![tagged.clone()]], "cut at {cut}");
        let out = rig.send(3, std::slice::from_ref(&tagged), cut);
        assert_eq!(out, [vec![plain.clone()], vec![plain.clone()], vec![], vec![]], "cut at {cut}");
    }
    rig.send(3, &[frame(BROADCAST, mac(1), Some(20), 0), plain.clone()], 60);
    rig.send(0, &[tagged], 60);
    assert_eq!(rig.dropped(Reason::Vlan), 3, "not carried, untagged on a trunk, tagged on an access port");
}

#[test]
fn a_known_address_in_another_vlan_is_not_reached() {
    let mut rig = Rig::knowing(&[Vlan::Access(10), Vlan::Access(20)], &[(Key::of(mac(2).into(), 10), 1)]);
    rig.send(0, &[frame(mac(2), mac(1), None, 0)], 60);
    assert_eq!(rig.dropped(Reason::Vlan), 1);
}

proptest! {
    /// For any burst, every port gets the frames that a bridge would have sent which handles one frame at a time.
    #[test]
    fn bursts_are_as_good_as_single_frames(
        burst in prop::collection::vec((0u8..4, 0u8..4, any::<bool>()), 1..MAX_BURST),
        cut in 1u32..60,
    ) {
        let mut together = Rig::new(&[const { Vlan::Ignore }; 4]);
        let mut apart = Rig::new(&[const { Vlan::Ignore }; 4]);
        for rig in [&mut together, &mut apart] {
            for port in 0..3 {
                rig.send(port, &[frame(BROADCAST, mac(port as u8), None, 0)], 60);
            }
        }
        let frames: Vec<_> = burst.iter().enumerate().map(|(i, &(to, from, group))| {
            frame(if group { BROADCAST } else { mac(to) }, mac(from + 10), None, i as u8)
        }).collect();
        let at_once = together.send(1, &frames, cut);
        let mut one_by_one = vec![vec![]; 4];
        for frame in &frames {
            for (all, new) in one_by_one.iter_mut().zip(apart.send(1, std::slice::from_ref(frame), cut)) {
                all.extend(new);
            }
        }
        prop_assert_eq!(at_once, one_by_one);
        prop_assert_eq!(together.drops.named(), apart.drops.named());
    }
}
