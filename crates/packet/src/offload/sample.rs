//! Messages for tests, and the frames that they are to become, put together byte by byte from what they mean.

use super::{Cut, Message};
use proptest::prelude::*;

/// Flags of TCP.
pub(crate) const FIN: u8 = 1;
pub(crate) const ACK: u8 = 16;
pub(crate) const PSH: u8 = 8;
pub(crate) const CWR: u8 = 128;

/// What a message's headers say.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) message: Message,
    pub(crate) is_version_6: bool,
    pub(crate) tags: usize,
    /// Whether there is an IP option, or a hop-by-hop header.
    pub(crate) with_options: bool,
    /// Words of options in the TCP header.
    pub(crate) tcp_options: usize,
    pub(crate) id: u16,
    pub(crate) sequence: u32,
    pub(crate) flags: u8,
}

impl Sample {
    /// Returns a plain message.
    pub(crate) fn of(message: Message, is_version_6: bool) -> Sample {
        Sample {
            message,
            is_version_6,
            tags: 0,
            with_options: false,
            tcp_options: 3,
            id: 0xfffe,
            sequence: u32::MAX - 2000,
            flags: ACK | PSH,
        }
    }

    /// Returns any message.
    pub(crate) fn any() -> impl Strategy<Value = Sample> {
        let message = prop::sample::select(vec![Message::Tcp4, Message::Tcp6, Message::Udp]);
        let options = (0..3usize, any::<bool>(), 0..=10usize);
        (message, any::<bool>(), options, any::<u16>(), any::<u32>(), any::<u8>()).prop_map(
            |(message, version, (tags, with_options, tcp_options), id, sequence, flags)| Sample {
                is_version_6: message == Message::Tcp6 || message == Message::Udp && version,
                tags,
                with_options,
                tcp_options,
                id,
                sequence,
                flags,
                ..Sample::of(message, version)
            },
        )
    }

    /// Returns the description of its division into segments of this size.
    pub(crate) fn cut(&self, size: u16, ecn: bool) -> Cut {
        let ip = match (self.is_version_6, self.with_options) {
            (false, false) => 20,
            (false, true) => 24,
            (true, false) => 40,
            (true, true) => 48,
        };
        let header = if self.message == Message::Udp { 8 } else { 20 + 4 * self.tcp_options as u8 };
        Cut { message: self.message, size, start: (14 + 4 * self.tags as u8) + ip, header, ecn }
    }

    /// Returns the message: its transport checksum is the sum of the pseudo-header.
    pub(crate) fn unfinished(&self, payload: &[u8]) -> Vec<u8> {
        self.frame(self.id, self.sequence, self.flags, payload, false)
    }

    /// Returns the frames that the message is to become.
    pub(crate) fn segments(&self, payload: &[u8], size: usize, ecn: bool) -> Vec<Vec<u8>> {
        let chunks: Vec<&[u8]> = payload.chunks(size).collect();
        let segment = |(index, chunk): (usize, &&[u8])| {
            let mut flags = self.flags;
            if index + 1 != chunks.len() {
                flags &= !(FIN | PSH);
            }
            if ecn && index != 0 {
                flags &= !CWR;
            }
            let id = self.id.wrapping_add(index as u16);
            self.frame(id, self.sequence.wrapping_add((index * size) as u32), flags, chunk, true)
        };
        chunks.iter().enumerate().map(segment).collect()
    }

    fn frame(&self, id: u16, sequence: u32, flags: u8, payload: &[u8], is_finished: bool) -> Vec<u8> {
        let (source, destination): (&[u8], &[u8]) = match self.is_version_6 {
            false => (&[10, 0, 0, 1], &[192, 168, 3, 200]),
            true => (&[0xfd, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1], &[0xfe; 16]),
        };
        let (protocol, field) = if self.message == Message::Udp { (17, 6) } else { (6, 16) };
        let mut packet = vec![0x12, 0x34, 0xab, 0xcd];
        if protocol == 17 {
            packet.extend((8 + payload.len() as u16).to_be_bytes());
            packet.extend([0; 2]);
        } else {
            packet.extend(sequence.to_be_bytes());
            packet.extend([1, 2, 3, 4, (5 + self.tcp_options as u8) << 4, flags, 0x20, 0, 0, 0, 0xee, 0xff]);
            packet.extend((0..4 * self.tcp_options).map(|at| at as u8));
        }
        packet.extend(payload);
        let len = (packet.len() as u32).to_be_bytes();
        let pseudo = [source, destination, &len, &[0, 0, 0, protocol]].concat();
        let checksum = if is_finished {
            match naive(&[&pseudo[..], &packet].concat()) {
                0 if protocol == 17 => 0xffff,
                checksum => checksum,
            }
        } else {
            !naive(&pseudo)
        };
        packet[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
        let ip =
            if self.is_version_6 { self.ip6(protocol, packet.len()) } else { self.ip4(id, protocol, packet.len()) };
        let mut frame = vec![2; 12];
        frame.extend([0x81, 0, 0x60, 5].repeat(self.tags));
        frame.extend(if self.is_version_6 { [0x86, 0xdd] } else { [8, 0] });
        let at = if self.is_version_6 { 8 } else { 12 };
        frame.extend([&ip[..at], source, destination, &ip[at + 2 * source.len()..]].concat());
        frame.extend(packet);
        if !self.is_version_6 {
            let start = 14 + 4 * self.tags;
            let header = &mut frame[start..][..ip.len()];
            let checksum = naive(header);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        frame
    }

    /// Returns an IPv4 header without addresses and checksum.
    fn ip4(&self, id: u16, protocol: u8, len: usize) -> Vec<u8> {
        let words = if self.with_options { 6 } else { 5 };
        let mut ip = vec![0x40 | words, 0x02];
        ip.extend((u16::from(words) * 4 + len as u16).to_be_bytes());
        ip.extend(id.to_be_bytes());
        ip.extend([0x40, 0, 64, protocol]);
        ip.resize(20, 0);
        if self.with_options {
            ip.extend([1; 4]);
        }
        ip
    }

    /// Returns an IPv6 header without addresses.
    fn ip6(&self, protocol: u8, len: usize) -> Vec<u8> {
        let extension: &[u8] = if self.with_options { &[protocol, 0, 1, 4, 0, 0, 0, 0] } else { &[] };
        let mut ip = vec![0x60, 0x20, 0, 9];
        ip.extend((extension.len() as u16 + len as u16).to_be_bytes());
        ip.extend([if self.with_options { 0 } else { protocol }, 64]);
        ip.resize(40, 0);
        ip.extend(extension);
        ip
    }
}

/// RFC 1071, Section 4.1, taken literally.
pub(crate) fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}
