//! The addresses of an IPv6 header that the checksums behind it cover: an extension header may hold another one that counts.

use crate::keys::{Offsets, skip};
use packet::header_len::IPV6;
use packet::ip_protocol::{DESTINATION_OPTIONS, ROUTING};

/// Option with a mobile node's home address (RFC 6275 §6.3).
const HOME_ADDRESS: u8 = 201;

/// Option that is a single byte, without a length (RFC 8200 §4.2).
const PAD1: u8 = 0;

/// Reports whether the destination of the IPv6 header is the one that counts. It is not on the way to other nodes of a routing
/// header, whose last address counts (RFC 8200 §8.1).
pub(super) fn has_destination(packet: &[u8], offsets: &Offsets) -> bool {
    // Its fourth byte is the number of nodes that are left, in all types of the header (RFC 8200 §4.4).
    !has(packet, offsets, |kind, header| kind == ROUTING && header[3] > 0)
}

/// Reports whether the source of the IPv6 header is the one that counts. It is not if a mobile node tells its home address
/// (RFC 6275 §11.3.1).
pub(super) fn has_source(packet: &[u8], offsets: &Offsets) -> bool {
    !has(packet, offsets, |kind, header| kind == DESTINATION_OPTIONS && has_home_address(&header[2..]))
}

/// Reports whether `is_it` is true of an extension header.
fn has(packet: &[u8], offsets: &Offsets, is_it: impl Fn(u8, &[u8]) -> bool) -> bool {
    let mut found = false;
    skip(packet, offsets.network + IPV6, packet[offsets.network + 6], |kind, header| found |= is_it(kind, header));
    found
}

fn has_home_address(mut options: &[u8]) -> bool {
    loop {
        match *options {
            [HOME_ADDRESS, ..] => return true,
            [PAD1, ref rest @ ..] => options = rest,
            [_, len, ref rest @ ..] => options = rest.get(len.into()..).unwrap_or_default(),
            _ => return false,
        }
    }
}
