//! Next hops behind routers: every packet travels in an aggregate, with its class outside, or is cut, or answered.

use super::*;
use packet::checksum;

/// The longest packet that fits into an aggregate of the tests' MTU: less IP, UDP, the aggregate's header, and a length.
const LONGEST: usize = MTU as usize - 20 - 8 - 4 - 2;

fn routed(checksum: Checksum) -> AggregationSpec {
    let mut spec = spec(false, checksum);
    spec.next_hops.iter_mut().for_each(|hop| hop.route.routed = true);
    spec
}

/// Returns an IPv4 packet of `len` bytes in a VLAN, with this class and these flags.
fn ipv4(len: usize, vid: u16, class: u8, flags: u8) -> Vec<u8> {
    let mut frame = packet(len, Some(vid), 7);
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8]);
    frame[16..18].copy_from_slice(&[8, 0]);
    let total = (len - 18) as u16;
    let header = &mut frame[18..38];
    header.copy_from_slice(&[0x45, class, 0, 0, 0, 1, flags, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    header[2..4].copy_from_slice(&total.to_be_bytes());
    let sum = checksum::of(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 200 }, failure_persistence: None, ..<_>::default() })]
    /// In one burst or in several of a round, cut or whole: packets that are known and fit arrive, in order, and none of them
    /// leaves without an aggregate.
    #[test]
    fn every_packet_that_fits_arrives_in_an_aggregate(bursts in prop::collection::vec(bursts(), 1..4), cut in cuts(), summed: bool) {
        let rig = Rig::new(&routed(if summed { Checksum::Computed } else { Checksum::Zero }), u32::MAX, usize::MAX);
        let mut sent = Sent::default();
        for burst in &bursts {
            sent = sent.and(rig.send_more(burst, cut.max(fewest(burst))));
        }
        sent = sent.and(rig.flush());
        let wire = rig.taken();
        let hop = |packet: &[u8]| {
            let (ethertype, vid) = (packet.get(12..14)?, u16::from_be_bytes(*packet.get(14..)?.first_chunk()?));
            let is_known = ethertype == [0x81, 0] && (10..31).contains(&vid);
            is_known.then_some(vid / 10).filter(|hop| *hop != OTHER_PORT)
        };
        let all = || bursts.iter().flatten();
        let bare = all().filter(|packet| hop(packet).is_none()).count();
        let is_bare = |frame: &&Vec<u8>| frame[12..14] != [8, 0];
        prop_assert_eq!(wire.iter().filter(is_bare).count(), bare);
        prop_assert!(wire.iter().all(|frame| is_bare(&frame) || frame.len() <= usize::from(MTU) + 14));
        let fits = |packet: &&Vec<u8>| hop(packet).is_some() && packet.len() <= LONGEST;
        let too_long = all().filter(|packet| hop(packet).is_some()).count() - all().filter(fits).count();
        prop_assert_eq!((sent.frames as usize + too_long, sent.counted as usize, sent.held), (all().count(), too_long, 0));
        let (arrived, _) = rig.receive(&wire, cut);
        for to in 1..=3 {
            let those = |packets: &[Vec<u8>]| -> Vec<Vec<u8>> {
                packets.iter().filter(|packet| hop(packet) == Some(to)).cloned().collect()
            };
            let expected: Vec<_> = all().filter(fits).cloned().collect();
            prop_assert_eq!(those(&arrived), those(&expected));
        }
        let counted = rig.counted();
        prop_assert_eq!(counted[0].aggregates as usize, wire.len() - bare);
    }
}

#[test]
fn the_class_is_that_of_the_packets() {
    const EF: u8 = 46 << 2;
    for (classes, expected) in [(&[EF | 1][..], EF | 1), (&[0, EF, 8 << 2], EF), (&[2, 3, 2], 2), (&[3, 0], 0)] {
        let rig = Rig::new(&routed(Checksum::Computed), u32::MAX, usize::MAX);
        let packets: Vec<_> = classes.iter().map(|class| ipv4(100, 10, *class, 0)).collect();
        rig.send(&packets, usize::MAX);
        // The same, held.
        for packet in &packets {
            rig.send_more(std::slice::from_ref(packet), usize::MAX);
        }
        rig.flush();
        let wire = rig.taken();
        assert_eq!(wire.len(), 2, "{classes:?}");
        for frame in &wire {
            assert_eq!((frame[15], checksum::of(&frame[14..34])), (expected, 0), "{classes:?}");
        }
        // To a next hop without routers on the way it stays as it was.
        let rig = Rig::new(&spec(false, Checksum::Zero), u32::MAX, usize::MAX);
        rig.send(&[packets.clone(), packets].concat(), usize::MAX);
        assert_eq!(rig.taken()[0][15], 0);
    }
}

#[test]
fn congestion_marks_reach_capable_receivers() {
    let rig = Rig::new(&routed(Checksum::Zero), u32::MAX, usize::MAX);
    let packets = [1, 0, 2, 3].map(|class| ipv4(100, 10, class, 0));
    rig.send(&packets, usize::MAX);
    let mut wire = rig.taken();
    wire[0][15] |= 3;
    wire[0][24..26].fill(0);
    let sum = checksum::of(&wire[0][14..34]);
    wire[0][24..26].copy_from_slice(&sum.to_be_bytes());
    for cut in [usize::MAX, 30] {
        let (arrived, _) = rig.receive(&wire, cut);
        assert_eq!(arrived, [3; 3].map(|class| ipv4(100, 10, class, 0)));
    }
    assert_eq!(rig.drops[1].named().get("congested"), Some(&2));
}

#[test]
fn packets_that_do_not_fit_are_fragmented_in_order_or_answered() {
    let rig = Rig::new(&routed(Checksum::Zero), u32::MAX, usize::MAX);
    let packets =
        [ipv4(100, 10, 0, 0), ipv4(3000, 10, 4, 0), ipv4(101, 10, 0, 0), ipv4(1500, 10, 0, 0x40), ipv4(102, 10, 0, 0)];
    let sent = rig.send_more(&packets, usize::MAX).and(rig.flush());
    assert_eq!((sent.frames, sent.bytes, sent.counted, sent.held), (4, 100 + 3000 + 101 + 102, 1, 0));
    let wire = rig.taken();
    assert!(wire.iter().all(|frame| frame.len() <= usize::from(MTU) + 14));
    let (arrived, _) = rig.receive(&wire, usize::MAX);
    let whole = |frame: &[u8]| frame.len() - 38;
    let lengths: Vec<_> = arrived.iter().map(|frame| frame.len()).collect();
    assert_eq!((lengths[0], lengths[lengths.len() - 2], lengths[lengths.len() - 1]), (100, 101, 102));
    let fragments = &arrived[1..arrived.len() - 2];
    assert_eq!(fragments.iter().map(|frame| whole(frame)).sum::<usize>(), 3000 - 38);
    assert!(fragments.iter().all(|frame| frame[19] == 4 && frame.len() <= LONGEST));
    let answers: Vec<_> = rig.member.refusals.drain().flat_map(|(_, answers)| answers).collect();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0][..18], [2, 0, 0, 0, 0, 8, 2, 0, 0, 0, 0, 9, 0x81, 0, 0, 10, 8, 0]);
    assert_eq!(
        answers[0][38..46],
        [3, 4, answers[0][40], answers[0][41], 0, 0, ((LONGEST - 18) >> 8) as u8, (LONGEST - 18) as u8]
    );
    assert_eq!(rig.drops[0].named().get("too-long"), Some(&1));
}
