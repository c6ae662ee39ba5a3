//! Frames whose headers flows change.

use super::*;
use packet::MAX_BURST;
use proptest::prelude::*;

/// A routing header of a length between one that is copied with the rest and one that is not.
#[test]
fn checksums_are_right_deep_in_a_frame_or_it_is_dropped() {
    let mut rig = Rig::new(false);
    let six = Match::any().with(Field::EthType, 0x86dd, u128::MAX);
    rig.set(&[(1, six, &[Action::SetField(Field::Ipv6Src, 0), Action::SetField(Field::UdpDst, 9), output(2)])]);
    let behind = |nodes: u8| {
        let udp = [&[0, 1, 0, 2, 0, 58, 0, 0][..], &[7; 50]].concat();
        let routing = [&[17, 2 * nodes, 4, 0, 0, 0, 0, 0][..], &[3; 16].repeat(nodes.into())].concat();
        let len = (routing.len() + udp.len()) as u16;
        let mut frame = [&[2; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0], &len.to_be_bytes(), &[43, 64], &[5; 32]].concat();
        frame.extend([routing, udp].concat());
        let at = frame.len() - 58;
        let sum = checksum(&frame[22..54], &frame[at..]);
        frame[at + 6..at + 8].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    for nodes in 1..20 {
        let frame = behind(nodes);
        let at = frame.len() - 58;
        let out = rig.send(0, std::slice::from_ref(&frame), 100).swap_remove(1);
        let is_in_reach = at + 8 <= 256;
        assert_eq!(out.len(), usize::from(is_in_reach), "{nodes}");
        if is_in_reach {
            let sent = &out[0];
            assert_eq!((sent.len(), &sent[at + 2..at + 4]), (frame.len(), &[0, 9][..]));
            assert_eq!(checksum(&sent[22..54], &sent[at..]), 0, "{nodes}");
        } else {
            assert_eq!(rig.drops.named(), [("too-deep".to_owned(), 1)].into());
            rig.drops = Drops::default();
        }
    }
}

/// Computes the checksum of UDP over IPv6; it is zero if the right one is there.
fn checksum(addresses: &[u8], udp: &[u8]) -> u16 {
    packet::checksum::of(&[addresses, &[0, 17], &(udp.len() as u16).to_be_bytes(), udp].concat())
}

#[test]
fn the_longest_frame_takes_no_tag_and_changes_no_other_frame() {
    let mut rig = Rig::new(false);
    rig.set(&[(1, Match::any(), &[Action::PushVlan(0x8100), output(2)])]);
    let mut longest = udp(1, 200);
    longest.resize(packet::MAX_FRAME as usize, 0);
    assert_eq!(rig.send(0, &[longest, udp(1, 60)], 60)[1].len(), 1);
    assert_eq!(rig.dropped(), [(crate::drops::REASONS[Reason::TooLong as usize].0.into(), 1)]);
}

proptest! {
    /// However frames are cut, and whichever others are in the burst, each is rewritten as it would be in one piece.
    #[test]
    fn rewriting_does_not_mind_where_frames_are_cut(
        burst in prop::collection::vec((1u16..5, 60usize..300), 1..MAX_BURST),
        cut in 1u32..300,
    ) {
        let mut rig = Rig::new(false);
        let changes: [&[Action]; 4] = [
            &[],
            &[Action::PushVlan(0x8100), Action::SetField(Field::VlanVid, 0x1000 | 7)],
            &[Action::SetField(Field::Ipv4Dst, 0x0a00_0001), Action::SetField(Field::UdpDst, 9)],
            &[Action::SetField(Field::EthDst, 0x0200_0000_00aa)],
        ];
        let lists: Vec<Vec<Action>> = changes.iter().map(|list| [list, &[output(2)][..]].concat()).collect();
        let flows: Vec<_> = lists.iter().zip(1..).map(|(list, to)| (1, to_udp(to), &list[..])).collect();
        rig.set(&flows);
        let frames: Vec<_> = burst.iter().map(|&(to, len)| udp(to, len)).collect();
        let came = rig.send(0, &frames, cut).swap_remove(1);
        let wanted: Vec<_> = frames.iter().zip(&burst).map(|(frame, (to, _))| {
            Emission::all(1, &lists[usize::from(*to) - 1], frame).swap_remove(0).packet
        }).collect();
        prop_assert_eq!(came, wanted);
    }
}
