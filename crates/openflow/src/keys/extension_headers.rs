//! The extension headers of IPv6 (RFC 8200 §4).

use packet::ip_protocol::{AUTHENTICATION, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING};

/// The header behind the extension headers of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Followed {
    /// Its protocol, or that of the last header that is there.
    pub protocol: u8,
    /// Its offset; `None` in later fragments.
    pub at: Option<usize>,
    /// Whether the bytes end before that is known.
    pub is_cut: bool,
}

/// Skips the extension headers that begin at `at` with one of `protocol`. `see` gets each: its protocol, and its bytes as far as
/// they are there.
#[inline(always)]
pub(crate) fn skip(packet: &[u8], mut at: usize, mut protocol: u8, mut see: impl FnMut(u8, &[u8])) -> Followed {
    loop {
        let len = match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => |len: u8| 8 + usize::from(len) * 8,
            AUTHENTICATION => |len: u8| 8 + usize::from(len) * 4,
            FRAGMENT => |_| 8,
            _ => return Followed { protocol, at: Some(at), is_cut: false },
        };
        let header = packet.get(at..).unwrap_or_default();
        let Some([next, extent, offset @ ..]) = header.first_chunk::<4>() else {
            return Followed { protocol, at: None, is_cut: true };
        };
        let end = len(*extent);
        see(protocol, &header[..end.min(header.len())]);
        let is_later = protocol == FRAGMENT && u16::from_be_bytes(*offset) & 0xfff8 != 0;
        (protocol, at) = (*next, at + end);
        if is_later {
            return Followed { protocol, at: None, is_cut: false };
        }
    }
}
