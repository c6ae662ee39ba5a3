//! A backend that takes no memory of guests: it passes everything else on to a wire.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use vhost::vhost_user::VhostUserProtocolFeatures as ProtocolFeatures;
use vhost::vhost_user::message::FrontendReq;

/// The gate's reaction to a memory table with more than `most` regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// It takes the table.
    Take,
    /// It answers that it failed, and keeps the table before.
    Refuse,
    /// It hangs up.
    HangUp,
    /// It never answers again.
    Silence,
}

/// Length of a message's header: request, flags, length of the body.
const HEADER: usize = 12;

/// Flags of a reply: the version, and REPLY.
const REPLY: u32 = 1 | 4;

struct Shared {
    reaction: Mutex<Reaction>,
    /// Regions in a table that it takes in any case; the switch's own memory is one.
    most: usize,
    /// Whether it has REPLY_ACK.
    acknowledges: bool,
    connections: AtomicUsize,
    /// The present connections: to the switch, and to the wire.
    present: Mutex<Option<[UnixStream; 2]>>,
}

/// The backend.
pub struct Gate(Arc<Shared>);

impl Gate {
    /// Listens at `socket`, in front of the wire at `behind`. Without `acknowledges` it doesn't have REPLY_ACK.
    pub fn open(socket: &Path, behind: PathBuf, reaction: Reaction, most: usize, acknowledges: bool) -> Gate {
        let listener = UnixListener::bind(socket).unwrap();
        let shared = Arc::new(Shared {
            reaction: Mutex::new(reaction),
            most,
            acknowledges,
            connections: AtomicUsize::new(0),
            present: Mutex::new(None),
        });
        let serving = shared.clone();
        // Both threads end with the test.
        std::thread::spawn(move || {
            for switch in listener.incoming() {
                serving.connections.fetch_add(1, Ordering::Relaxed);
                let (switch, wire) = (switch.unwrap(), UnixStream::connect(&behind).unwrap());
                *serving.present.lock().unwrap() = Some([&switch, &wire].map(|end| end.try_clone().unwrap()));
                let (to_switch, from_wire) = (switch.try_clone().unwrap(), wire.try_clone().unwrap());
                let acknowledges = serving.acknowledges;
                let replies = std::thread::spawn(move || pass_replies(from_wire, to_switch, acknowledges));
                serving.pass_requests(&switch, &wire);
                serving.hang_up();
                replies.join().unwrap();
            }
        });
        Gate(shared)
    }

    /// Sets the reaction to further tables.
    pub fn react(&self, reaction: Reaction) {
        *self.0.reaction.lock().unwrap() = reaction;
    }

    /// Returns how many times the switch has connected.
    pub fn connections(&self) -> usize {
        self.0.connections.load(Ordering::Relaxed)
    }

    /// Ends the present connection.
    pub fn hang_up(&self) {
        self.0.hang_up();
    }
}

impl Shared {
    fn hang_up(&self) {
        for end in self.present.lock().unwrap().iter().flatten() {
            // The other side may have been faster.
            let _ = end.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Passes requests on, until either side hangs up.
    fn pass_requests(&self, mut switch: &UnixStream, wire: &UnixStream) {
        while let Some((message, fds)) = request(switch) {
            let word = |at: usize| u32::from_ne_bytes(message[at..at + 4].try_into().unwrap());
            let is_table = word(0) == u32::from(FrontendReq::SET_MEM_TABLE);
            let reaction = if is_table && word(HEADER) as usize > self.most {
                *self.reaction.lock().unwrap()
            } else {
                Reaction::Take
            };
            let passed = match reaction {
                Reaction::Take => pass_on(wire, &message, &fds),
                Reaction::Refuse => {
                    let failed = [word(0), REPLY, 8, 1, 0].map(u32::to_ne_bytes).concat();
                    switch.write_all(&failed).is_ok()
                }
                Reaction::HangUp => false,
                Reaction::Silence => true,
            };
            if !passed {
                return;
            }
        }
    }
}

/// Returns the next request and its descriptors, or `None` at the end.
fn request(mut stream: &UnixStream) -> Option<(Vec<u8>, Vec<OwnedFd>)> {
    let mut header = [0; HEADER];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(stream, &mut [IoSliceMut::new(&mut header)], &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    // Descriptors come with the first byte.
    let fds = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
        _ => Vec::new(),
    });
    let fds = fds.collect();
    stream.read_exact(header.get_mut(received.bytes..)?).ok().filter(|()| received.bytes > 0)?;
    let mut body = vec![0; u32::from_ne_bytes(header[8..].try_into().unwrap()) as usize];
    stream.read_exact(&mut body).ok()?;
    Some(([&header[..], &body].concat(), fds))
}

fn pass_on(stream: &UnixStream, message: &[u8], fds: &[OwnedFd]) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<_> = fds.iter().map(OwnedFd::as_fd).collect();
    assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(&fds)));
    let sent = sendmsg(stream, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL);
    sent.is_ok_and(|sent| sent == message.len())
}

/// Passes replies on, until either side hangs up.
fn pass_replies(wire: UnixStream, mut switch: UnixStream, acknowledges: bool) {
    while let Some((mut message, _)) = request(&wire) {
        if !acknowledges && message[..4] == u32::from(FrontendReq::GET_PROTOCOL_FEATURES).to_ne_bytes() {
            let offered = u64::from_ne_bytes(message[HEADER..].try_into().unwrap());
            message[HEADER..].copy_from_slice(&(offered & !ProtocolFeatures::REPLY_ACK.bits()).to_ne_bytes());
        }
        if switch.write_all(&message).is_err() {
            return;
        }
    }
    // So that the switch notices that the wire has gone.
    let _ = switch.shutdown(std::net::Shutdown::Both);
}
