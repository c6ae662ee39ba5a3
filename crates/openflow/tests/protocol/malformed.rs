//! No input from controllers or packets causes a panic, and all answers are valid messages.

use crate::controller::{FlowMod, Rig, apply, instruction, matching, message, output, oxm, set_nfi};
use openflow::{Action, Field, Key, rewrite::Headers};
use proptest::prelude::*;

/// Valid messages of all kinds.
fn valid() -> Vec<Vec<u8>> {
    let fields = [
        oxm(0, false, &[0, 0, 0, 1]),
        oxm(5, false, &[8, 0]),
        oxm(10, false, &[6]),
        oxm(11, true, &[10, 0, 0, 0, 255, 0, 0, 0]),
        oxm(13, false, &[0, 80]),
    ];
    let set_field = [&[0, 25, 0, 16][..], &oxm(3, false, &[2; 6]), &[0, 0]].concat();
    let mut messages = Vec::new();
    for command in 0..5 {
        let mut change = FlowMod::new(command, 5, &fields);
        change.instructions = [
            apply(&[vec![0, 17, 0, 8, 0x81, 0, 0, 0], set_field.clone(), output(1)]),
            instruction(3, &[&[0; 4][..], &output(2)].concat()),
            instruction(5, &[0; 4]),
        ]
        .concat();
        messages.push(change.bytes());
        change.table = 16;
        change.matches = matching(&[oxm(6, false, &[0x10, 5])]);
        change.instructions = apply(&[set_nfi(3)]);
        messages.push(change.bytes());
    }
    let packet_out = [&[0xff; 4][..], &[0, 0, 0, 1, 0, 16, 0, 0, 0, 0, 0, 0], &output(1), &[0; 60]].concat();
    messages.push(message(13, 1, &packet_out));
    let filter = [&[0xff, 0, 0, 0][..], &[0xff; 8], &[0; 20], &matching(&fields)].concat();
    for (kind, body) in [(0, &[][..]), (1, &filter), (2, &filter), (3, &[]), (4, &[0xff; 8]), (12, &[]), (13, &[])] {
        messages.push(message(18, 1, &[&[0, kind, 0, 0, 0, 0, 0, 0][..], body].concat()));
    }
    for (kind, len) in [(0, 8), (2, 9), (5, 0), (7, 0), (9, 4), (17, 8), (20, 0), (22, 8), (24, 16), (26, 0)] {
        messages.push(message(kind, 1, &vec![0; len]));
    }
    messages.push(message(28, 1, &[0xff; 24]));
    // A group with a bucket, a meter with both kinds of bands, and a port that is taken down.
    let bucket = [&[0, 32, 0, 0][..], &[0xff; 8], &[0; 4], &output(1)].concat();
    messages.push(message(15, 1, &[&[0, 0, 0, 0, 0, 0, 0, 7][..], &bucket].concat()));
    let band = |kind: u8| [&[0, kind, 0, 16, 0, 0, 0, 9][..], &[0, 0, 0, 5, 1, 0, 0, 0]].concat();
    messages.push(message(29, 1, &[&[0, 0, 0, 6, 0, 0, 0, 7][..], &band(1), &band(2)].concat()));
    let down = [&[0, 0, 0, 1, 0, 0, 0, 0][..], &[2; 6], &[0; 2], &[0, 0, 0, 1, 0, 0, 0, 1], &[0; 8]].concat();
    messages.push(message(16, 1, &down));
    // A bundle that is opened, and all that another one can have.
    messages.push(bundle(2300, [1, 3], &[]));
    let added = messages.iter().filter(|added| [14, 15, 16, 29].contains(&added[1])).map(|added| {
        let mut inner = added.clone();
        inner[4..8].copy_from_slice(&[0, 0, 0, 1]);
        bundle(2301, [2, 3], &inner)
    });
    let added: Vec<_> = added.collect();
    messages.extend(added);
    messages
}

/// Builds a message about a bundle: its type, the first numbers, and the rest.
fn bundle(kind: u32, words: [u32; 2], rest: &[u8]) -> Vec<u8> {
    let words = [0x4f4e_4600, kind, words[0], words[1]].map(u32::to_be_bytes).concat();
    message(4, 1, &[&words[..], rest].concat())
}

#[test]
fn the_valid_ones_are_valid() {
    for valid in valid() {
        let mut rig = Rig::new();
        let id = rig.connect();
        let answers = rig.ask(id, &valid);
        // There are no queues; everything else is accepted.
        assert!(valid[1] == 22 || answers.iter().all(|answer| answer.kind != 1), "{valid:x?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0u8..31) {
        let mut rig = Rig::new();
        let id = rig.connect();
        let _ = rig.send(id, &message(kind, 1, &bytes));
        rig.take(id);
        let _ = rig.send(id, &bytes);
        rig.take(id);
        let _ = rig.switch.apply_relayed(&bytes, 0);
        let _ = openflow::aggregation::relayed(&bytes);
    }

    #[test]
    fn mutated_messages(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..5),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let valid = valid();
        let mut rig = Rig::new();
        let id = rig.connect();
        for pick in picks {
            let mut bytes = valid[pick.index(valid.len())].clone();
            for (at, value) in &changes {
                // Keep the length in the header, so that the rest is read.
                let at = at.index(bytes.len());
                if !(2..4).contains(&at) {
                    bytes[at] = *value;
                }
            }
            if let Some(cut) = &cut {
                bytes.truncate(8 + cut.index(bytes.len() - 7));
                let len = bytes.len() as u16;
                bytes[2..4].copy_from_slice(&len.to_be_bytes());
            }
            if rig.send(id, &bytes).is_err() {
                return Ok(());
            }
            rig.switch.expire(100_000);
            rig.take(id);
        }
        // The messages in the bundle take effect, or fail, and the channel still works.
        rig.ask(id, &bundle(2300, [2, 4 << 16 | 3], &[]));
        let answers = rig.ask(id, &message(20, 5, &[]));
        prop_assert_eq!(answers.last().map(|answer| (answer.kind, answer.xid)), Some((21, 5)));
    }

    #[test]
    fn random_packets(
        bytes in prop::collection::vec(any::<u8>(), 0..250), start in 0usize..5, field in 0usize..8, value in any::<u128>()
    ) {
        let mut packet = bytes;
        let starts: [&[u8]; 5] =
            [&[8, 0, 0x45], &[0x86, 0xdd, 0x60], &[0x81, 0, 0, 1, 8, 0], &[0x88, 0xa8], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 9, 0]];
        if let Some(to) = packet.get_mut(12..12 + starts[start].len()) {
            to.copy_from_slice(starts[start]);
        }
        let _ = Key::extract(&packet, 1, 0);
        let fields = [
            Field::EthDst, Field::VlanVid, Field::VlanPcp, Field::Ipv4Src, Field::Ipv6Dst, Field::TcpSrc, Field::UdpDst,
            Field::TunnelId,
        ];
        let mut headers = Headers::new(&packet, packet.len(), 0);
        for action in [
            Action::SetField(fields[field], value), Action::PopVlan, Action::PushVlan(0x8100),
            Action::SetField(fields[field], !value),
        ] {
            for _ in 0..2 {
                let done = headers.apply(&action, |at, room| room.copy_from_slice(&packet[at..at + room.len()]));
                prop_assert_eq!(done, Ok(()));
            }
        }
        prop_assert!(headers.taken() <= packet.len());
    }
}
