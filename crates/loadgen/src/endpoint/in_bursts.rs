//! Sockets with a system call for each burst.

use super::contract::{Endpoint, EndpointError, MAX_BURST, Reflected, Setup, Technique};
use super::interface::open_on;
use super::socket::{Socket, passes};
use netdev::Messages;
use rustix::io::Errno;
use std::io;

/// Longest message.
const ROOM: usize = 2048;

/// An endpoint that sends and receives a burst of packets in each system call.
pub struct InBursts<S> {
    port: String,
    technique: Technique,
    socket: S,
    out: Messages,
    into: Messages,
}

impl<S: Socket> InBursts<S> {
    /// Returns the number of messages of a call; none if its error passes.
    #[inline(always)]
    fn count(&self, outcome: io::Result<usize>) -> Result<usize, EndpointError> {
        match outcome {
            Ok(count) => Ok(count),
            Err(error) if Errno::from_io_error(&error).is_some_and(passes) => Ok(0),
            Err(error) => {
                let reason = format!("can't send or receive: {error}");
                Err(EndpointError { port: self.port.clone(), technique: self.technique, reason })
            }
        }
    }
}

impl<S: Socket> Endpoint for InBursts<S> {
    fn open(port: &str, technique: Technique, setup: &Setup) -> Result<InBursts<S>, EndpointError> {
        let socket = open_on(port, technique, setup, |link| S::open(link, setup))?;
        let (out, into) = (Messages::new(MAX_BURST, ROOM), Messages::new(usize::from(setup.burst), ROOM));
        Ok(InBursts { port: port.to_owned(), technique, socket, out, into })
    }

    #[inline]
    fn send(&mut self, lengths: &[u16], fill: &mut impl FnMut(usize, &mut [u8])) -> Result<usize, EndpointError> {
        for (index, &length) in lengths.iter().enumerate() {
            self.out.set_len(index, usize::from(length) - S::KERNELS);
            fill(index, self.socket.begin(self.out.message_mut(index)));
        }
        let outcome = self.out.send(&self.socket, lengths.len());
        self.count(outcome)
    }

    #[inline]
    fn receive(&mut self, take: &mut impl FnMut(&[u8], bool)) -> Result<usize, EndpointError> {
        let outcome = self.into.receive(&self.socket);
        let mut received = 0;
        for index in 0..self.count(outcome)? {
            if let Some((payload, intact)) = self.socket.payload(self.into.message(index)) {
                take(payload, intact);
                received += 1;
            }
        }
        Ok(received)
    }

    #[inline]
    fn reflect(&mut self) -> Result<Reflected, EndpointError> {
        let outcome = self.into.receive(&self.socket);
        let mut own = 0;
        for index in 0..self.count(outcome)? {
            if self.socket.payload(self.into.message(index)).is_some() {
                // Strays go after the packets.
                self.into.swap(own, index);
                self.socket.begin(self.into.message_mut(own));
                own += 1;
            }
        }
        let outcome = if own > 0 { self.into.send(&self.socket, own) } else { Ok(0) };
        Ok(Reflected { received: own as u64, sent: self.count(outcome)? as u64 })
    }
}
