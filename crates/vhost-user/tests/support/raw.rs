//! A peer that sends arbitrary bytes.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use vhost::vhost_user::message::FrontendReq;

/// Encodes 32-bit words for the wire.
pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

pub struct Raw(pub UnixStream);

impl Raw {
    pub fn connect(socket: &Path) -> Raw {
        Raw(super::wait_for("the socket", || UnixStream::connect(socket).ok()))
    }

    /// Sends a message with a well-formed header.
    pub fn send(&self, request: FrontendReq, body: &[u8], fds: &[BorrowedFd<'_>]) {
        let header = words(&[request.into(), 1, body.len() as u32]);
        self.send_bytes(&[header, body.to_vec()].concat(), fds);
    }

    /// Sends any bytes. Ignores a closed connection, which some tests expect.
    pub fn send_bytes(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
        }
        let _ = sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
    }

    pub fn send_u64(&self, request: FrontendReq, value: u64) {
        self.send(request, &value.to_ne_bytes(), &[]);
    }

    /// Sends a number, and wants to know whether it was obeyed.
    pub fn send_acked(&self, request: FrontendReq, value: u64) {
        let header = words(&[request.into(), 9, size_of::<u64>() as u32]);
        self.send_bytes(&[header, value.to_ne_bytes().to_vec()].concat(), &[]);
    }

    pub fn send_state(&self, request: FrontendReq, index: u32, value: u32) {
        self.send(request, &words(&[index, value]), &[]);
    }

    /// Sends SET_VRING_KICK or SET_VRING_CALL.
    pub fn send_fd(&self, request: FrontendReq, queue: u64, fd: impl AsFd) {
        self.send(request, &queue.to_ne_bytes(), &[fd.as_fd()]);
    }

    /// Sends SET_VRING_ADDR without a log.
    pub fn send_addr(&self, queue: u32, descriptors: u64, driver: u64, device: u64) {
        let addresses: Vec<u8> = [descriptors, device, driver, 0].iter().flat_map(|a| a.to_ne_bytes()).collect();
        self.send(FrontendReq::SET_VRING_ADDR, &[words(&[queue, 0]), addresses].concat(), &[]);
    }

    /// Sends SET_MEM_TABLE with (guest address, length, user address, offset) per region.
    pub fn send_table(&self, regions: &[[u64; 4]], fds: &[BorrowedFd<'_>]) {
        let body: Vec<u8> = regions.iter().flatten().flat_map(|v| v.to_ne_bytes()).collect();
        self.send(FrontendReq::SET_MEM_TABLE, &[words(&[regions.len() as u32, 0]), body].concat(), fds);
    }

    /// Returns the body of the next reply, or `None` if the connection ends.
    pub fn reply(&self) -> Option<Vec<u8>> {
        let mut stream = &self.0;
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut header = [0; 12];
        stream.read_exact(&mut header).ok()?;
        let mut body = vec![0; u32::from_ne_bytes(header[8..].try_into().unwrap()) as usize];
        stream.read_exact(&mut body).ok()?;
        Some(body)
    }

    pub fn reply_u64(&self) -> u64 {
        u64::from_ne_bytes(self.reply().expect("a reply").try_into().expect("a reply of eight bytes"))
    }

    /// Waits until the peer closes the connection, and reports whether it did.
    pub fn is_closed(&self) -> bool {
        let mut stream = &self.0;
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(e) => e.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Negotiates these features: everything up to sharing memory.
    pub fn negotiate(&self, features: u64) {
        self.send(FrontendReq::SET_OWNER, &[], &[]);
        self.send(FrontendReq::GET_FEATURES, &[], &[]);
        self.reply_u64();
        self.send_u64(FrontendReq::SET_FEATURES, features);
    }
}

/// A pipe that shows whether anybody still holds the descriptor that was sent.
pub struct Witness {
    read: OwnedFd,
    pub write: Option<OwnedFd>,
}

impl Witness {
    pub fn new() -> Witness {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        Witness { read, write: Some(write) }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.write.as_ref().unwrap().as_fd()
    }

    /// Fails if a descriptor leaked.
    pub fn all_closed(mut self) {
        self.write = None;
        let mut polled = [PollFd::new(&self.read, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec { tv_sec: 60, tv_nsec: 0 })).unwrap();
        assert!(polled[0].revents().contains(PollFlags::HUP), "a descriptor that was sent is still open");
    }
}
