//! Routers on the way: their marks, and packets that may not leave unjoined.

use super::echo::{Echo, SMALL_BUFFERS};
use e2e::aggregate::by_hand;
use e2e::stream::{aggregation, behind, packet, with_hops};
use lab::Result;
use lab::millrace::config::*;
use packet::checksum;
use std::collections::BTreeMap;

/// The VLAN whose packets are joined.
const VID: u16 = 100;

/// Where the header of IPv4 is in a packet with a tag, and in the frame around packets.
const IP: usize = 18;
const OUTER_IP: usize = 14;

/// The congestion notification of RFC 3168.
const NOT_CAPABLE: u8 = 0;
const CAPABLE: u8 = 2;
const CONGESTED: u8 = 3;

/// Writes the traffic class to the IPv4 header at this place.
fn set_class(bytes: &mut [u8], at: usize, class: u8) {
    bytes[at + 1] = class;
    bytes[at + 10..at + 12].fill(0);
    let sum = checksum::of(&bytes[at..at + 20]);
    bytes[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
}

/// Returns a packet of IPv4.
fn ip_packet(number: u64, class: u8) -> Vec<u8> {
    let mut bytes = packet(0, number, &[VID]);
    bytes[16..18].copy_from_slice(&[8, 0]);
    bytes[IP] = 0x45;
    set_class(&mut bytes, IP, class);
    bytes
}

#[test]
fn a_routers_mark_is_passed_on() -> Result<()> {
    let mut echo = Echo::start(aggregation(0, &[]), &[])?;
    let no_ip = packet(0, 3, &[VID]);
    let mut frame = by_hand(&[ip_packet(1, CAPABLE), ip_packet(2, NOT_CAPABLE), no_ip.clone()]);
    let sent = [ip_packet(1, CAPABLE), ip_packet(2, NOT_CAPABLE), no_ip.clone()];
    echo.returns(&[&frame], &sent.each_ref())?;
    set_class(&mut frame, OUTER_IP, CONGESTED);
    echo.returns(&[&frame], &[&ip_packet(1, CONGESTED), &no_ip])?;
    assert_eq!(echo.testpmd.stats()?[0].rx_errors, 1);
    assert_eq!(echo.dropped()?, BTreeMap::from([("congested".to_owned(), 1)]));
    Ok(())
}

#[test]
fn packets_in_several_buffers_are_joined_behind_routers() -> Result<()> {
    let routed = |_, hop| RawNextHop { routed: true.into(), ..hop };
    let mut echo = Echo::start(behind(with_hops(aggregation(0, &[(VID, 1)]), routed), "left"), &SMALL_BUFFERS)?;
    let mut long = packet(0, 0, &[VID]);
    long.resize(600, 7);
    let others = packet(0, 1, &[VID + 1]);
    for _ in 0..50 {
        // The packet is the first and only one in its frame.
        let before = by_hand(&[]).len() + 2;
        echo.answers(&[&long], 1, |bytes| bytes.get(before..) == Some(&long))?;
        echo.returns(&[&others], &[&others])?;
    }
    let named = echo.testpmd.named_stats()?.swap_remove(0);
    assert_eq!([named["tx_aggregates"], named["tx_joined"], named["tx_dropped_too-long"]], [50, 50, 0], "{named:?}");
    assert_eq!(echo.dropped()?, BTreeMap::new());
    Ok(())
}
