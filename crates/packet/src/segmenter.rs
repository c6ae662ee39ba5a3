//! Segmentation: a message becomes frames of its own, each complete, as its sender's device would have sent them.

use crate::checksum::{self, Sum, never_zero};
use crate::frame::Segment;
use crate::header_len::{IPV4, IPV6, UDP};
use crate::offload::header::field;
use crate::offload::message::Found;
use crate::offload::{Cut, Message, Refused};
use std::ops::Range;

/// Maximum length of the headers of a segment, in bytes: those that a [`Cut`] can name.
pub const MAX_HEADERS: usize = 255 + 60;

/// Flags of TCP, in byte 13 of its header (RFC 9293 §3.1, RFC 3168 §6.1).
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// Cuts one message. Its headers are taken once, when this is made.
pub struct Segmenter {
    headers: [u8; MAX_HEADERS],
    cut: Cut,
    /// Where the IP header begins, and its version.
    ip: usize,
    version: u8,
    /// The sum of the pseudo-header but for its length.
    pseudo: Sum,
    /// Payload of the message, in bytes.
    payload: u32,
}

impl Segmenter {
    /// Takes the headers of a frame of `len` bytes, which lies in these segments.
    ///
    /// # Errors
    /// [`Refused`], if they are not those that the description was checked with: whose memory it is may have changed them since.
    pub fn new<'a>(frame: impl Iterator<Item = Segment<'a>>, len: u32, cut: Cut) -> Result<Segmenter, Refused> {
        let mut headers = [0; MAX_HEADERS];
        let end = usize::from(cut.start) + usize::from(cut.header);
        let mut filled = 0;
        for segment in frame {
            filled += segment.copy_to(&mut headers[filled..end]);
            if filled == end {
                break;
            }
        }
        let found = Found::find(&headers[..filled], len)?;
        if found.cut(cut.size, cut.ecn)? != cut || filled < end {
            return Err(Refused::Mismatch);
        }
        found.fills(len)?;
        let mut pseudo = found.transport.addresses;
        pseudo.add_word(found.transport.protocol.into());
        let mut segmenter = Segmenter {
            headers,
            cut,
            ip: found.ip,
            version: found.transport.version,
            pseudo,
            payload: found.payload() as u32,
        };
        // Checksums are computed over headers in which they are zero.
        segmenter.set(usize::from(cut.start) + usize::from(field(cut.message)), 0);
        if segmenter.version == 4 {
            segmenter.set(segmenter.ip + 10, 0);
        }
        Ok(segmenter)
    }

    fn set(&mut self, at: usize, word: u16) {
        put(&mut self.headers, at, word);
    }

    /// Returns the number of segments: at least one.
    pub fn count(&self) -> u32 {
        self.payload.div_ceil(self.cut.size.into()).max(1)
    }

    /// Returns the length of the headers of each segment in bytes.
    pub fn headers_len(&self) -> usize {
        usize::from(self.cut.start) + usize::from(self.cut.header)
    }

    /// Returns where in the frame the payload of the segment at `index` lies.
    pub fn payload(&self, index: u32) -> Range<u32> {
        let (first, size) = (self.headers_len() as u32, u32::from(self.cut.size));
        let from = index.saturating_mul(size).min(self.payload);
        first + from..first + from.saturating_add(size).min(self.payload)
    }

    /// Writes the headers of the segment at `index`, whose payload has this sum. Returns their length.
    pub fn write(&self, index: u32, payload: Sum, out: &mut [u8; MAX_HEADERS]) -> usize {
        let (start, end) = (usize::from(self.cut.start), self.headers_len());
        let Range { start: from, end: to } = self.payload(index);
        let transport = usize::from(self.cut.header) + (to - from) as usize;
        let headers = &mut out[..end];
        headers.copy_from_slice(&self.headers[..end]);
        self.write_ip(&mut headers[self.ip..start], index, transport);
        let header = &mut headers[start..];
        match self.cut.message {
            Message::Tcp4 | Message::Tcp6 => self.write_tcp(header, index, from - end as u32),
            Message::Udp => put(header, UDP - 4, transport as u16),
        }
        let mut sum = self.pseudo;
        sum.add_word(transport as u16);
        sum.add(header);
        sum.add_sum(payload);
        let checksum = match self.cut.message {
            Message::Udp => never_zero(sum.finish()),
            _ => sum.finish(),
        };
        put(header, field(self.cut.message).into(), checksum);
        end
    }

    /// Writes the length of the IP packet and, for version 4, its number and its checksum, which no offload covers.
    fn write_ip(&self, header: &mut [u8], index: u32, transport: usize) {
        let len = header.len() + transport;
        if self.version == 6 {
            put(header, 4, (len - IPV6) as u16);
            return;
        }
        let id = u16::from_be_bytes([header[4], header[5]]).wrapping_add(index as u16);
        put(header, 2, len as u16);
        put(header, 4, id);
        debug_assert!(header.len() >= IPV4);
        put(header, 10, checksum::of(header));
    }

    /// Writes the sequence number of a segment that begins `from` bytes behind the first one, and its flags.
    fn write_tcp(&self, header: &mut [u8], index: u32, from: u32) {
        let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]).wrapping_add(from);
        header[4..8].copy_from_slice(&sequence.to_be_bytes());
        if index + 1 < self.count() {
            header[13] &= !(FIN | PSH);
        }
        if index > 0 && self.cut.ecn {
            header[13] &= !CWR;
        }
    }
}

fn put(bytes: &mut [u8], at: usize, word: u16) {
    bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

#[cfg(test)]
mod tests;
