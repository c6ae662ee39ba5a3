//! Packets that do not fit into an aggregate to a next hop behind routers: fragmented, or answered as a router does.

use crate::table::key::network;
use packet::checksum::{self, Sum};
use packet::{ethertype, header_len, ip_protocol};

/// Flags and offset of fragments (RFC 791 §3.1).
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// Longest answer: the length that every IPv4 host takes (RFC 1812 §4.3.2.3), and the least MTU of IPv6 (RFC 4443 §2.4).
const LONGEST_V4: usize = 576;
const LONGEST_V6: usize = 1280;

/// Length of the header of an ICMP message.
const ICMP: usize = 8;

/// Treatment of a packet that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooLong {
    /// It is forwarded in fragments, each with the packet's Ethernet header (RFC 791 §3.2). All but the last have `len` bytes.
    Fragments {
        /// Bytes of a fragment.
        len: usize,
    },
    /// It is dropped, and a frame tells its sender which length fits.
    Answer,
    /// It is dropped, and nobody may be told.
    Silence,
}

/// Decides how to treat `frame`, which is longer than `longest` bytes, and replaces `out` by its fragments or the answer. An
/// answer comes from the address that the packet was for: the switch has none in its network.
pub fn treat(frame: &[u8], longest: usize, out: &mut Vec<u8>) -> TooLong {
    out.clear();
    let Some((ethertype, at)) = network(frame) else { return TooLong::Silence };
    let (link, packet) = frame.split_at(at.min(frame.len()));
    let mtu = longest.saturating_sub(at);
    let treatment = match ethertype {
        ethertype::IPV4 => ipv4(link, packet, mtu, out),
        ethertype::IPV6 => ipv6(link, packet, mtu, out),
        _ => None,
    };
    treatment.unwrap_or(TooLong::Silence)
}

fn ipv4(link: &[u8], packet: &[u8], mtu: usize, out: &mut Vec<u8>) -> Option<TooLong> {
    let header = packet.first_chunk::<{ header_len::IPV4 }>()?;
    let (len, total) = (usize::from(header[0] & 15) * 4, usize::from(u16::from_be_bytes([header[2], header[3]])));
    let fits = header_len::IPV4 <= len && len <= total && total <= packet.len();
    if header[0] >> 4 != 4 || !fits || checksum::of(&packet[..len]) != 0 {
        return None;
    }
    let cuts = u16::from_be_bytes([header[6], header[7]]) & DONT_FRAGMENT == 0;
    let write = if cuts { fragments } else { answer_v4 };
    write(link, &packet[..total], len, mtu, out)
}

/// Cuts an IPv4 packet with a header of `len` bytes.
fn fragments(link: &[u8], packet: &[u8], len: usize, mtu: usize, out: &mut Vec<u8>) -> Option<TooLong> {
    let (header, payload) = packet.split_at(len);
    // Offsets count eight bytes.
    let room = mtu.checked_sub(len)? & !7;
    let last = payload.len().div_ceil(8).checked_sub(1)?;
    let place = u16::from_be_bytes([packet[6], packet[7]]);
    if room == 0 || usize::from(place & OFFSET) + last > usize::from(OFFSET) {
        return None;
    }
    for (index, part) in payload.chunks(room).enumerate() {
        out.extend(link);
        let at = out.len();
        out.extend(header);
        let header = &mut out[at..];
        if index > 0 {
            leave_first_options(&mut header[header_len::IPV4..]);
        }
        let is_last = (index + 1) * room >= payload.len();
        let more = if is_last { place & MORE_FRAGMENTS } else { MORE_FRAGMENTS };
        let offset = (place & OFFSET) + (index * room / 8) as u16;
        header[2..4].copy_from_slice(&((len + part.len()) as u16).to_be_bytes());
        header[6..8].copy_from_slice(&(more | offset).to_be_bytes());
        header[10..12].fill(0);
        let sum = checksum::of(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        out.extend(part);
    }
    Some(TooLong::Fragments { len: link.len() + len + room })
}

/// Replaces the options that only the first fragment has, those without the copied flag (RFC 791 §3.1), by NOPs.
fn leave_first_options(options: &mut [u8]) {
    const END: u8 = 0;
    const NOP: u8 = 1;
    const COPIED: u8 = 0x80;
    let mut at = 0;
    while let Some(&kind) = options.get(at).filter(|&&kind| kind != END) {
        let len = if kind == NOP { 1 } else { options.get(at + 1).map_or(0, |&len| usize::from(len)) };
        let Some(option) = options.get_mut(at..at + len).filter(|_| len > 0) else { return };
        if kind & COPIED == 0 {
            option.fill(NOP);
        }
        at += len;
    }
}

/// Writes "fragmentation needed" (RFC 1191 §4), unless it must not be sent (RFC 1812 §4.3.2.7).
fn answer_v4(link: &[u8], packet: &[u8], len: usize, mtu: usize, out: &mut Vec<u8>) -> Option<TooLong> {
    let (source, destination) = (&packet[12..16], &packet[16..20]);
    let is_fragment = u16::from_be_bytes([packet[6], packet[7]]) & OFFSET != 0;
    // Requests and their answers are the types 0, 8 and 13 to 18; others are errors.
    let is_error = packet[9] == ip_protocol::ICMP && !matches!(packet.get(len), Some(0 | 8 | 13..=18));
    let is_one = |address: &[u8]| !matches!(address[0], 0 | 127 | 224..);
    if is_fragment || is_error || !is_one(source) || !is_one(destination) || is_for_group(link) {
        return None;
    }
    let quoted = &packet[..packet.len().min(LONGEST_V4 - header_len::IPV4 - ICMP)];
    put_back(link, out);
    let at = out.len();
    let total = (header_len::IPV4 + ICMP + quoted.len()) as u16;
    // Internetwork control, as routers do (RFC 1812 §4.3.2.5).
    out.extend([0x45, 0xc0]);
    out.extend(total.to_be_bytes());
    out.extend([0, 0, 0, 0, 64, ip_protocol::ICMP, 0, 0]);
    out.extend(destination);
    out.extend(source);
    let sum = checksum::of(&out[at..]);
    out[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    let at = out.len();
    out.extend([3, 4, 0, 0, 0, 0]);
    out.extend(u16::try_from(mtu).ok()?.to_be_bytes());
    out.extend(quoted);
    let sum = checksum::of(&out[at..]);
    out[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
    Some(TooLong::Answer)
}

/// Writes "packet too big" (RFC 4443 §3.2), unless it must not be sent (§2.4).
fn ipv6(link: &[u8], packet: &[u8], mtu: usize, out: &mut Vec<u8>) -> Option<TooLong> {
    let header = packet.first_chunk::<{ header_len::IPV6 }>()?;
    let (source, destination) = (&header[8..24], &header[24..40]);
    let is_error =
        header[6] == ip_protocol::ICMPV6 && packet.get(header_len::IPV6).is_some_and(|kind| kind & 0x80 == 0);
    let is_one = |address: &[u8]| address[0] != 0xff && address.iter().any(|byte| *byte != 0);
    if header[0] >> 4 != 6 || is_error || !is_one(source) || !is_one(destination) || is_for_group(link) {
        return None;
    }
    let quoted = &packet[..packet.len().min(LONGEST_V6 - header_len::IPV6 - ICMP)];
    put_back(link, out);
    let len = (ICMP + quoted.len()) as u16;
    out.extend([0x60, 0, 0, 0]);
    out.extend(len.to_be_bytes());
    out.extend([ip_protocol::ICMPV6, 64]);
    out.extend(destination);
    out.extend(source);
    let at = out.len();
    out.extend([2, 0, 0, 0]);
    out.extend(u32::try_from(mtu).ok()?.to_be_bytes());
    out.extend(quoted);
    let mut sum = Sum::new();
    sum.add(&header[8..40]);
    sum.add_word(len);
    sum.add_word(ip_protocol::ICMPV6.into());
    sum.add(&out[at..]);
    out[at + 2..at + 4].copy_from_slice(&sum.finish().to_be_bytes());
    Some(TooLong::Answer)
}

/// Reports whether a frame is for several stations, or claims to be from several.
fn is_for_group(link: &[u8]) -> bool {
    (link[0] | link[6]) & 1 == 1
}

/// Writes the Ethernet header of an answer.
fn put_back(link: &[u8], out: &mut Vec<u8>) {
    out.extend(&link[6..12]);
    out.extend(&link[..6]);
    out.extend(&link[header_len::MAC_ADDRESSES..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: [u8; 18] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0, 7, 8, 0];

    fn treated(frame: &[u8], longest: usize) -> (TooLong, Vec<u8>) {
        let mut out = vec![7; 5];
        let treatment = treat(frame, longest, &mut out);
        (treatment, out)
    }

    fn is_silent(frame: &[u8], longest: usize) -> bool {
        treated(frame, longest).0 == TooLong::Silence
    }

    fn v4(flags: u16, protocol: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let len = 20 + options.len();
        let mut header =
            vec![0x40 | (len / 4) as u8, 0, 0, 0, 0x12, 0x34, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        header[2..4].copy_from_slice(&((len + payload.len()) as u16).to_be_bytes());
        header[6..8].copy_from_slice(&flags.to_be_bytes());
        header.extend(options);
        let sum = checksum::of(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        [&LINK, &header[..], payload].concat()
    }

    #[test]
    fn fragments_are_reassembled_to_the_packet() {
        let payload: Vec<u8> = (0..3000u32).map(|at| (at * 7) as u8).collect();
        // A record route, which is not copied, and a stream id, which is.
        let options = [7, 3, 4, 1, 0x88, 4, 0, 9];
        for (place, longest) in [(0, 1000), (MORE_FRAGMENTS | 100, 1518), (5, 18 + 28 + 8)] {
            let frame = v4(place, ip_protocol::UDP, &options, &payload);
            let (TooLong::Fragments { len }, out) = treated(&frame, longest) else { panic!("no fragments") };
            let fragments: Vec<&[u8]> = out.chunks(len).collect();
            let mut together: Vec<u8> = Vec::new();
            for (index, fragment) in fragments.iter().enumerate() {
                let packet = &fragment[18..];
                assert!(fragment.len() <= longest && fragment[..18] == LINK && checksum::of(&packet[..28]) == 0);
                assert_eq!(usize::from(u16::from_be_bytes([packet[2], packet[3]])), packet.len());
                let word = u16::from_be_bytes([packet[6], packet[7]]);
                assert_eq!(usize::from(word & OFFSET), usize::from(place & OFFSET) + together.len() / 8);
                let is_last = index + 1 == fragments.len();
                assert_eq!(word & MORE_FRAGMENTS != 0, !is_last || place & MORE_FRAGMENTS != 0);
                assert_eq!(packet[20..28], if index == 0 { options } else { [1, 1, 1, 1, 0x88, 4, 0, 9] });
                together.extend(&packet[28..]);
            }
            assert_eq!(together, payload);
        }
        assert!(is_silent(&v4(0, 17, &[], &[0; 100]), 40), "no room for eight bytes");
        assert!(is_silent(&v4(OFFSET - 1, 17, &[], &[0; 100]), 60), "the end lies too far");
    }

    #[test]
    fn senders_of_unfragmentable_packets_are_answered() {
        let frame = v4(DONT_FRAGMENT, ip_protocol::TCP, &[], &[9; 1400]);
        let (TooLong::Answer, answer) = treated(&frame, 1318) else { panic!("no answer") };
        assert_eq!(answer.len(), 18 + 576);
        assert_eq!(answer[..18], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0, 7, 8, 0]);
        let (header, icmp) = answer[18..].split_at(20);
        assert_eq!((checksum::of(header), checksum::of(icmp)), (0, 0));
        assert_eq!((&header[12..16], &header[16..]), (&[10, 0, 0, 2][..], &[10, 0, 0, 1][..]));
        assert_eq!(
            (&icmp[..2], &icmp[6..8], &icmp[8..]),
            (&[3, 4][..], &1300u16.to_be_bytes()[..], &frame[18..18 + 548])
        );
        let mut v6 = vec![0; 40];
        (v6[0], v6[6], v6[23], v6[39]) = (0x60, ip_protocol::TCP, 1, 2);
        v6[4..6].copy_from_slice(&1400u16.to_be_bytes());
        v6.extend([9; 1400]);
        let mut frame = [&LINK[..16], &[0x86, 0xdd], &v6].concat();
        let (TooLong::Answer, answer) = treated(&frame, 1318) else { panic!("no answer") };
        assert_eq!(answer.len(), 18 + 1280);
        let (header, icmp) = answer[18..].split_at(40);
        assert_eq!((header[23], header[39], &icmp[..2], &icmp[4..8]), (2, 1, &[2, 0][..], &1300u32.to_be_bytes()[..]));
        let mut sum = Sum::new();
        sum.add(&header[8..]);
        sum.add_word(icmp.len() as u16);
        sum.add_word(58);
        sum.add(icmp);
        assert_eq!(sum.finish(), 0);
        // Errors, packets to groups, and packets without a single sender are not answered.
        for (at, byte) in [(18 + 8, 0xff), (18 + 24, 0xff), (18 + 23, 0), (0, 3)] {
            let before = std::mem::replace(&mut frame[at], byte);
            assert!(is_silent(&frame, 1318), "{at}");
            frame[at] = before;
        }
        frame[18 + 6] = ip_protocol::ICMPV6;
        frame[18 + 40] = 1;
        assert!(is_silent(&frame, 1318));
        frame[18 + 40] = 128;
        assert_eq!(treated(&frame, 1318).0, TooLong::Answer);
    }

    #[test]
    fn there_is_no_answer_where_it_would_harm() {
        let icmp = |kind| v4(DONT_FRAGMENT, ip_protocol::ICMP, &[], &[kind; 200]);
        assert!(is_silent(&icmp(3), 100));
        assert_eq!(treated(&icmp(8), 100).0, TooLong::Answer);
        assert!(is_silent(&v4(DONT_FRAGMENT | 1, 17, &[], &[0; 200]), 100));
        let mut arp = v4(DONT_FRAGMENT, 17, &[], &[0; 200]);
        arp[17] = 6;
        assert!(is_silent(&arp, 100));
        let mut wrong = v4(DONT_FRAGMENT, 17, &[], &[0; 200]);
        wrong[18 + 8] = 63;
        assert!(is_silent(&wrong, 100), "its checksum is wrong");
        let frame = v4(0, 17, &[], &[0; 200]);
        (0..frame.len()).for_each(|cut| drop(treated(&frame[..cut], 100)));
    }
}
