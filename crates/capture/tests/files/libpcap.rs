//! Verdicts on files are those of tcpdump: it reads as many packets, and refuses the same ones.

use crate::made::*;
use capture::{Error, Reader};
use proptest::prelude::*;
use std::io::Cursor;
use std::process::Command;

/// The end of reading a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// To its end.
    Whole,
    /// To where it is cut off.
    Cut,
    /// It is refused.
    Refused,
}

/// Returns how many packets tcpdump reads, and its verdict. (Of files that it refuses it may have read some.)
fn tcpdump(file: &[u8]) -> (usize, Verdict) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    std::fs::write(&path, file).unwrap();
    let output = Command::new("tcpdump").args(["-n", "-t", "-q", "--count", "-r"]).arg(path).output();
    let output = output.expect("tcpdump runs; it is in the Debian package tcpdump");
    let [counted, said] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let packets = counted.split_whitespace().next().map_or(0, |number| number.parse().unwrap());
    match said.lines().find(|line| line.starts_with("tcpdump: ")) {
        None => (packets, Verdict::Whole),
        // A file that ends within its own header, or before it says of what kind its packets are, is none.
        Some(why) if why.contains("truncated") && said.contains("reading from file") => (packets, Verdict::Cut),
        Some(_) => (0, Verdict::Refused),
    }
}

/// Returns how many packets this crate reads, and its verdict.
fn ours(file: &[u8]) -> (usize, Verdict) {
    let Ok(reader) = Reader::new(Cursor::new(file.to_vec())) else { return (0, Verdict::Refused) };
    let mut packets = 0;
    for packet in reader {
        match packet {
            Ok(_) => packets += 1,
            Err(Error::Cut(_)) => return (packets, Verdict::Cut),
            Err(_) => return (0, Verdict::Refused),
        }
    }
    (packets, Verdict::Whole)
}

fn order() -> impl Strategy<Value = Order> {
    any::<bool>().prop_map(|big| Order { big })
}

/// A length that is often that of a packet, and sometimes at a limit.
fn length() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0u32..130, 1 => Just(262_144), 1 => Just(262_145), 1 => Just(65_536)]
}

fn snapshot() -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(65_535u32), 1 => Just(0), 1 => Just(96), 1 => Just(u32::MAX)]
}

fn pcap_file() -> impl Strategy<Value = Vec<u8>> {
    let magic = prop_oneof![Just(0xa1b2_c3d4u32), Just(0xa1b2_3c4d), Just(0xa1b2_cd34), Just(0xa1b2_34cd)];
    let version = prop_oneof![
        6 => Just((2u16, 4u16)), 2 => Just((2, 3)), 1 => Just((2, 2)), 1 => Just((2, 0)), 1 => Just((543, 0)),
        1 => Just((2, 5)), 1 => Just((3, 0)),
    ];
    let packets = proptest::collection::vec((length(), length()), 0..6);
    (order(), magic, version, snapshot(), packets).prop_map(|(order, magic, version, snapshot, packets)| {
        let more = if magic == 0xa1b2_cd34 { 8 } else { 0 };
        let record = |(captured, original): (u32, u32)| {
            // Whether a reader takes the first field for the captured length.
            let first = version.0 == 2 && (version.1 >= 4 || (version.1 == 3 && captured <= original));
            let bytes = vec![0x11; if first { captured } else { original } as usize];
            order.record((1, 2), [captured, original], more, &bytes)
        };
        [order.header(magic, version, snapshot, 1), packets.into_iter().flat_map(record).collect()].concat()
    })
}

fn block(order: Order) -> impl Strategy<Value = Vec<u8>> {
    let bytes = proptest::collection::vec(Just(0x11u8), 0..130);
    let link = prop_oneof![9 => Just(1u16), 1 => Just(113)];
    let resolution = prop_oneof![4 => Just(6u8), 1 => 0u8..24, 1 => 0x80u8..=0xff];
    (0..12, link, snapshot(), resolution, 0u32..3, bytes).prop_map(
        move |(kind, link, snapshot, resolution, of, bytes)| match kind {
            0 => order.interface(link, snapshot, resolution),
            1 => order.section(),
            2 => Order { big: !order.big }.section(),
            3 => order.section_of(2, 0),
            4 => order.block(0x0bad, &bytes),
            5 => order.simple(bytes.len() as u32, &bytes),
            6 => order.simple(bytes.len() as u32 + 8, &bytes),
            7 => order.obsolete(of as u16, 7, &bytes),
            8 => order.snapped(of, 7, &bytes, 200),
            _ => order.packet(of / 2, 7, &bytes),
        },
    )
}

fn pcapng_file() -> impl Strategy<Value = Vec<u8>> {
    let start = |order: Order| [order.section(), order.interface(1, 65_535, 6)].concat();
    let later = |order: Order| {
        proptest::collection::vec(
            // Most interfaces are like the first one: a file with another is refused for that alone.
            prop_oneof![2 => block(order), 1 => Just(order.interface(1, 65_535, 9)), 1 => Just(order.packet(0, 7, &[1; 60]))],
            0..8,
        )
    };
    order().prop_flat_map(move |order| later(order).prop_map(move |blocks| [start(order), blocks.concat()].concat()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pcap_is_accepted_and_refused_as_by_tcpdump(file in pcap_file(), cut in any::<prop::sample::Index>()) {
        prop_assert_eq!(ours(&file), tcpdump(&file));
        let file = &file[..cut.index(file.len())];
        prop_assert_eq!(ours(file), tcpdump(file));
    }

    #[test]
    fn pcapng_is_accepted_and_refused_as_by_tcpdump(file in pcapng_file(), cut in any::<prop::sample::Index>()) {
        prop_assert_eq!(ours(&file), tcpdump(&file));
        let file = &file[..cut.index(file.len())];
        prop_assert_eq!(ours(file), tcpdump(file));
    }
}
