//! ICMP (RFC 792).

use super::ethernet::{self, HEADER as ETHERNET, MacAddr};
use super::ipv4::{self, Header, MIN_HEADER};
use super::{checksum, update_checksum, word};
use std::net::Ipv4Addr;

/// Bytes of a header.
const HEADER: usize = 8;

/// Message types.
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;

/// Message types that are not errors: all others must not be answered with an error (RFC 1122 §3.2.2).
const NO_ERRORS: [u8; 8] = [ECHO_REPLY, ECHO_REQUEST, 9, 10, 13, 14, 17, 18];

/// Turns an echo request into its reply, between the same two neighbours. Returns false for any other packet. Does not
/// read the payload, which may be in other buffers: the updated checksum is correct if the request's was.
pub fn echo_in_place(frame: &mut [u8], header: &Header) -> bool {
    let at = header.payload();
    let is_request = header.protocol == ipv4::ICMP
        && !header.is_fragment
        && header.total_len >= header.len + HEADER
        && frame.len() >= at + HEADER
        && frame[at..at + 2] == [ECHO_REQUEST, 0];
    if !is_request {
        return false;
    }
    ethernet::swap_addresses(frame);
    ipv4::swap_addresses(frame);
    ipv4::set_ttl(frame, ipv4::TTL);
    let old = word(frame, at);
    frame[at] = ECHO_REPLY;
    let sum = update_checksum(word(frame, at + 2), old, word(frame, at));
    frame[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
    true
}

/// Reports whether an error about the packet with this header may be sent: the packet is not an error itself, and has a
/// single sender and a single receiver (RFC 1812 §4.3.2.7).
pub fn may_be_answered(frame: &[u8], header: &Header) -> bool {
    let is_one = |ip: Ipv4Addr| !ip.is_multicast() && !ip.is_broadcast() && !ip.is_unspecified();
    let at = header.payload();
    let is_error = header.protocol == ipv4::ICMP && frame.get(at).is_none_or(|kind| !NO_ERRORS.contains(kind));
    !is_error
        && !header.is_later_fragment
        && !ethernet::destination(frame).is_group()
        && is_one(header.source)
        && is_one(header.destination)
        && !header.source.is_loopback()
}

/// Returns the length of the frame that [`write_time_exceeded`] writes about the packet with this header.
pub fn time_exceeded_len(frame: &[u8], header: &Header) -> usize {
    (ETHERNET + MIN_HEADER + HEADER + quoted(frame, header)).max(ethernet::MIN_FRAME)
}

/// Returns the number of bytes to quote: the header and the first eight bytes of the payload, which identify the
/// connection, as far as they exist.
fn quoted(frame: &[u8], header: &Header) -> usize {
    (header.len + 8).min(header.total_len).min(frame.len() - ETHERNET)
}

/// Writes a time exceeded message about the packet in `original`, from `(mac, ip)` to its source. `frame` must be
/// [`time_exceeded_len`] bytes long.
pub fn write_time_exceeded(frame: &mut [u8], original: &[u8], header: &Header, (mac, ip): (MacAddr, Ipv4Addr)) {
    let quoted = quoted(original, header);
    frame.fill(0);
    ethernet::write(frame, ethernet::source(original), mac, ethernet::IPV4);
    ipv4::write(frame, ip, header.source, ipv4::ICMP, HEADER + quoted);
    let message = &mut frame[ETHERNET + MIN_HEADER..ETHERNET + MIN_HEADER + HEADER + quoted];
    message[0] = TIME_EXCEEDED;
    message[HEADER..].copy_from_slice(&original[ETHERNET..ETHERNET + quoted]);
    let sum = checksum(message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}
