//! `AF_XDP` sockets.

mod chunks;

use super::contract::{Endpoint, EndpointError, HEADERS, Reflected, Setup, Technique};
use super::headers::Headers;
use super::interface::open_on;
use chunks::{Frame, FrameQueue};
use netdev::{Link, ethtool};
use std::io;
use std::time::Duration;
use xsk::{Interface, QueueConfig, Redirect, RedirectConfig};

/// Entries of the rings for receiving, and of those for sending.
const RECEIVE: u32 = 1024;
const TRANSMIT: u32 = 512;

/// Longest wait for the queue, which the kernel frees some time after another socket was closed.
const RELEASE: Duration = Duration::from_secs(10);

/// An endpoint on the only queue of an interface.
pub struct AfXdp {
    port: String,
    // Before the program that redirects frames to it, so that it goes first.
    frames: FrameQueue,
    _redirect: Redirect,
    headers: Headers,
    received: Vec<Frame>,
    burst: u16,
    /// Whether the kernel has frames that it did not send yet.
    unsent: bool,
}

/// Opens the socket on an interface, and the program that redirects frames to it.
fn open(link: &Link, burst: u16) -> Result<(FrameQueue, Redirect), String> {
    let queues = ethtool::rx_queues(link).map_err(|error| error.to_string())?;
    if queues != 1 {
        return Err(format!("it has {queues} receive queues, and must have one: `ethtool -L {} rx 1`", link.name));
    }
    let interface = Interface { name: link.name.clone(), index: link.index, queues };
    let config = QueueConfig {
        fill: RECEIVE,
        rx: RECEIVE,
        tx: TRANSMIT,
        completion: TRANSMIT,
        busy_wait: RELEASE,
        ..QueueConfig::default()
    };
    let failed = |error: xsk::Error| error.to_string();
    let redirect = Redirect::attach(&interface, &RedirectConfig::default()).map_err(failed)?;
    let frames = FrameQueue::open(&interface, &config, burst)?;
    redirect.insert(frames.rx()).map_err(failed)?;
    Ok((frames, redirect))
}

impl AfXdp {
    /// Turns the error of a system call into one of the endpoint.
    #[inline(always)]
    fn checked<T>(&self, outcome: io::Result<T>) -> Result<T, EndpointError> {
        outcome.map_err(|error| EndpointError {
            port: self.port.clone(),
            technique: Technique::AfXdp,
            reason: format!("the kernel neither sends nor receives any more: {error}"),
        })
    }

    /// Has the kernel send.
    #[inline(always)]
    fn wake(&mut self) -> Result<(), EndpointError> {
        let outcome = self.frames.wake();
        self.unsent = self.checked(outcome)?;
        Ok(())
    }

    /// Does the work that receiving defers.
    #[inline(always)]
    fn refill(&mut self) -> Result<(), EndpointError> {
        let outcome = self.frames.refill(TRANSMIT as usize);
        self.checked(outcome)
    }
}

impl Endpoint for AfXdp {
    fn open(port: &str, technique: Technique, setup: &Setup) -> Result<AfXdp, EndpointError> {
        let (frames, redirect) = open_on(port, technique, setup, |link| open(link, setup.burst))?;
        let headers = Headers::new(setup.addresses, setup.check_headers);
        let received = Vec::with_capacity(setup.burst.into());
        let (port, burst) = (port.to_owned(), setup.burst);
        let mut endpoint = AfXdp { port, frames, _redirect: redirect, headers, received, burst, unsent: false };
        endpoint.refill()?;
        Ok(endpoint)
    }

    #[inline]
    fn send(&mut self, lengths: &[u16], fill: &mut impl FnMut(usize, &mut [u8])) -> Result<usize, EndpointError> {
        self.frames.reclaim();
        let mut taken = 0;
        for (index, &length) in lengths.iter().enumerate() {
            let Some(mut frame) = self.frames.alloc(length.into()) else { break };
            let bytes = self.frames.bytes_mut(&mut frame);
            self.headers.write(bytes);
            fill(index, &mut bytes[HEADERS..]);
            if let Err(frame) = self.frames.send(frame) {
                self.frames.free(frame);
                break;
            }
            taken += 1;
        }
        self.wake()?;
        Ok(taken)
    }

    #[inline]
    fn receive(&mut self, take: &mut impl FnMut(&[u8], bool)) -> Result<usize, EndpointError> {
        if self.unsent {
            self.wake()?;
        }
        self.frames.receive(&mut self.received, self.burst.into());
        if self.received.is_empty() {
            return Ok(0);
        }
        let mut received = 0;
        for frame in self.received.drain(..) {
            if let Some((payload, intact)) = self.headers.payload(self.frames.bytes(&frame)) {
                take(payload, intact);
                received += 1;
            }
            self.frames.free(frame);
        }
        self.refill()?;
        Ok(received)
    }

    #[inline]
    fn reflect(&mut self) -> Result<Reflected, EndpointError> {
        self.frames.reclaim();
        self.frames.receive(&mut self.received, self.burst.into());
        if self.received.is_empty() {
            return if self.unsent { self.wake().map(|()| Reflected::default()) } else { Ok(Reflected::default()) };
        }
        let mut reflected = Reflected::default();
        for mut frame in self.received.drain(..) {
            if self.headers.payload(self.frames.bytes(&frame)).is_none() {
                self.frames.free(frame);
                continue;
            }
            self.headers.write(self.frames.bytes_mut(&mut frame));
            reflected.received += 1;
            match self.frames.send(frame) {
                Ok(()) => reflected.sent += 1,
                Err(frame) => self.frames.free(frame),
            }
        }
        self.wake()?;
        self.refill()?;
        Ok(reflected)
    }
}
