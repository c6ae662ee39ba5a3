//! Packet sockets with rings in memory that is shared with the kernel.

use super::contract::{Endpoint, EndpointError, HEADERS, Reflected, Setup, Technique};
use super::headers::Headers;
use super::interface::open_on;
use netdev::{PacketRx, PacketTx, PushError, RxConfig, TxConfig};
use packet::offload::Offloads;

/// Longest frame.
const ROOM: usize = 2048;

/// Frames that the receive ring has room for.
const SLOTS: usize = 2048;
/// Transmit ring.
const TRANSMIT: TxConfig = TxConfig { slots: 512, frame_bytes: ROOM, bypass_qdisc: false, offloads: Offloads::NONE };

/// An endpoint with a ring for each direction.
pub struct Tpacket {
    port: String,
    rx: PacketRx,
    tx: PacketTx,
    headers: Headers,
    frame: Box<[u8; ROOM]>,
    burst: usize,
}

impl Tpacket {
    #[cold]
    fn failed(port: &str, error: impl std::fmt::Display) -> EndpointError {
        EndpointError { port: port.to_owned(), technique: Technique::Tpacket, reason: format!("can't send: {error}") }
    }

    /// Adds a frame to the transmit ring; returns false if that is full.
    #[inline(always)]
    fn push(port: &str, tx: &PacketTx, frame: &[u8]) -> Result<bool, EndpointError> {
        match tx.push(&[frame]) {
            Ok(()) => Ok(true),
            Err(PushError::Full) => Ok(false),
            Err(error) => Err(Tpacket::failed(port, error)),
        }
    }

    /// Has the kernel send the frames in the transmit ring. Frames that the interface refuses are lost.
    #[inline(always)]
    fn flush(port: &str, tx: &PacketTx) -> Result<(), EndpointError> {
        tx.flush().map(drop).map_err(|error| Tpacket::failed(port, error))
    }
}

impl Endpoint for Tpacket {
    fn open(port: &str, technique: Technique, setup: &Setup) -> Result<Tpacket, EndpointError> {
        let (mut rx, tx) = open_on(port, technique, setup, |link| {
            let receive = RxConfig { slots: SLOTS, ..RxConfig::default() };
            let both = PacketRx::open(link, 1, &receive).and_then(|rx| Ok((rx, PacketTx::open(link, &TRANSMIT)?)));
            both.map_err(|error| error.to_string())
        })?;
        Ok(Tpacket {
            port: port.to_owned(),
            rx: rx.remove(0),
            tx,
            headers: Headers::new(setup.addresses, setup.check_headers),
            frame: Box::new([0; ROOM]),
            burst: setup.burst.into(),
        })
    }

    #[inline]
    fn send(&mut self, lengths: &[u16], fill: &mut impl FnMut(usize, &mut [u8])) -> Result<usize, EndpointError> {
        let mut taken = 0;
        for (index, &length) in lengths.iter().enumerate() {
            let frame = &mut self.frame[..length.into()];
            self.headers.write(frame);
            fill(index, &mut frame[HEADERS..]);
            if !Tpacket::push(&self.port, &self.tx, frame)? {
                break;
            }
            taken += 1;
        }
        Tpacket::flush(&self.port, &self.tx)?;
        Ok(taken)
    }

    #[inline]
    fn receive(&mut self, take: &mut impl FnMut(&[u8], bool)) -> Result<usize, EndpointError> {
        if self.tx.pending() > 0 {
            Tpacket::flush(&self.port, &self.tx)?;
        }
        let mut received = 0;
        for frame in self.rx.burst(self.burst) {
            if let Some((payload, intact)) = self.headers.payload(frame.bytes()) {
                take(payload, intact);
                received += 1;
            }
        }
        self.rx.release();
        Ok(received)
    }

    #[inline]
    fn reflect(&mut self) -> Result<Reflected, EndpointError> {
        let mut reflected = Reflected::default();
        for received in self.rx.burst(self.burst) {
            let bytes = received.bytes();
            if let Some(frame) = self.frame.get_mut(..bytes.len()).filter(|_| self.headers.payload(bytes).is_some()) {
                frame.copy_from_slice(bytes);
                self.headers.write(frame);
                reflected.received += 1;
                reflected.sent += u64::from(Tpacket::push(&self.port, &self.tx, frame)?);
            }
        }
        self.rx.release();
        if self.tx.pending() > 0 {
            Tpacket::flush(&self.port, &self.tx)?;
        }
        Ok(reflected)
    }
}
