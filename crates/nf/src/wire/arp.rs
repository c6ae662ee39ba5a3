//! ARP for IPv4 over Ethernet (RFC 826).

use super::ethernet::{self, HEADER, MIN_FRAME, MacAddr};
use super::{array, word};
use std::net::Ipv4Addr;

/// Bytes of a frame with an ARP message, without padding.
const LEN: usize = HEADER + 28;

/// The operation of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A request for the MAC address of the target.
    Request,
    /// A reply with the sender's MAC address.
    Reply,
}

/// An ARP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The operation.
    pub operation: Operation,
    /// The sender's addresses.
    pub sender: (MacAddr, Ipv4Addr),
    /// The target's addresses.
    pub target: (MacAddr, Ipv4Addr),
}

impl Message {
    /// Reads the message in a frame of EtherType [`ethernet::ARP`].
    pub fn read(frame: &[u8]) -> Option<Message> {
        if frame.len() < LEN {
            return None;
        }
        let body = &frame[HEADER..LEN];
        // Ethernet, IPv4, and the lengths of their addresses.
        if body[..6] != [0, 1, 0x08, 0x00, 6, 4] {
            return None;
        }
        let operation = match word(body, 6) {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return None,
        };
        let pair = |at| (MacAddr(array(body, at)), Ipv4Addr::from(array::<4>(body, at + 6)));
        let (sender, target) = (pair(8), pair(18));
        // A group can't be a sender, and we must not be made to send to one.
        if sender.0.is_group() { None } else { Some(Message { operation, sender, target }) }
    }

    /// Writes the message into a frame of [`MIN_FRAME`] bytes, addressed to `destination`.
    pub fn write(&self, frame: &mut [u8], destination: MacAddr) {
        ethernet::write(frame, destination, self.sender.0, ethernet::ARP);
        let operation = if self.operation == Operation::Request { 1 } else { 2 };
        let body = &mut frame[HEADER..LEN];
        body[..8].copy_from_slice(&[0, 1, 0x08, 0x00, 6, 4, 0, operation]);
        for (at, (mac, ip)) in [(8, self.sender), (18, self.target)] {
            body[at..at + 6].copy_from_slice(&mac.0);
            body[at + 6..at + 10].copy_from_slice(&ip.octets());
        }
        frame[LEN..MIN_FRAME].fill(0);
    }

    /// Turns a frame with this request into the reply with `mac`.
    pub fn reply_in_place(&self, frame: &mut [u8], mac: MacAddr) {
        let reply = Message { operation: Operation::Reply, sender: (mac, self.target.1), target: self.sender };
        if frame.len() >= MIN_FRAME {
            reply.write(&mut frame[..MIN_FRAME], self.sender.0);
        } else {
            // An unpadded frame keeps its length.
            let mut padded = [0; MIN_FRAME];
            reply.write(&mut padded, self.sender.0);
            frame.copy_from_slice(&padded[..frame.len()]);
        }
    }
}
