//! Bursts of messages of a socket, each with one system call (sendmmsg(2), recvmmsg(2)).

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use libc::{MSG_DONTWAIT, iovec, mmsghdr, msghdr};

/// Buffers of one size, each for one message of a connected or bound socket.
#[derive(Debug)]
pub struct Messages {
    bytes: Box<[u8]>,
    size: usize,
    lens: Box<[usize]>,
    // Each call fills both; between calls their contents have no meaning.
    vectors: Box<[iovec]>,
    headers: Box<[mmsghdr]>,
}

// SAFETY: the pointers in `vectors` and `headers` are only used by the call that writes them.
unsafe impl Send for Messages {}

impl Messages {
    /// Allocates `count` buffers of `size` bytes each.
    pub fn new(count: usize, size: usize) -> Self {
        let vector = iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        // SAFETY: integers and null pointers: all zero is a valid value, of a message without address or control data.
        let header: msghdr = unsafe { std::mem::zeroed() };
        Self {
            bytes: vec![0; count * size].into(),
            size,
            lens: vec![0; count].into(),
            vectors: vec![vector; count].into(),
            headers: vec![mmsghdr { msg_hdr: header, msg_len: 0 }; count].into(),
        }
    }

    /// Returns the message in a buffer: as it was received, or as long as [`Self::set_len`] has made it.
    #[inline]
    pub fn message(&self, index: usize) -> &[u8] {
        &self.bytes[index * self.size..][..self.lens[index]]
    }

    /// Returns the same for writing.
    #[inline]
    pub fn message_mut(&mut self, index: usize) -> &mut [u8] {
        &mut self.bytes[index * self.size..][..self.lens[index]]
    }

    /// Sets the length of a message to be sent, which is at most the size of a buffer.
    #[inline]
    pub fn set_len(&mut self, index: usize, len: usize) {
        assert!(len <= self.size, "a message of {len} bytes does not fit into a buffer of {}", self.size);
        self.lens[index] = len;
    }

    /// Swaps two messages.
    pub fn swap(&mut self, a: usize, b: usize) {
        if a != b {
            let (low, high) = (a.min(b), a.max(b));
            let (left, right) = self.bytes.split_at_mut(high * self.size);
            left[low * self.size..][..self.size].swap_with_slice(&mut right[..self.size]);
            self.lens.swap(a, b);
        }
    }

    /// Sends the first `count` messages, without waiting; returns how many of the first ones were taken, or the error of the
    /// first one.
    #[inline]
    pub fn send(&mut self, socket: impl AsFd, count: usize) -> io::Result<usize> {
        self.arrange(count, |lens, index| lens[index]);
        let fd = socket.as_fd().as_raw_fd();
        // SAFETY: each of the `count` headers refers to one vector, and this to a part of `bytes`; all live until the call
        // returns, and the kernel only reads the bytes.
        let sent = unsafe { libc::sendmmsg(fd, self.headers.as_mut_ptr(), count as u32, MSG_DONTWAIT as _) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Receives messages into the first buffers, without waiting; returns their number. A message longer than its buffer is cut.
    #[inline]
    pub fn receive(&mut self, socket: impl AsFd) -> io::Result<usize> {
        let (count, size) = (self.lens.len(), self.size);
        self.arrange(count, |_, _| size);
        let fd = socket.as_fd().as_raw_fd();
        let no_timeout = ptr::null_mut();
        // SAFETY: each of the `count` headers refers to one vector, and this to a buffer of `bytes` that no other refers to.
        // All live until the call returns, and are borrowed exclusively.
        let received =
            unsafe { libc::recvmmsg(fd, self.headers.as_mut_ptr(), count as u32, MSG_DONTWAIT as _, no_timeout) };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        for (len, header) in self.lens.iter_mut().zip(&self.headers[..received]) {
            *len = header.msg_len as usize;
        }
        Ok(received)
    }

    /// Points the first `count` headers to their messages.
    #[inline]
    fn arrange(&mut self, count: usize, len: impl Fn(&[usize], usize) -> usize) {
        let (vectors, headers) = (&mut self.vectors[..count], &mut self.headers[..count]);
        for (index, (buffer, vector)) in self.bytes.chunks_exact_mut(self.size).zip(vectors.iter_mut()).enumerate() {
            *vector = iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: len(&self.lens, index) };
        }
        for (header, vector) in headers.iter_mut().zip(vectors) {
            (header.msg_hdr.msg_iov, header.msg_hdr.msg_iovlen) = (vector, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let (a, b) = UnixDatagram::pair().unwrap();
        let mut out = Messages::new(4, 100);
        for (index, len) in [10, 100, 1].into_iter().enumerate() {
            out.set_len(index, len);
            out.message_mut(index).fill(index as u8 + 1);
        }
        out.swap(0, 1);
        assert_eq!(out.send(&a, 3).unwrap(), 3);
        let mut into = Messages::new(2, 50);
        assert_eq!(into.receive(&b).unwrap(), 2);
        assert_eq!((into.message(0), into.message(1)), (&[2; 50][..], &[1; 10][..]));
        assert_eq!(into.receive(&b).unwrap(), 1);
        assert_eq!(into.message(0), [3]);
        assert_eq!(into.receive(&b).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn messages_that_the_kernel_refuses_are_reported() {
        let (a, _b) = UnixDatagram::pair().unwrap();
        let mut out = Messages::new(8, 10);
        (0..8).for_each(|index| out.set_len(index, 10));
        let mut taken = 0;
        let error = loop {
            match out.send(&a, 8) {
                Ok(sent) => taken += sent,
                Err(error) => break error,
            }
        };
        assert!(taken > 0);
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
