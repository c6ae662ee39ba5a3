//! ICMP (RFC 792).

use super::array;
use super::ethernet::{self, HEADER as ETHERNET};
use super::ipv4::{self, Header, MIN_HEADER};
use etherparse::icmpv4::{self, TYPE_ECHO_REPLY, TYPE_ECHO_REQUEST, TimeExceededCode};
use etherparse::{Icmpv4Header, Icmpv4Type, IpNumber};
use packet::MacAddr;
use packet::checksum::Change;
use std::net::Ipv4Addr;

/// Bytes of a header.
const HEADER: usize = Icmpv4Header::MIN_LEN;

/// Message types that are not errors: all others must not be answered with an error (RFC 1122 §3.2.2).
const NO_ERRORS: [u8; 8] = [
    TYPE_ECHO_REPLY,
    TYPE_ECHO_REQUEST,
    icmpv4::TYPE_ROUTER_ADVERTISEMENT,
    icmpv4::TYPE_ROUTER_SOLICITATION,
    icmpv4::TYPE_TIMESTAMP,
    icmpv4::TYPE_TIMESTAMP_REPLY,
    icmpv4::TYPE_ADDRESS,
    icmpv4::TYPE_ADDRESSREPLY,
];

/// Turns an echo request into its reply, between the same two neighbours. Returns false for any other packet. Does not
/// read the payload, which may be in other buffers: the updated checksum is correct if the request's was.
pub fn echo_in_place(frame: &mut [u8], header: &Header) -> bool {
    let at = header.payload();
    let is_request = header.protocol == IpNumber::ICMP
        && !header.is_fragment
        && header.total_len >= header.len + HEADER
        && frame.len() >= at + HEADER
        && frame[at..at + 2] == [TYPE_ECHO_REQUEST, 0];
    if !is_request {
        return false;
    }
    ethernet::swap_addresses(frame);
    ipv4::swap_addresses(frame);
    ipv4::set_ttl(frame, ipv4::TTL);
    let old: [u8; 2] = array(frame, at);
    frame[at] = TYPE_ECHO_REPLY;
    let sum = Change::between(&old, &frame[at..at + 2]).apply(u16::from_be_bytes(array(frame, at + 2)));
    frame[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
    true
}

/// Reports whether an error about the packet with this header may be sent: the packet is not an error itself, and has a
/// single sender and a single receiver (RFC 1812 §4.3.2.7).
pub fn may_be_answered(frame: &[u8], header: &Header) -> bool {
    let is_one = |ip: Ipv4Addr| !ip.is_multicast() && !ip.is_broadcast() && !ip.is_unspecified();
    let at = header.payload();
    let is_error = header.protocol == IpNumber::ICMP && frame.get(at).is_none_or(|kind| !NO_ERRORS.contains(kind));
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

/// Writes a time exceeded message about the packet in `original`, from `mac` and `ip` to its source. `frame` must be
/// [`time_exceeded_len`] bytes long.
pub fn write_time_exceeded(frame: &mut [u8], original: &[u8], header: &Header, mac: MacAddr, ip: Ipv4Addr) {
    let quoted = quoted(original, header);
    frame.fill(0);
    ethernet::write(frame, ethernet::source(original), mac, ethernet::IPV4);
    ipv4::write(frame, ip, header.source, IpNumber::ICMP, HEADER + quoted);
    let message = &mut frame[ETHERNET + MIN_HEADER..ETHERNET + MIN_HEADER + HEADER + quoted];
    let payload = &original[ETHERNET..ETHERNET + quoted];
    let kind = Icmpv4Type::TimeExceeded(TimeExceededCode::TtlExceededInTransit);
    message[..HEADER].copy_from_slice(&Icmpv4Header::with_checksum(kind, payload).to_bytes());
    message[HEADER..].copy_from_slice(payload);
}
