//! Virtio-user ports, by Millrace's library for network functions.

use super::contract::{Endpoint, EndpointError, HEADERS, Reflected, Setup, Technique};
use super::headers::Headers;
use nf::{Options, Packet, PortOptions, Ports};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Time limit for a switch to accept a port.
const CONNECT: Duration = Duration::from_secs(15);

/// An endpoint with the only port of its ports.
pub struct VirtioUser {
    port: String,
    ports: Ports,
    headers: Headers,
    burst: Vec<Packet>,
}

impl Endpoint for VirtioUser {
    const PACKET_MICROS: f64 = 1.0;

    fn open(port: &str, technique: Technique, setup: &Setup) -> Result<VirtioUser, EndpointError> {
        let options = PortOptions { queue_size: setup.queue_size, packed: setup.packed, ..PortOptions::new(port) };
        let options = Options { reconnect: false, timeout: Some(CONNECT), ..Options::new(vec![options]) };
        let failed = |reason| EndpointError { port: port.to_owned(), technique, reason };
        let ports = Ports::open(options, &AtomicBool::new(false)).map_err(|error| failed(error.to_string()))?;
        let headers = Headers::new(setup.addresses, setup.check_headers);
        Ok(VirtioUser { port: port.to_owned(), ports, headers, burst: Vec::new() })
    }

    #[inline]
    fn send(&mut self, lengths: &[u16], fill: &mut impl FnMut(usize, &mut [u8])) -> Result<usize, EndpointError> {
        let port = &mut self.ports[0];
        let mut taken = 0;
        for (index, &length) in lengths.iter().enumerate() {
            let Some(mut packet) = port.alloc(length.into()) else {
                // The device may have sent some; sending looks for these only when the queue is full.
                port.reclaim();
                break;
            };
            self.headers.write(&mut packet);
            fill(index, &mut packet[HEADERS..]);
            if port.transmit(packet).is_err() {
                break;
            }
            taken += 1;
        }
        port.flush();
        Ok(taken)
    }

    #[inline]
    fn receive(&mut self, take: &mut impl FnMut(&[u8], bool)) -> Result<usize, EndpointError> {
        self.ports[0].receive(&mut self.burst);
        let mut received = 0;
        for packet in self.burst.drain(..) {
            if let Some((payload, intact)) = self.headers.payload(&packet) {
                take(payload, intact);
                received += 1;
            }
        }
        Ok(received)
    }

    #[inline]
    fn reflect(&mut self) -> Result<Reflected, EndpointError> {
        let port = &mut self.ports[0];
        port.receive(&mut self.burst);
        let mut reflected = Reflected::default();
        for mut packet in self.burst.drain(..) {
            if self.headers.payload(&packet).is_some() {
                self.headers.write(&mut packet);
                reflected.received += 1;
                reflected.sent += u64::from(port.transmit(packet).is_ok());
            }
        }
        port.flush();
        Ok(reflected)
    }

    fn check(&mut self) -> Result<(), EndpointError> {
        let lost = |error: nf::OpenError| EndpointError {
            port: self.port.clone(),
            technique: Technique::VirtioUser,
            reason: error.to_string(),
        };
        self.ports.check(&AtomicBool::new(false)).map(drop).map_err(lost)
    }
}
