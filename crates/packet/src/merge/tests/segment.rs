//! Segments of TCP for tests, put together byte by byte from what they mean.

use crate::offload::sample::naive;

pub(super) use crate::offload::sample::{ACK, CWR, FIN, PSH};
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const URG: u8 = 32;
pub(super) const ECE: u8 = 64;

/// What a segment says.
#[derive(Clone, Debug)]
pub(super) struct Tcp {
    pub(super) is_v6: bool,
    pub(super) macs: u8,
    pub(super) tags: Vec<u16>,
    pub(super) host: u8,
    pub(super) ports: [u16; 2],
    pub(super) class: u8,
    pub(super) hops: u8,
    pub(super) label: u16,
    pub(super) fragment: u16,
    pub(super) id: u16,
    pub(super) sequence: u32,
    pub(super) ack: u32,
    pub(super) reserved: u8,
    pub(super) flags: u8,
    pub(super) window: u16,
    pub(super) urgent: u16,
    pub(super) options: Vec<u8>,
    pub(super) payload: Vec<u8>,
    pub(super) padding: usize,
}

impl Tcp {
    pub(super) fn new(is_v6: bool, payload: usize) -> Tcp {
        Tcp {
            is_v6,
            macs: 2,
            tags: Vec::new(),
            host: 1,
            ports: [4000, 80],
            class: 0,
            hops: 64,
            label: 7,
            fragment: 0x4000,
            id: 0xffff,
            sequence: u32::MAX - 100,
            ack: 77,
            reserved: 0,
            flags: ACK,
            window: 500,
            urgent: 0,
            options: [1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8].to_vec(),
            payload: content(payload, 0),
            padding: 0,
        }
    }

    /// Returns the segment behind this one, with so much payload.
    pub(super) fn next(&self, payload: usize) -> Tcp {
        let sequence = self.sequence.wrapping_add(self.payload.len() as u32);
        Tcp { id: self.id.wrapping_add(1), sequence, payload: content(payload, sequence as u8), ..self.clone() }
    }

    pub(super) fn frame(&self) -> Vec<u8> {
        let mut tcp = [self.ports[0].to_be_bytes(), self.ports[1].to_be_bytes()].concat();
        tcp.extend([self.sequence.to_be_bytes(), self.ack.to_be_bytes()].concat());
        tcp.extend([(5 + self.options.len() as u8 / 4) << 4 | self.reserved, self.flags]);
        tcp.extend([self.window.to_be_bytes(), [0; 2], self.urgent.to_be_bytes()].concat());
        tcp.extend(&self.options);
        tcp.extend(&self.payload);
        let addresses = match self.is_v6 {
            false => [[10, 0, 0, self.host], [10, 0, 0, 200]].concat(),
            true => [[self.host; 16], [0xfe; 16]].concat(),
        };
        let pseudo = [&addresses[..], &[0, 6], &(tcp.len() as u16).to_be_bytes()].concat();
        let sum = naive(&[&pseudo[..], &tcp].concat());
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        let mut frame = vec![self.macs; 12];
        self.tags.iter().for_each(|tag| frame.extend([[0x81, 0], tag.to_be_bytes()].concat()));
        if self.is_v6 {
            frame.extend([0x86, 0xdd, 0x60 | self.class >> 4, self.class << 4]);
            frame.extend([self.label.to_be_bytes(), (tcp.len() as u16).to_be_bytes(), [6, self.hops]].concat());
            frame.extend(addresses);
        } else {
            let mut ip = vec![0x45, self.class];
            ip.extend([(20 + tcp.len() as u16).to_be_bytes(), self.id.to_be_bytes()].concat());
            ip.extend([self.fragment.to_be_bytes(), [self.hops, 6], [0; 2]].concat());
            ip.extend(addresses);
            let sum = naive(&ip);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            frame.extend([8, 0]);
            frame.extend(ip);
        }
        frame.extend(tcp);
        frame.resize(frame.len() + self.padding, 0xee);
        frame
    }
}

pub(super) fn content(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 256) as u8 ^ seed).collect()
}
