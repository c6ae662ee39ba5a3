//! ARP for IPv4 over Ethernet (RFC 826).

use super::ethernet::{self, HEADER, MIN_FRAME};
use etherparse::{ArpEthIpv4Packet, ArpOperation, ArpPacketSlice};
use packet::MacAddr;

/// Bytes of a frame with an ARP message, without padding.
const LEN: usize = HEADER + ArpEthIpv4Packet::LEN;

/// Reads the request or reply in a frame of EtherType [`ethernet::ARP`].
pub fn read(frame: &[u8]) -> Option<ArpEthIpv4Packet> {
    let message = ArpPacketSlice::from_slice(frame.get(HEADER..)?).ok()?.to_packet().try_eth_ipv4().ok()?;
    let is_known = [ArpOperation::REQUEST, ArpOperation::REPLY].contains(&message.operation);
    // A group can't be a sender, and we must not be made to send to one.
    (is_known && !MacAddr(message.sender_mac).is_group()).then_some(message)
}

/// Writes the message into a frame of [`MIN_FRAME`] bytes, addressed to `destination`.
pub fn write(message: &ArpEthIpv4Packet, frame: &mut [u8], destination: MacAddr) {
    ethernet::write(frame, destination, MacAddr(message.sender_mac), ethernet::ARP);
    frame[HEADER..LEN].copy_from_slice(&message.to_bytes());
    frame[LEN..MIN_FRAME].fill(0);
}

/// Turns a frame with this request into the reply with `mac`.
pub fn reply_in_place(request: &ArpEthIpv4Packet, frame: &mut [u8], mac: MacAddr) {
    let reply = ArpEthIpv4Packet {
        operation: ArpOperation::REPLY,
        sender_mac: mac.0,
        sender_ipv4: request.target_ipv4,
        target_mac: request.sender_mac,
        target_ipv4: request.sender_ipv4,
    };
    // An unpadded frame keeps its length.
    let mut padded = [0; MIN_FRAME];
    write(&reply, &mut padded, MacAddr(request.sender_mac));
    let len = frame.len().min(MIN_FRAME);
    frame[..len].copy_from_slice(&padded[..len]);
}
