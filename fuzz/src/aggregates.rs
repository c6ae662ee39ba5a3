//! Any frame from a network: packets found in a frame lie in it, and do not overlap.

use arbitrary::Arbitrary;
use paflow::decode::{Piece, Tail, locate};
use paflow::neighbour::Station;
use paflow::octets::ByteRange;
use paflow::table::{Table, VlanTable, key};
use paflow::{Aggregate, Receiver};
use std::net::Ipv6Addr;

/// A frame, and the receiver's settings.
#[derive(Arbitrary, Debug)]
pub struct Input {
    frame: Vec<u8>,
    /// Valid headers before the frame: a fuzzer rarely guesses them.
    outer: Outer,
    verify: bool,
}

#[derive(Arbitrary, Debug)]
enum Outer {
    None,
    Ethernet,
    Udp,
    Arp,
    Solicitation,
}

/// Looks for an aggregate, and checks everything found.
pub fn run(input: &Input) {
    let mut frame = match input.outer {
        Outer::None => Vec::new(),
        Outer::Ethernet => ethernet(paflow::header::ETHERTYPE),
        Outer::Udp => udp(input.frame.len()),
        Outer::Arp => [ethernet(0x0806), vec![0, 1, 8, 0, 6, 4, 0, 1]].concat(),
        Outer::Solicitation => solicitation(&input.frame),
    };
    frame.extend_from_slice(&input.frame);
    let receiver = Receiver { verify: input.verify, ..Receiver::default() };
    let bytes = &frame[..];
    if let Ok(Some(found)) = receiver.find(bytes) {
        let ByteRange { start, end } = found.range;
        assert!(start <= end && end <= bytes.len(), "{found:?} in {} bytes", bytes.len());
        check(bytes, found.range, found.tail);
    }
    let whole = ByteRange { start: 0, end: bytes.len() };
    check(bytes, whole, Tail::Exact);
    check(bytes, whole, Tail::Padding);
    // Tables read the same bytes.
    let _ = Table::Vlan(Box::new(VlanTable::new())).next_hop(bytes);
    let _ = key::vni(bytes, key::VXLAN_PORT);
    let _ = paflow::receive::destination(bytes);
    let addresses = vec![[192, 0, 2, 1].into(), [0xfe80, 0, 0, 0, 0, 0, 0, 1].into()];
    let station = Station { mac: [2, 0, 0, 0, 0, 1].into(), addresses, vlans: vec![None, Some(7)] };
    if let Some(answer) = station.answer(bytes) {
        assert!((60..=90).contains(&answer.len()) && answer[6..12] == station.mac.0, "{:?}", &answer[..]);
        assert!(answer[0] & 1 == 0 || answer[..6] == [0x33, 0x33, 0, 0, 0, 1], "{:?}", &answer[..]);
    }
}

fn check(bytes: &[u8], range: ByteRange, tail: Tail) {
    let ByteRange { start, end } = range;
    let mut pieces = [Piece::default(); 256];
    let located = locate(bytes, range, tail, &mut pieces);
    let parsed = Aggregate::parse(&bytes[start..end], tail);
    let Ok(number) = located else { return };
    // Both ways to split it agree.
    let packets = parsed.expect("it was located").packets();
    assert_eq!(packets.len(), number);
    let mut at = start;
    for (piece, packet) in pieces[..number].iter().zip(packets) {
        let (from, to) = (piece.start as usize, piece.start as usize + usize::from(piece.len));
        assert!(at < from && to <= end, "{piece:?} is not behind {at}, or ends after {end}");
        assert_eq!(&bytes[from..to], packet);
        at = to;
    }
}

fn ethernet(ethertype: u16) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ethertype.to_be_bytes()].concat()
}

/// Returns valid IPv4 and UDP headers for `len` bytes, without checksums.
fn udp(len: usize) -> Vec<u8> {
    let len = len as u16;
    let mut frame = ethernet(0x0800);
    frame.extend([0x45, 0]);
    frame.extend((28 + len).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    for word in [50261, paflow::header::UDP_PORT, 8 + len, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame
}

/// Returns headers of a neighbour solicitation from fe80::9 for fe80::1 with these options and a valid checksum.
fn solicitation(options: &[u8]) -> Vec<u8> {
    let mut frame = ethernet(0x86dd);
    let address = |last| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last).octets();
    let len = (24 + options.len() as u16).to_be_bytes();
    let mut sum = packet::checksum::Sum::new();
    for part in [&address(9), &address(1), &len[..], &[0, 58, 135, 0, 0, 0], &[0; 4], &address(1), options] {
        sum.add(part);
    }
    let checksum = sum.finish().to_be_bytes();
    frame.extend([0x60, 0, 0, 0, len[0], len[1], 58, 255]);
    frame.extend(address(9));
    frame.extend(address(1));
    frame.extend([135, 0, checksum[0], checksum[1], 0, 0, 0, 0]);
    frame.extend(address(1));
    frame
}
