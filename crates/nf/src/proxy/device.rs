//! A port as a device of `smoltcp`. The stack writes each frame into the buffer that the switch gets.

use crate::memory::Packet;
use crate::port::Port;
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::ETHERNET_HEADER_LEN;
use std::collections::VecDeque;

/// Bytes of the shortest Ethernet frame without its FCS (IEEE 802.3 §4.2.3.3).
const SHORTEST: usize = 60;

/// A device whose next received frame can be inspected.
pub(super) trait Link: Device {
    /// Returns the frame that is received next.
    fn first(&self) -> Option<&[u8]>;

    /// Drops that frame.
    fn discard(&mut self);
}

/// A port, with the frames on their way between it and the stack.
pub(super) struct PortLink<'p> {
    port: &'p mut Port,
    received: &'p mut VecDeque<Packet>,
    waiting: &'p mut VecDeque<Packet>,
    /// Bytes of the longest frame.
    longest: usize,
}

impl<'p> PortLink<'p> {
    pub(super) fn new(
        port: &'p mut Port,
        received: &'p mut VecDeque<Packet>,
        waiting: &'p mut VecDeque<Packet>,
        mtu: usize,
    ) -> PortLink<'p> {
        PortLink { port, received, waiting, longest: mtu + ETHERNET_HEADER_LEN }
    }

    /// Sends frames for which there was no room.
    pub(super) fn send_waiting(&mut self) {
        while let Some(packet) = self.waiting.pop_front() {
            if let Err(packet) = self.port.transmit(packet) {
                self.waiting.push_front(packet);
                break;
            }
        }
    }

    /// Takes a buffer for a frame, unless earlier ones still wait: TCP keeps its data meanwhile.
    fn buffer(&self) -> Option<Packet> {
        if self.waiting.is_empty() { self.port.alloc(self.longest) } else { None }
    }
}

impl Link for PortLink<'_> {
    fn first(&self) -> Option<&[u8]> {
        self.received.front().map(|packet| &**packet)
    }

    fn discard(&mut self) {
        self.received.pop_front();
    }
}

impl Device for PortLink<'_> {
    type RxToken<'a>
        = Received
    where
        Self: 'a;
    type TxToken<'a>
        = Empty<'a>
    where
        Self: 'a;

    fn receive(&mut self, _: Instant) -> Option<(Received, Empty<'_>)> {
        let packet = self.buffer()?;
        let received = Received(self.received.pop_front()?);
        Some((received, Empty { packet, port: self.port, waiting: self.waiting }))
    }

    fn transmit(&mut self, _: Instant) -> Option<Empty<'_>> {
        let packet = self.buffer()?;
        Some(Empty { packet, port: self.port, waiting: self.waiting })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.longest;
        capabilities
    }
}

/// A received frame.
pub(super) struct Received(Packet);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        let packet = self.0;
        let len = packet.total_len();
        if packet.len() == len {
            return f(&packet);
        }
        // The buffers of others may be smaller than ours.
        f(&packet.chunks().collect::<Vec<_>>().concat())
    }
}

/// A buffer for a frame to send.
pub(super) struct Empty<'a> {
    packet: Packet,
    port: &'a mut Port,
    waiting: &'a mut VecDeque<Packet>,
}

impl TxToken for Empty<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(mut self, len: usize, f: F) -> R {
        let outcome = f(&mut self.packet[..len]);
        let whole = len.max(SHORTEST);
        self.packet[len..whole].fill(0);
        self.packet.set_len(whole).expect("the buffer was taken for the longest frame");
        if let Err(packet) = self.port.transmit(self.packet) {
            self.waiting.push_back(packet);
        }
        outcome
    }
}
