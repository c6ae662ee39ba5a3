//! The far end of the link of an emulated NIC.

use std::io::{self, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use lab::{Error, Result};
use rustix::io::Errno;
use rustix::net::SendFlags;

/// Bytes before each frame: its length, big-endian (QEMU's `net/stream.c`).
const LENGTH: usize = 4;

/// Time that [`Link::receive`] waits for a frame.
const MOMENT: Duration = Duration::from_millis(20);

/// A socket that QEMU connects to, for one device.
#[derive(Debug)]
pub struct Socket(UnixListener);

impl Socket {
    /// Creates the socket, before the machine starts.
    pub fn bind(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        UnixListener::bind(path).map(Self).map_err(Error::io(format!("creating {}", path.display())))
    }

    /// Waits until the machine has started.
    pub fn accept(self) -> Result<Link> {
        let failed = || Error::io("connecting to an emulated device");
        let (stream, _) = self.0.accept().map_err(failed())?;
        stream.set_read_timeout(Some(MOMENT)).map_err(failed())?;
        Ok(Link { stream, sending: Vec::new(), received: Vec::new() })
    }
}

/// The far end of a link: what it sends, the device receives, and the other way round.
#[derive(Debug)]
pub struct Link {
    stream: UnixStream,
    /// Bytes that the socket had no room for.
    sending: Vec<u8>,
    /// Bytes of frames that have not been returned yet.
    received: Vec<u8>,
}

impl Link {
    /// Reports whether the machine takes another frame.
    pub fn has_room(&mut self) -> Result<bool> {
        self.flush()?;
        Ok(self.sending.is_empty())
    }

    /// Sends a frame, which waits if there is no room for it.
    pub fn send(&mut self, frame: &[u8]) -> Result<()> {
        self.sending.extend_from_slice(&(frame.len() as u32).to_be_bytes());
        self.sending.extend_from_slice(frame);
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        while !self.sending.is_empty() {
            match rustix::net::send(&self.stream, &self.sending, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => drop(self.sending.drain(..sent)),
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(Error::io("sending to an emulated device")(error.into())),
            }
        }
        Ok(())
    }

    /// Returns the next frame, or nothing if none comes within a moment.
    pub fn receive(&mut self) -> Result<Option<Vec<u8>>> {
        let failed = || Error::io("receiving from an emulated device");
        let mut bytes = [0; 1 << 16];
        loop {
            if let Some(frame) = self.next() {
                return Ok(Some(frame));
            }
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(failed()(io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => self.received.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(failed()(error)),
            }
        }
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let (length, rest) = self.received.split_first_chunk::<LENGTH>()?;
        let length = u32::from_be_bytes(*length) as usize;
        let frame = rest.get(..length)?.to_vec();
        self.received.drain(..LENGTH + length);
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_keep_their_bounds_when_the_socket_is_full() -> Result<()> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let [mut near, mut far] = [ours, theirs].map(|stream| {
            stream.set_read_timeout(Some(MOMENT)).unwrap();
            Link { stream, sending: Vec::new(), received: Vec::new() }
        });
        let frame = |number: usize| vec![number as u8; 60 + number % 1455];
        let mut sent = 0;
        while near.has_room()? {
            near.send(&frame(sent))?;
            sent += 1;
        }
        for number in 0..sent {
            assert_eq!(far.receive()?, Some(frame(number)));
            near.flush()?;
        }
        assert_eq!(far.receive()?, None);
        drop(near);
        assert!(far.receive().is_err());
        Ok(())
    }
}
