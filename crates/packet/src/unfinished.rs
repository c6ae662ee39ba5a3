//! Transport checksums that a sender left to hardware: recognised and finished.
//!
//! The kernel leaves the checksum of a frame to the network card (`CHECKSUM_PARTIAL`): the field holds the sum of the
//! pseudo-header, and a note beside the frame says so. On a veth pair there is no card, and programs that bypass the kernel's
//! network stack do not get the note. Such a frame is then recognised by its field. A peer on virtio can likewise send frames
//! whose checksums it did not compute.

use crate::checksum::{Sum, never_zero};
use crate::crc32c::Crc;
use crate::ethertype;
use crate::frame::{Cursor, Segment};
use crate::header_len::UDP;
use crate::ip_protocol as protocol;
use crate::transport::{Transport, ethernet, read, word};

/// Bytes of a frame that are searched for headers.
const SEARCHED: usize = 192;

/// Most IP headers that are parsed: so two tunnels are skipped.
const NESTED: usize = 3;

/// UDP ports of VXLAN (RFC 7348; Linux's own default) and of Geneve (RFC 8926).
const VXLAN: [u16; 2] = [4789, 8472];
const GENEVE: u16 = 6081;

/// Flags of a GRE header (RFC 2890) that has a checksum, a key, a sequence number: of 4 bytes each.
const GRE_CHECKSUM: u16 = 0x8000;
const GRE_OPTIONS: [u16; 3] = [GRE_CHECKSUM, 0x2000, 0x1000];

/// Offset of the checksum in a header of SCTP, which is a CRC-32C (RFC 9260 §3.1). No other protocol has one there.
const SCTP_FIELD: usize = 8;

/// The bytes of a checksum field to be written over those of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Offset in the frame.
    pub at: u32,
    bytes: [u8; 4],
    len: u8,
}

impl Patch {
    fn new(at: usize, field: &[u8]) -> Patch {
        let mut bytes = [0; 4];
        bytes[..field.len()].copy_from_slice(field);
        Patch { at: at as u32, bytes, len: field.len() as u8 }
    }

    /// Returns the bytes: two, or four of SCTP.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Writes the bytes to `frame`.
    pub fn apply(&self, frame: &mut [u8]) {
        let field = frame.get_mut(self.at as usize..).and_then(|rest| rest.get_mut(..self.bytes().len()));
        if let Some(field) = field {
            field.copy_from_slice(self.bytes());
        }
    }
}

/// Finishes the checksum of a frame that the kernel left unfinished, without being told. A TCP or UDP checksum that equals the sum of its
/// pseudo-header is one, unless it is right; of SCTP and GRE, one of zero. Also finds it in a tunnel: VXLAN, Geneve, GRE, IP in IP.
///
/// A frame that was damaged on its way is taken for such a one if its checksum happens to be that sum: one of 65536.
pub fn recognise<'a>(frame: impl Iterator<Item = Segment<'a>> + Clone) -> Option<Patch> {
    let mut room = [0; SEARCHED];
    let (head, len) = search(frame.clone(), &mut room);
    let mut layer = ethernet(head, 0);
    for _ in 0..NESTED {
        let (ethertype, at) = layer?;
        let transport = Transport::find(head, ethertype, at, len)?;
        if let Some(patch) = transport.field(head).and_then(|field| field.finish(frame.clone())) {
            return Some(patch);
        }
        layer = transport.tunnelled(head);
    }
    None
}

/// Computes the TCP, UDP or SCTP checksum of a frame whose sender says that its payload is intact, but may have computed none
/// (`VIRTIO_NET_HDR_F_DATA_VALID`, virtio 1.2 §5.1.6.4.1). `None` if there is none, or if it is right.
pub fn renew<'a>(frame: impl Iterator<Item = Segment<'a>> + Clone) -> Option<Patch> {
    let mut room = [0; SEARCHED];
    let (head, len) = search(frame.clone(), &mut room);
    let (ethertype, at) = ethernet(head, 0)?;
    Transport::find(head, ethertype, at, len)?.field(head)?.renew(frame)
}

/// Finishes the checksum that covers a frame from `start` on, whose field is at `offset` from there and holds the sum of the
/// pseudo-header: as `VIRTIO_NET_HDR_F_NEEDS_CSUM` asks (virtio 1.2 §5.1.6.2). `None` if the frame has no such field.
pub fn as_asked<'a>(frame: impl Iterator<Item = Segment<'a>> + Clone, start: usize, offset: usize) -> Option<Patch> {
    let len: usize = frame.clone().map(|segment| segment.len() as usize).sum();
    let at = start + offset;
    if offset == SCTP_FIELD {
        return (at + 4 <= len).then(|| Patch::new(at, &crc(frame, start, len - start, at)));
    }
    (at + 2 <= len).then(|| Patch::new(at, &never_zero(sum(frame, start, len - start).finish()).to_be_bytes()))
}

/// Copies the part of a frame that has its headers into `room`. Returns it, and the frame's length.
fn search<'a, 'r>(frame: impl Iterator<Item = Segment<'a>>, room: &'r mut [u8; SEARCHED]) -> (&'r [u8], usize) {
    let (mut filled, mut len) = (0, 0);
    for segment in frame {
        filled += segment.copy_to(&mut room[filled..]);
        len += segment.len() as usize;
    }
    (&room[..filled], len)
}

/// Returns the bytes `[from, from + len)` of a frame.
fn part<'a>(
    frame: impl Iterator<Item = Segment<'a>> + Clone,
    from: usize,
    len: usize,
) -> impl Iterator<Item = Segment<'a>> {
    let mut at = Cursor::new(frame);
    at.skip(from as u32);
    at.take(len as u32)
}

fn sum<'a>(frame: impl Iterator<Item = Segment<'a>> + Clone, from: usize, len: usize) -> Sum {
    let mut sum = Sum::new();
    part(frame, from, len).for_each(|piece| piece.add_to(&mut sum));
    sum
}

/// Returns the CRC-32C of these bytes as SCTP sends it, with zeros in its own field `at`.
fn crc<'a>(frame: impl Iterator<Item = Segment<'a>> + Clone, from: usize, len: usize, at: usize) -> [u8; 4] {
    let mut crc = Crc::new();
    part(frame.clone(), from, at - from).for_each(|piece| piece.read_pieces(|bytes| crc.add(bytes)));
    crc.add(&[0; 4]);
    part(frame, at + 4, from + len - at - 4).for_each(|piece| piece.read_pieces(|bytes| crc.add(bytes)));
    crc.finish().to_le_bytes()
}

impl Transport {
    /// Returns the checksum, if there is a whole one.
    fn field(&self, head: &[u8]) -> Option<Field> {
        let start = self.start;
        let (offset, len) = match self.protocol {
            protocol::TCP => (16, self.len),
            // A sender may do without (RFC 768).
            protocol::UDP if word(head, start + 6)? != 0 => (6, usize::from(word(head, start + 4)?)),
            protocol::SCTP => (SCTP_FIELD, self.len),
            protocol::GRE if word(head, start)? & GRE_CHECKSUM != 0 => (4, self.len),
            _ => return None,
        };
        let (pseudo, size) = match self.protocol {
            protocol::SCTP => (None, 4),
            protocol::GRE => (Some(Sum::new()), 2),
            protocol => {
                let mut pseudo = self.addresses;
                pseudo.add_word(protocol.into());
                pseudo.add_word(len as u16);
                (Some(pseudo), 2)
            }
        };
        let stored = head.get(start + offset..start + offset + size)?;
        let stored = stored.iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
        (offset + size <= len && len <= self.len).then_some(Field { at: start + offset, start, len, stored, pseudo })
    }

    /// Returns the EtherType of the inner packet, and its offset, if this is a tunnel.
    fn tunnelled(&self, head: &[u8]) -> Option<(u16, usize)> {
        /// Transparent Ethernet bridging: an Ethernet header follows.
        const BRIDGED: u16 = 0x6558;
        let at = self.start;
        let inner = |ethertype, at| if ethertype == BRIDGED { ethernet(head, at) } else { Some((ethertype, at)) };
        match self.protocol {
            protocol::IPV4 => Some((ethertype::IPV4, at)),
            protocol::IPV6 => Some((ethertype::IPV6, at)),
            protocol::GRE => {
                let flags = word(head, at)?;
                let options = GRE_OPTIONS.iter().filter(|&&option| flags & option != 0).count();
                inner(word(head, at + 2)?, at + 4 + 4 * options)
            }
            protocol::UDP => match word(head, at + 2)? {
                port if VXLAN.contains(&port) => inner(BRIDGED, at + UDP + 8),
                GENEVE => {
                    let options = usize::from(read::<1>(head, at + UDP)?[0] & 0x3f) * 4;
                    inner(word(head, at + UDP + 2)?, at + UDP + 8 + options)
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// A checksum of a frame.
struct Field {
    /// Where it is.
    at: usize,
    /// The bytes that it covers, itself among them.
    start: usize,
    len: usize,
    stored: u32,
    /// The sum of the pseudo-header that it also covers; `None` if it is a CRC-32C.
    pseudo: Option<Sum>,
}

impl Field {
    /// Finishes it, if it is unfinished.
    fn finish<'a>(&self, frame: impl Iterator<Item = Segment<'a>> + Clone) -> Option<Patch> {
        // `Sum::finish` returns the complement.
        let unfinished = self.pseudo.map_or(0, |pseudo| (!pseudo.finish()).into());
        if self.stored == unfinished { self.renew(frame) } else { None }
    }

    /// Computes it, if it is wrong.
    fn renew<'a>(&self, frame: impl Iterator<Item = Segment<'a>> + Clone) -> Option<Patch> {
        let Some(pseudo) = self.pseudo else {
            let crc = crc(frame, self.start, self.len, self.at);
            return (u32::from_be_bytes(crc) != self.stored).then(|| Patch::new(self.at, &crc));
        };
        let mut whole = pseudo;
        whole.add_sum(sum(frame, self.start, self.len));
        if whole.finish() == 0 {
            return None;
        }
        // Its complement takes the stored one out again (RFC 1624).
        whole.add_word(!(self.stored as u16));
        Some(Patch::new(self.at, &never_zero(whole.finish()).to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header_len::{ETHERNET, IPV6, MAC_ADDRESSES};
    use proptest::prelude::*;

    /// Puts an IP header before a payload: of version 6 with a hop-by-hop header, of version 4 with an option.
    fn ip(version: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; if version == 4 { 24 } else { 48 }];
        let len = packet.len();
        if version == 4 {
            packet[0] = 0x46;
            packet[2..4].copy_from_slice(&((len + payload.len()) as u16).to_be_bytes());
            packet[9] = protocol;
            packet[12..24].copy_from_slice(&[10, 0, 0, 1, 192, 168, 0, 2, 1, 1, 1, 1]);
        } else {
            packet[0] = 0x60;
            packet[4..6].copy_from_slice(&(8 + payload.len() as u16).to_be_bytes());
            packet[6] = protocol::HOP_BY_HOP;
            packet[8..10].copy_from_slice(&[0xfd, 0]);
            packet[39..42].copy_from_slice(&[7, protocol, 0]);
        }
        packet.extend(payload);
        packet
    }

    fn ethernet_frame(tags: usize, version: u8, packet: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; MAC_ADDRESSES];
        frame.extend([0x81, 0, 0, 5].repeat(tags));
        frame.extend(if version == 4 { [0x08, 0] } else { [0x86, 0xdd] });
        frame.extend(packet);
        frame
    }

    /// Returns the sum of the pseudo-header that goes with [`ip`].
    fn pseudo(version: u8, protocol: u8, len: usize) -> u16 {
        let packet = ip(version, protocol, &[]);
        let mut sum = Sum::new();
        sum.add(if version == 4 { &packet[12..20] } else { &packet[8..40] });
        sum.add_word(protocol.into());
        sum.add_word(len as u16);
        !sum.finish()
    }

    /// Returns a TCP or UDP segment as a kernel leaves it, and the offset of its checksum.
    fn segment(version: u8, protocol: u8, ports: [u16; 2], payload: &[u8]) -> (Vec<u8>, usize) {
        let (header, field) = if protocol == protocol::TCP { (20, 16) } else { (8, 6) };
        let mut segment = vec![0; header];
        segment[0..2].copy_from_slice(&ports[0].to_be_bytes());
        segment[2..4].copy_from_slice(&ports[1].to_be_bytes());
        segment.extend(payload);
        let len = segment.len();
        if protocol == protocol::UDP {
            segment[4..6].copy_from_slice(&(len as u16).to_be_bytes());
        }
        segment[field..field + 2].copy_from_slice(&pseudo(version, protocol, len).to_be_bytes());
        (segment, field)
    }

    /// Returns the sum that a receiver computes: zero if the checksum is right.
    fn received(version: u8, protocol: u8, segment: &[u8]) -> u16 {
        let mut sum = Sum::new();
        sum.add(segment);
        sum.add_word(pseudo(version, protocol, segment.len()));
        sum.finish()
    }

    /// Returns the frame in two pieces.
    fn pieces(frame: &[u8], cut: usize) -> impl Iterator<Item = Segment<'_>> + Clone {
        let (front, back) = frame.split_at(cut.min(frame.len()));
        [Segment::from(front), Segment::from(back)].into_iter()
    }

    fn whole(frame: &[u8]) -> impl Iterator<Item = Segment<'_>> + Clone {
        pieces(frame, 0)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 8 } else { 1000 }, failure_persistence: None, ..<_>::default() })]
        #[test]
        fn unfinished_checksums_are_finished_and_finished_ones_left_alone(
            payload in prop::collection::vec(any::<u8>(), 0..700),
            padding in 0usize..20,
            tags in 0usize..3,
            version in prop::sample::select(vec![4, 6]),
            protocol in prop::sample::select(vec![protocol::TCP, protocol::UDP]),
            ports: [u16; 2],
            cut in 0usize..800,
        ) {
            let ports = ports.map(|port| port | 0x8000);
            let (segment, field) = segment(version, protocol, ports, &payload);
            let mut frame = ethernet_frame(tags, version, &ip(version, protocol, &segment));
            let start = frame.len() - segment.len();
            frame.resize(frame.len() + padding, 0);
            // A sum that happens to be right is left as it is.
            if received(version, protocol, &segment) != 0 {
                let asked = as_asked(pieces(&frame[..start + segment.len()], cut), start, field);
                let patch = recognise(pieces(&frame, cut)).unwrap();
                prop_assert_eq!((patch.at as usize, Some(patch)), (start + field, asked));
                patch.apply(&mut frame);
            }
            prop_assert_eq!(received(version, protocol, &frame[start..start + segment.len()]), 0);
            // One in 65,536 checksums is the sum of the pseudo-header, by chance.
            let is_pseudo = |frame: &[u8]| frame[start + field..start + field + 2] == segment[field..field + 2];
            prop_assume!(!is_pseudo(&frame));
            prop_assert_eq!(recognise(pieces(&frame, cut)), None);
            prop_assert_eq!(renew(pieces(&frame, cut)), None);
            // Any other checksum is not unfinished, but can be renewed.
            frame[start + field] ^= 0x55;
            prop_assume!(!is_pseudo(&frame));
            prop_assert_eq!(recognise(pieces(&frame, cut)), None);
            if protocol == protocol::TCP || frame[start + field..start + field + 2] != [0, 0] {
                renew(pieces(&frame, cut)).unwrap().apply(&mut frame);
                prop_assert_eq!(received(version, protocol, &frame[start..start + segment.len()]), 0);
            }
        }

        #[test]
        fn no_frame_causes_a_panic(mut frame in prop::collection::vec(any::<u8>(), 0..200), version: bool, start: u16, offset: u16) {
            if let Some(ethertype) = frame.get_mut(12..15) {
                ethertype.copy_from_slice(if version { &[8, 0, 0x45] } else { &[0x86, 0xdd, 0x60] });
            }
            for patch in [recognise(whole(&frame)), renew(whole(&frame)), as_asked(whole(&frame), start.into(), offset.into())] {
                prop_assert!(patch.is_none_or(|patch| patch.at as usize + patch.bytes().len() <= frame.len()));
            }
        }
    }

    #[test]
    fn sctp_has_a_crc() {
        let mut sctp = vec![0x13, 0x88, 0x13, 0x89, 0, 0, 0, 9, 0, 0, 0, 0, 3, 0, 0, 16];
        sctp.extend([7; 12]);
        let mut expected = Crc::new();
        expected.add(&sctp);
        let frame = ethernet_frame(1, 6, &ip(6, protocol::SCTP, &sctp));
        let start = frame.len() - sctp.len();
        let patch = recognise(whole(&frame)).unwrap();
        assert_eq!((patch.at as usize, patch.bytes()), (start + 8, &expected.finish().to_le_bytes()[..]));
        assert_eq!(as_asked(whole(&frame), start, 8), Some(patch));
        let mut finished = frame.clone();
        patch.apply(&mut finished);
        assert_eq!(recognise(whole(&finished)), None);
        finished[start + 9] ^= 1;
        assert_eq!(renew(whole(&finished)), Some(patch));
    }

    #[test]
    fn inside_of_tunnels() {
        let (inner, field) = segment(4, protocol::TCP, [1, 2], b"tunnelled");
        let packet = ip(4, protocol::TCP, &inner);
        let bridged = ethernet_frame(1, 4, &packet);
        let vxlan = [&[0x08, 0, 0, 0, 0, 0, 9, 0][..], &bridged].concat();
        let geneve = [&[1, 0, 0x65, 0x58, 0, 0, 9, 0, 1, 2, 3, 4][..], &bridged].concat();
        let gre = [&[0x20, 0, 0x65, 0x58, 0, 0, 0, 9][..], &bridged].concat();
        let udp = |port, payload: &[u8]| {
            let (mut segment, _) = segment(6, protocol::UDP, [9, port], payload);
            segment[6..8].copy_from_slice(&[0, 0]);
            segment
        };
        let tunnels = [
            ip(6, protocol::UDP, &udp(4789, &vxlan)),
            ip(6, protocol::UDP, &udp(GENEVE, &geneve)),
            ip(6, protocol::GRE, &gre),
            ip(6, protocol::IPV4, &packet),
        ];
        for tunnel in tunnels {
            let mut frame = ethernet_frame(0, 6, &tunnel);
            let start = frame.len() - inner.len();
            let patch = recognise(whole(&frame)).unwrap();
            assert_eq!(patch.at as usize, start + field);
            patch.apply(&mut frame);
            assert_eq!(received(4, protocol::TCP, &frame[start..]), 0);
        }
        // A checksum of GRE's own covers its payload, and no pseudo-header.
        let gre = [&[0x80, 0, 0x08, 0, 0, 0, 0, 0][..], &packet].concat();
        let mut frame = ethernet_frame(0, 4, &ip(4, protocol::GRE, &gre));
        recognise(whole(&frame)).unwrap().apply(&mut frame);
        let start = frame.len() - gre.len();
        assert_eq!(crate::checksum::of(&frame[start..]), 0);
    }

    #[test]
    fn fragments_and_packets_on_a_route_are_left_alone() {
        let (segment, _) = segment(4, protocol::UDP, [1, 2], b"first part");
        let mut frame = ethernet_frame(0, 4, &ip(4, protocol::UDP, &segment));
        assert!(recognise(whole(&frame)).is_some());
        frame[ETHERNET + 6] = 0x20;
        assert_eq!(recognise(whole(&frame)), None);
        let (segment, _) = self::segment(6, protocol::UDP, [1, 2], b"on its way");
        let mut frame = ethernet_frame(0, 6, &ip(6, protocol::UDP, &segment));
        assert!(recognise(whole(&frame)).is_some());
        frame[ETHERNET + 6] = protocol::ROUTING;
        frame[ETHERNET + IPV6 + 3] = 1;
        assert_eq!(recognise(whole(&frame)), None);
        // An IPv4 sender of UDP may do without, and nothing says that it did not want to.
        let (mut segment, field) = self::segment(4, protocol::UDP, [1, 2], b"without");
        segment[field..field + 2].copy_from_slice(&[0, 0]);
        let frame = ethernet_frame(0, 4, &ip(4, protocol::UDP, &segment));
        assert_eq!((recognise(whole(&frame)), renew(whole(&frame))), (None, None));
    }

    #[test]
    fn fields_outside_of_the_frame_are_left_alone() {
        let frame = [7; 100];
        for (start, offset) in [(100, 0), (50, 50), (99, 0), (65535, 65535), (91, 8), (0, 99)] {
            assert_eq!(as_asked(whole(&frame), start, offset), None, "{start} {offset}");
        }
    }
}
