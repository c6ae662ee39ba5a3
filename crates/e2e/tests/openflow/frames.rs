//! Hand-made frames with all their checksums.

use packet::checksum;
use std::fmt::Write as _;

/// Formats bytes for `ovs-ofctl`.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns a guest's address.
pub fn mac(guest: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, guest]
}

pub const BROADCAST: [u8; 6] = [0xff; 6];

/// UDP or TCP over IPv4 or IPv6.
#[derive(Clone)]
pub struct Packet {
    pub to: [u8; 6],
    pub from: [u8; 6],
    pub vlan: Option<u16>,
    pub addresses: Addresses,
    pub protocol: u8,
    pub ports: [u16; 2],
    pub payload: Vec<u8>,
}

#[derive(Clone)]
pub enum Addresses {
    V4([u8; 4], [u8; 4]),
    V6([u8; 16], [u8; 16]),
}

impl Packet {
    /// Creates a UDP packet over IPv4 from one guest to another.
    pub fn udp(from: u8, to: u8, port: u16) -> Packet {
        Packet {
            to: mac(to),
            from: mac(from),
            vlan: None,
            addresses: Addresses::V4([192, 0, 2, from], [192, 0, 2, to]),
            protocol: 17,
            ports: [4000, port],
            payload: (0..32).collect(),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut frame = [self.to, self.from].concat();
        if let Some(vid) = self.vlan {
            frame.extend([0x81, 0]);
            frame.extend(vid.to_be_bytes());
        }
        let segment = self.transport();
        let len = segment.len() as u16;
        match self.addresses {
            Addresses::V4(from, to) => {
                frame.extend([8, 0]);
                let mut ip = [&[0x45, 0, 0, 0, 0, 1, 0, 0, 64, self.protocol, 0, 0], &from[..], &to].concat();
                ip[2..4].copy_from_slice(&(len + 20).to_be_bytes());
                let sum = checksum::of(&ip);
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
                frame.extend(ip);
            }
            Addresses::V6(from, to) => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend(len.to_be_bytes());
                frame.extend([self.protocol, 64]);
                frame.extend([from, to].concat());
            }
        }
        frame.extend(segment);
        frame
    }

    fn transport(&self) -> Vec<u8> {
        let mut segment = self.ports.map(u16::to_be_bytes).concat();
        let at = if self.protocol == 17 {
            segment.extend((8 + self.payload.len() as u16).to_be_bytes());
            segment.extend([0, 0]);
            6
        } else {
            segment.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
            16
        };
        segment.extend(&self.payload);
        let addresses = match self.addresses {
            Addresses::V4(from, to) => [from, to].concat(),
            Addresses::V6(from, to) => [from, to].concat(),
        };
        let pseudo = [&addresses[..], &[0, self.protocol], &(segment.len() as u16).to_be_bytes(), &segment].concat();
        let sum = checksum::of(&pseudo);
        segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        segment
    }
}
