//! The functions as C calls them.

use paflow::Piece;
use paflow::decode::MOST;
use paflow_abi::abi::*;
use paflow_abi::join::{Group, Join, Kind};
use paflow_abi::rules::PortRules;
use std::ffi::{CStr, CString};
use std::ptr::null_mut;

const TEXT: &str = "[aggregation]\nmac = '02:00:00:00:01:01'\naddresses = ['192.0.2.1']\n\
    [[aggregation.next-hop]]\nnfi = 7\nmac = '02:00:00:00:01:02'\nip = '192.0.2.2'\n\
    [[aggregation.next-hop]]\nnfi = 8\nmac = '02:00:00:00:01:03'\nip = '192.0.2.3'\nport = 'other'\n\
    [[aggregation.flow]]\nsc = 100\nnfi = 7\n[[aggregation.flow]]\nsc = 200\nnfi = 8\n";

const NOTHING: [u8; 0] = [];

/// Loads the rules in `text` for a port; an error if they are wrong, cut to `room` bytes.
fn load(text: &str, port: &str, room: usize) -> Result<Box<PortRules>, String> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.toml");
    std::fs::write(&file, text).unwrap();
    let [file, port] = [file.to_str().unwrap(), port].map(|text| CString::new(text).unwrap());
    let mut error = vec![0x55_u8; room + 1];
    // SAFETY: these are strings, and there is as much room.
    let rules = unsafe { paflow_rules_load(file.as_ptr(), port.as_ptr(), error.as_mut_ptr().cast(), room) };
    assert_eq!(error[room], 0x55, "it wrote beyond the room");
    if rules.is_null() {
        return Err(CStr::from_bytes_until_nul(&error).unwrap().to_str().unwrap().to_owned());
    }
    // SAFETY: the rules are boxed, and only this owns them.
    Ok(unsafe { Box::from_raw(rules) })
}

/// Returns a packet of a VLAN, all of whose payload is `fill`.
fn packet(vid: u16, len: usize, fill: u8) -> Vec<u8> {
    let mut bytes = vec![fill; len];
    bytes[12..14].copy_from_slice(&[0x81, 0]);
    bytes[14..16].copy_from_slice(&vid.to_be_bytes());
    bytes
}

fn views(packets: &[Vec<u8>]) -> Vec<Packet> {
    let view =
        |bytes: &Vec<u8>| Packet { bytes: bytes.as_ptr(), there: bytes.len() as u32, length: bytes.len() as u32 };
    packets.iter().map(view).collect()
}

/// Plans packets; returns the groups and the order.
fn plan(rules: &PortRules, packets: &[Packet]) -> (Vec<Group>, Vec<u16>) {
    let join = paflow_join_new();
    let none = Group { kind: 9, length: 9, first: 9, count: 9, next_hop: 9, only_joined: 9 };
    let (mut groups, mut order) = (vec![none; packets.len()], vec![999; packets.len()]);
    let count = packets.len() as u16;
    // SAFETY: the arrays are as long, and the packets are there.
    let found = unsafe {
        let join: &mut Join = &mut *join;
        paflow_plan(join, rules, packets.as_ptr(), count, order.as_mut_ptr(), groups.as_mut_ptr())
    };
    groups.truncate(found.into());
    // SAFETY: it is from there, and not used any more.
    unsafe { paflow_join_free(join) };
    (groups, order)
}

fn write(rules: &PortRules, group: &Group, packets: &[Packet], order: &[u16], room: usize) -> Vec<u8> {
    let mut out = vec![0; room];
    let count = packets.len() as u16;
    // SAFETY: the arrays are as long, and the packets are there.
    let len = unsafe { paflow_write(rules, group, packets.as_ptr(), order.as_ptr(), count, out.as_mut_ptr(), room) };
    out.truncate(len);
    out
}

fn split(rules: &PortRules, frame: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut pieces = [Piece::default(); MOST];
    let mut congested = 9;
    // SAFETY: they are as long.
    let found = unsafe { paflow_split(rules, frame.as_ptr(), frame.len(), pieces.as_mut_ptr(), &mut congested) };
    assert_eq!(congested, u8::from(found > 0 && frame[15] & 3 == 3), "the mark of the outer header");
    if found < 0 {
        // SAFETY: names are strings.
        return Err(unsafe { CStr::from_ptr(paflow_reason(-found)) }.to_str().unwrap().to_owned());
    }
    let bytes = |piece: &Piece| frame[piece.start as usize..][..usize::from(piece.len)].to_vec();
    Ok(pieces[..found as usize].iter().map(bytes).collect())
}

#[test]
fn joined_packets_are_split_at_the_other_end() {
    let rules = load(TEXT, "own", 100).unwrap();
    let other = TEXT.replace("addresses = ['192.0.2.1']", "addresses = ['192.0.2.9']");
    let other = load(&other.replace("'192.0.2.2'", "'192.0.2.1'"), "own", 100).unwrap();
    assert_eq!((paflow_rules_mtu(&rules), paflow_rules_next_hops(&rules)), (1500, 1));
    let packets: Vec<_> =
        (0..60).map(|number| packet([100, 200, 300][number % 3], 60 + number, number as u8)).collect();
    let views = views(&packets);
    let (groups, order) = plan(&other, &views);
    let mut seen = order.clone();
    seen.sort_unstable();
    assert!(seen.iter().copied().eq(0..60), "{order:?}");
    let mut next = 0;
    for group in &groups {
        assert_eq!(group.first, next);
        next += group.count;
        let members = order[usize::from(group.first)..usize::from(next)].iter();
        let wanted: Vec<_> = members.map(|index| packets[usize::from(*index)].clone()).collect();
        if group.kind == Kind::Alone as u32 {
            assert_eq!(wanted.len(), 1);
            continue;
        }
        assert_eq!((group.kind, wanted[0][15]), (Kind::Joined as u32, 100), "{group:?}");
        let frame = write(&other, group, &views, &order, group.length as usize);
        assert_eq!(frame.len(), group.length as usize);
        assert_eq!(split(&rules, &frame).unwrap(), wanted);
        assert_eq!(split(&other, &frame).unwrap(), Vec::<Vec<u8>>::new(), "it is for another address");
        assert_eq!(write(&other, group, &views, &order, frame.len() - 1), NOTHING, "there is no room");
        let beyond = Group { first: 59, ..*group };
        assert_eq!(write(&other, &beyond, &views, &order, 2000), NOTHING, "the order is not as long");
        assert_eq!(write(&other, &Group { next_hop: 2, ..*group }, &views, &order, 2000), NOTHING);
        let wrong = |at: usize| {
            let mut wrong = frame.clone();
            wrong[at] ^= 0x40;
            split(&rules, &wrong).unwrap_err()
        };
        assert_eq!([42, 43, 22].map(wrong), ["unknown-version", "unknown-type", "bad-ip-checksum"]);
    }
    assert_eq!(usize::from(next), packets.len());
    assert!(groups.iter().any(|group| group.count > 5));
}

#[test]
fn a_routers_mark_is_for_each_packet_or_drops_it() {
    let marked = |class: u8| {
        let mut bytes = packet(100, 60, 0);
        bytes[16..20].copy_from_slice(&[8, 0, 0x45, class]);
        // SAFETY: the packet is as long.
        let found = unsafe { paflow_mark(bytes.as_mut_ptr(), bytes.len()) };
        (found, bytes[19])
    };
    assert_eq!([0, 1, 2, 3, 0xb9].map(marked), [(-1, 0), (0, 3), (0, 3), (0, 3), (0, 0xbb)]);
    let (mut no_ip, same) = (packet(100, 60, 7), packet(100, 60, 7));
    // SAFETY: as above.
    assert_eq!((unsafe { paflow_mark(no_ip.as_mut_ptr(), no_ip.len()) }, no_ip), (0, same));
}

#[test]
fn a_packet_in_pieces_or_of_an_unknown_chain_is_not_joined() {
    let text = TEXT.replacen("[[aggregation.next", "unknown-chains = 'drop'\n[[aggregation.next", 1);
    let rules = load(&text, "own", 300).unwrap();
    let packets = [packet(100, 60, 1), packet(100, 60, 2), packet(100, 60, 3), packet(300, 60, 4)];
    let mut views = views(&packets);
    views[1].length = 90;
    let (groups, order) = plan(&rules, &views);
    // Order is kept: packets that come after the one in pieces leave after it.
    assert_eq!(order, [0, 1, 2, 3]);
    let kinds: Vec<_> = groups.iter().map(|group| group.kind).collect();
    assert_eq!(kinds, [Kind::Alone, Kind::Alone, Kind::Alone, Kind::UnknownChain].map(|kind| kind as u32));
    assert_eq!(plan(&rules, &[]).0.len(), 0);
    assert_eq!(plan(&rules, &[views[0]; 257]).0.len(), 0, "too many");
}

#[test]
fn errors_are_written_to_the_callers_buffer() {
    let error = load(&TEXT.replace("sc = 100", "sc = 5000"), "own", 4000).unwrap_err();
    assert!(error.contains("a.toml:14:6: `sc` cannot be 5000; give a number from 1 to 4094"), "{error}");
    assert_eq!(load("", "own", 2).unwrap_err().len(), 1);
    assert_eq!(load("= ü", "own", 1).unwrap_err(), "");
    assert!(load(TEXT, "own", 0).is_ok());
    // SAFETY: null is nothing.
    unsafe {
        paflow_rules_free(null_mut());
        paflow_join_free(null_mut());
    }
}
