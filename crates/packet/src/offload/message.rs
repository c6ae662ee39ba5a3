//! The headers of a message, found in the frame itself.

use super::{Cut, Message, Refused};
use crate::ip_protocol as protocol;
use crate::transport::{Transport, ethernet, read};

/// Length of a TCP header without options in bytes, and of a UDP header.
const TCP: u8 = 20;
const UDP: u8 = crate::header_len::UDP as u8;

/// A TCP or UDP packet that is no fragment, with its headers.
pub(crate) struct Found {
    /// Where the IP header begins.
    pub(crate) ip: usize,
    pub(crate) transport: Transport,
    message: Message,
    /// Length of the transport header in bytes.
    header: u8,
}

impl Found {
    /// Finds it in a frame of `len` bytes, of which these are the first.
    pub(crate) fn find(head: &[u8], len: u32) -> Result<Found, Refused> {
        Found::parse(head, len).ok_or(Refused::Headers)
    }

    fn parse(head: &[u8], len: u32) -> Option<Found> {
        let (ethertype, ip) = ethernet(head, 0)?;
        let transport = Transport::find(head, ethertype, ip, len as usize)?;
        let (message, header) = match transport.protocol {
            protocol::TCP => {
                let [offset] = read(head, transport.start + 12)?;
                let message = if transport.version == 4 { Message::Tcp4 } else { Message::Tcp6 };
                (message, (offset >> 4) * 4)
            }
            protocol::UDP => (Message::Udp, UDP),
            _ => return None,
        };
        let is_whole = usize::from(header) <= transport.len && (message == Message::Udp || header >= TCP);
        is_whole.then_some(Found { ip, transport, message, header })
    }

    /// Returns the bytes behind the headers.
    pub(crate) fn payload(&self) -> usize {
        self.transport.len - usize::from(self.header)
    }

    /// Returns this message cut so.
    pub(crate) fn cut(&self, size: u16, ecn: bool) -> Result<Cut, Refused> {
        let start = u8::try_from(self.transport.start).map_err(|_| Refused::Headers)?;
        Ok(Cut { message: self.message, size, start, header: self.header, ecn })
    }

    /// Checks that the packet ends where the frame does, of `len` bytes: else the rest would be cut, too.
    pub(crate) fn fills(&self, len: u32) -> Result<(), Refused> {
        if self.transport.start + self.transport.len == len as usize { Ok(()) } else { Err(Refused::Length) }
    }
}
