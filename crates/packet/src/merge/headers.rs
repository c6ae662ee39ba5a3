//! The headers of a TCP segment, taken once: whether another segment continues it, and the headers of both as one message.

use crate::checksum::{self, Sum};
use crate::ethertype;
use crate::frame::{Cursor, Segment};
use crate::header_len::{IPV4, IPV6, TCP};
use crate::ip_protocol as protocol;
use crate::offload::{Cut, MIN_SEGMENT, Message, Offload, Offloads};
use crate::transport::{ethernet, read, word};

/// Bytes that are taken of a frame: more than the longest headers of a segment that is merged.
const TAKEN: usize = 128;

/// Flags of TCP, in byte 13 of its header (RFC 9293 §3.1, RFC 3168 §6.1).
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;

/// Don't Fragment, the only flag of IPv4 that a segment may have (RFC 791).
const DF: u16 = 0x4000;

/// What a frame is to those that are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No TCP: it belongs to no flow.
    Other,
    /// Perhaps a part of any flow.
    Unclear,
    /// A segment, whose headers were taken.
    Segment,
}

/// The headers of a segment.
#[derive(Clone)]
pub(super) struct Headers {
    bytes: [u8; TAKEN],
    /// Where the IP header begins, and the TCP header; and where that ends.
    ip: u8,
    start: u8,
    end: u8,
    is_v6: bool,
    /// Bytes of payload; zero if this is no segment.
    pub(super) payload: u32,
}

impl Default for Headers {
    fn default() -> Self {
        Headers { bytes: [0; TAKEN], ip: 0, start: 0, end: 0, is_v6: false, payload: 0 }
    }
}

impl Headers {
    /// Takes those of a frame of `len` bytes, which lies in these segments.
    #[inline]
    pub(super) fn take<'a>(&mut self, frame: impl Iterator<Item = Segment<'a>>, len: u32) -> Kind {
        self.payload = 0;
        let mut filled = 0;
        for segment in frame {
            filled += segment.copy_to(&mut self.bytes[filled..]);
            if filled == TAKEN {
                break;
            }
        }
        let Some((ethertype, ip)) = ethernet(&self.bytes[..filled], 0) else { return Kind::Unclear };
        match ethertype {
            ethertype::IPV4 => self.take_v4(ip, filled, len as usize),
            ethertype::IPV6 => self.take_v6(ip, filled, len as usize),
            _ => Kind::Other,
        }
    }

    fn take_v4(&mut self, ip: usize, filled: usize, len: usize) -> Kind {
        let Some(header) = read::<IPV4>(&self.bytes[..filled], ip) else { return Kind::Unclear };
        if header[9] != protocol::TCP {
            return Kind::Other;
        }
        let is_plain = header[0] == 0x45 && u16::from_be_bytes([header[6], header[7]]) & !DF == 0;
        let end = ip + usize::from(u16::from_be_bytes([header[2], header[3]]));
        if is_plain && end <= len { self.take_tcp(ip, ip + IPV4, end, filled) } else { Kind::Unclear }
    }

    fn take_v6(&mut self, ip: usize, filled: usize, len: usize) -> Kind {
        let Some(header) = read::<IPV6>(&self.bytes[..filled], ip) else { return Kind::Unclear };
        match header[6] {
            protocol::TCP => {}
            protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::DESTINATION_OPTIONS
            | protocol::AUTHENTICATION => return Kind::Unclear,
            _ => return Kind::Other,
        }
        let end = ip + IPV6 + usize::from(u16::from_be_bytes([header[4], header[5]]));
        if header[0] >> 4 == 6 && end <= len { self.take_tcp(ip, ip + IPV6, end, filled) } else { Kind::Unclear }
    }

    /// Takes the TCP header of a packet that ends at `packet_end`.
    fn take_tcp(&mut self, ip: usize, start: usize, packet_end: usize, filled: usize) -> Kind {
        let Some([offset]) = read(&self.bytes[..filled], start + 12) else { return Kind::Unclear };
        let len = usize::from(offset >> 4) * 4;
        let end = start + len;
        if len < TCP || end > filled || end > packet_end {
            return Kind::Unclear;
        }
        // They are less than TAKEN.
        (self.ip, self.start, self.end) = (ip as u8, start as u8, end as u8);
        self.is_v6 = start - ip == IPV6;
        self.payload = (packet_end - end) as u32;
        Kind::Segment
    }

    /// Returns the bytes up to the payload.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.end)]
    }

    fn link(&self) -> &[u8] {
        &self.bytes[..usize::from(self.ip)]
    }

    fn network(&self) -> &[u8] {
        &self.bytes[usize::from(self.ip)..usize::from(self.start)]
    }

    fn transport(&self) -> &[u8] {
        &self.bytes[usize::from(self.start)..usize::from(self.end)]
    }

    fn addresses(&self) -> &[u8] {
        &self.network()[if self.is_v6 { 8 } else { 12 }..]
    }

    fn flags(&self) -> u8 {
        self.transport()[13]
    }

    fn sequence(&self) -> u32 {
        let transport = self.transport();
        u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]])
    }

    fn id(&self) -> u16 {
        let network = self.network();
        u16::from_be_bytes([network[4], network[5]])
    }

    /// Returns the length of all headers but Ethernet's.
    pub(super) fn in_packet(&self) -> u32 {
        u32::from(self.end - self.ip)
    }

    /// Returns what a receiver of the message must be able to do.
    #[inline]
    pub(super) fn needs(&self) -> Offloads {
        Offloads::CHECKSUM | if self.is_v6 { Offloads::TCP6 } else { Offloads::TCP4 }
    }

    /// Reports whether both are of one connection and direction, on one way.
    #[inline]
    pub(super) fn is_flow_of(&self, other: &Headers) -> bool {
        self.transport()[..4] == other.transport()[..4]
            && self.is_v6 == other.is_v6
            && self.link() == other.link()
            && self.addresses() == other.addresses()
    }

    /// Reports whether it may be merged: it has payload and says nothing but that.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.flags() & !(FIN | PSH | ECE) == ACK && self.payload > 0
    }

    /// Reports whether nothing may come behind it in a message.
    #[inline]
    pub(super) fn is_last(&self) -> bool {
        self.flags() & (FIN | PSH) != 0
    }

    /// Reports whether a message may begin with it.
    #[inline]
    pub(super) fn may_begin(&self) -> bool {
        self.is_plain() && !self.is_last() && self.payload >= MIN_SEGMENT.into()
    }

    /// Reports whether it, a segment of the same flow, says the same as `first`, the first of a message of so many segments and bytes
    /// of payload, and continues it.
    pub(super) fn continues(&self, first: &Headers, segments: u16, payload: u32) -> bool {
        let (ip, was) = (self.network(), first.network());
        let is_same_packet = if self.is_v6 {
            // Traffic class and flow label, hop limit.
            ip[..4] == was[..4] && ip[7] == was[7]
        } else {
            let is_next = self.id() == first.id().wrapping_add(segments);
            // The number of a packet that nobody may divide means nothing (RFC 6864).
            let is_unused = word(ip, 6) == Some(DF) && self.id() == first.id();
            ip[1] == was[1] && ip[6..9] == was[6..9] && (is_next || is_unused)
        };
        let (tcp, was) = (self.transport(), first.transport());
        is_same_packet
            && tcp.len() == was.len()
            // The acknowledged number; the offset and reserved flags.
            && tcp[8..13] == was[8..13]
            && (tcp[13] ^ was[13]) & !(FIN | PSH) == 0
            && tcp[14..16] == was[14..16]
            && tcp[18..] == was[18..]
            && self.sequence() == first.sequence().wrapping_add(payload)
            && self.payload <= first.payload
    }

    /// Returns the sum of the pseudo-header of a packet with so much payload.
    fn pseudo(&self, payload: u32) -> Sum {
        let mut sum = Sum::new();
        sum.add(self.addresses());
        sum.add_word(protocol::TCP.into());
        // A packet has less than 64 KB.
        sum.add_word((self.transport().len() as u32 + payload) as u16);
        sum
    }

    /// Reports whether the checksums are right. The payload lies behind the headers in these segments.
    pub(super) fn is_intact<'a>(&self, frame: impl Iterator<Item = Segment<'a>> + Clone) -> bool {
        if !self.is_v6 && checksum::of(self.network()) != 0 {
            return false;
        }
        let mut sum = self.pseudo(self.payload);
        sum.add(self.transport());
        self.payload(frame).for_each(|piece| piece.add_to(&mut sum));
        sum.finish() == 0
    }

    /// Returns the payload, of a frame that lies in these segments.
    #[inline]
    pub(super) fn payload<'a, I: Iterator<Item = Segment<'a>> + Clone>(
        &self,
        frame: I,
    ) -> impl Iterator<Item = Segment<'a>> + use<'a, I> {
        let mut at = Cursor::new(frame);
        at.skip(self.end.into());
        at.take(self.payload)
    }

    /// Makes these the headers of a message with so much payload, which ends with these flags. Returns its
    /// description.
    pub(super) fn lead(&mut self, payload: u32, end: u8) -> Offload {
        let size = self.payload as u16;
        let pseudo = !self.pseudo(payload).finish();
        let packet = self.in_packet() + payload;
        let (ip, start) = (usize::from(self.ip), usize::from(self.start));
        if self.is_v6 {
            self.put(ip + 4, (packet - IPV6 as u32) as u16);
        } else {
            self.put(ip + 2, packet as u16);
            self.put(ip + 10, 0);
            let checksum = checksum::of(self.network());
            self.put(ip + 10, checksum);
        }
        self.bytes[start + 13] |= end;
        self.put(start + 16, pseudo);
        let message = if self.is_v6 { Message::Tcp6 } else { Message::Tcp4 };
        let cut = Cut { message, size, start: self.start, header: self.end - self.start, ecn: false };
        Offload::cut(cut).expect("a message begins with such a segment")
    }

    /// Returns the flags that a message gets from the segment that ends it.
    pub(super) fn ends_with(&self) -> u8 {
        self.flags() & (FIN | PSH)
    }

    fn put(&mut self, at: usize, word: u16) {
        self.bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
    }
}
