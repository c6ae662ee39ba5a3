//! Sockets with a system call for each packet.

use super::contract::{Endpoint, EndpointError, Reflected, Setup, Technique};
use super::interface::open_on;
use super::socket::{Socket, passes};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// Longest message.
const ROOM: usize = 2048;

/// An endpoint that sends and receives one packet in each system call.
pub struct OneByOne<S> {
    port: String,
    technique: Technique,
    socket: S,
    message: Box<[u8; ROOM]>,
    burst: usize,
}

impl<S: Socket> OneByOne<S> {
    #[cold]
    fn failed(&self, action: &str, error: Errno) -> EndpointError {
        let reason = format!("can't {action}: {error}");
        EndpointError { port: self.port.clone(), technique: self.technique, reason }
    }

    /// Sends the first `len` bytes of the buffer; reports whether they were taken.
    #[inline(always)]
    fn send_message(&self, len: usize) -> Result<bool, EndpointError> {
        match send(&self.socket, &self.message[..len], SendFlags::DONTWAIT) {
            Ok(_) => Ok(true),
            Err(error) if passes(error) => Ok(false),
            Err(error) => Err(self.failed("send", error)),
        }
    }

    /// Receives a message into the buffer; returns its length.
    #[inline(always)]
    fn receive_message(&mut self) -> Result<Option<usize>, EndpointError> {
        match recv(&self.socket, &mut self.message[..], RecvFlags::DONTWAIT) {
            Ok((len, _)) => Ok(Some(len)),
            Err(error) if passes(error) => Ok(None),
            Err(error) => Err(self.failed("receive", error)),
        }
    }
}

impl<S: Socket> Endpoint for OneByOne<S> {
    const ONE_BY_ONE: bool = true;

    fn open(port: &str, technique: Technique, setup: &Setup) -> Result<OneByOne<S>, EndpointError> {
        let socket = open_on(port, technique, setup, |link| S::open(link, setup))?;
        let burst = usize::from(setup.burst);
        Ok(OneByOne { port: port.to_owned(), technique, socket, message: Box::new([0; ROOM]), burst })
    }

    #[inline]
    fn send(&mut self, lengths: &[u16], fill: &mut impl FnMut(usize, &mut [u8])) -> Result<usize, EndpointError> {
        for (index, &length) in lengths.iter().enumerate() {
            let len = usize::from(length) - S::KERNELS;
            fill(index, self.socket.begin(&mut self.message[..len]));
            if !self.send_message(len)? {
                return Ok(index);
            }
        }
        Ok(lengths.len())
    }

    #[inline]
    fn receive(&mut self, take: &mut impl FnMut(&[u8], bool)) -> Result<usize, EndpointError> {
        let mut received = 0;
        for _ in 0..self.burst {
            let Some(len) = self.receive_message()? else { break };
            if let Some((payload, intact)) = self.socket.payload(&self.message[..len]) {
                take(payload, intact);
                received += 1;
            }
        }
        Ok(received)
    }

    #[inline]
    fn reflect(&mut self) -> Result<Reflected, EndpointError> {
        let mut reflected = Reflected::default();
        for _ in 0..self.burst {
            let Some(len) = self.receive_message()? else { break };
            if self.socket.payload(&self.message[..len]).is_some() {
                self.socket.begin(&mut self.message[..len]);
                reflected.received += 1;
                reflected.sent += u64::from(self.send_message(len)?);
            }
        }
        Ok(reflected)
    }
}
