//! A hostile frontend: any messages, whole or not, with any file descriptors, to a vhost-user device that uses its queues as
//! soon as they start.

use arbitrary::Arbitrary;
use packet::BurstStorage;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use vhost_user::Mode;
use vhost_user::backend::{Options, QueueSetup, Queues, Service};
use virtqueue::SetupError;
use virtqueue::device::{Dequeue, Enqueue};

/// Frontend requests of a session, by number (vhost-user, "Front-end message types").
const SET_FEATURES: u32 = 2;
const SET_OWNER: u32 = 3;
const SET_MEM_TABLE: u32 = 5;
const SET_VRING_NUM: u32 = 8;
const SET_VRING_ADDR: u32 = 9;
const SET_VRING_BASE: u32 = 10;
const SET_VRING_KICK: u32 = 12;
const SET_VRING_CALL: u32 = 13;
const SET_PROTOCOL_FEATURES: u32 = 16;
const SET_VRING_ENABLE: u32 = 18;

/// One item to send.
#[derive(Arbitrary, Debug)]
pub enum Message {
    /// Bytes that need not be a message.
    Raw {
        bytes: Vec<u8>,
        fds: u8,
    },
    /// A message with a valid header.
    Any {
        request: u8,
        flags: u8,
        body: Vec<u8>,
        fds: u8,
    },
    Owner,
    Features {
        packed: bool,
        more: u64,
    },
    Protocol(u64),
    Memory {
        len: u32,
        offset: u16,
        fds: u8,
    },
    Number {
        queue: u8,
        size: u16,
    },
    Address {
        queue: u8,
        descriptors: u16,
        driver: u16,
        device: u16,
        beyond: bool,
    },
    Base {
        queue: u8,
        base: u32,
    },
    Kick {
        queue: u8,
        fd: bool,
    },
    Call {
        queue: u8,
        fd: bool,
    },
    Enable {
        queue: u8,
        value: u8,
    },
    StopQueue {
        queue: u8,
    },
}

const USER: u64 = 0x7000_0000_0000;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

impl Message {
    /// Returns its bytes, and the number of file descriptors sent with it.
    fn encode(&self) -> (Vec<u8>, u8) {
        let queue_of = |q: &u8| u32::from(if *q < 250 { q % 3 } else { *q });
        let (request, body, fds) = match self {
            Message::Raw { bytes, fds } => return (bytes.clone(), *fds),
            Message::Any { request, flags, body, fds } => {
                let header = words(&[u32::from(request % 48), u32::from(*flags) | 1, body.len() as u32]);
                return ([header, body.clone()].concat(), *fds);
            }
            Message::Owner => (SET_OWNER, vec![], 0),
            Message::Features { packed, more } => {
                let bits =
                    1u64 << 32 | 1 << 30 | u64::from(*packed) << 34 | more & (1 << 15 | 1 << 28 | 1 << 29 | 1 << 35);
                (SET_FEATURES, bits.to_ne_bytes().to_vec(), 0)
            }
            Message::Protocol(bits) => (SET_PROTOCOL_FEATURES, bits.to_ne_bytes().to_vec(), 0),
            Message::Memory { len, offset, fds } => {
                let count = u32::from(fds % 3 + 1);
                let mut body = words(&[count, 0]);
                for i in 0..u64::from(count) {
                    let start = i << 20;
                    let entry = [start, u64::from(*len) % (1 << 21), USER + start, u64::from(*offset)];
                    body.extend(entry.iter().flat_map(|v| v.to_ne_bytes()));
                }
                (SET_MEM_TABLE, body, fds % 3 + 1)
            }
            Message::Number { queue, size } => (SET_VRING_NUM, words(&[queue_of(queue), u32::from(*size)]), 0),
            Message::Address { queue, descriptors, driver, device, beyond } => {
                let place = |at: &u16| USER + u64::from(*at & !15) + if *beyond { 1 << 20 } else { 0 };
                let addresses = [place(descriptors), place(device), place(driver), 0];
                let addresses: Vec<u8> = addresses.iter().flat_map(|a| a.to_ne_bytes()).collect();
                (SET_VRING_ADDR, [words(&[queue_of(queue), 0]), addresses].concat(), 0)
            }
            Message::Base { queue, base } => (SET_VRING_BASE, words(&[queue_of(queue), *base]), 0),
            Message::Kick { queue, fd } | Message::Call { queue, fd } => {
                let request = if matches!(self, Message::Kick { .. }) { SET_VRING_KICK } else { SET_VRING_CALL };
                let value = u64::from(queue_of(queue)) | if *fd { 0 } else { 1 << 8 };
                (request, value.to_ne_bytes().to_vec(), u8::from(*fd))
            }
            Message::Enable { queue, value } => (SET_VRING_ENABLE, words(&[queue_of(queue), u32::from(*value % 3)]), 0),
            Message::StopQueue { queue } => (11, words(&[queue_of(queue), 0]), 0),
        };
        ([words(&[request, 1, body.len() as u32]), body].concat(), fds)
    }
}

/// Runs every queue once when it starts and once when it stops.
struct Owner {
    running: Mutex<Vec<Option<Side>>>,
    gone: Mutex<Sender<()>>,
}

enum Side {
    Receive(Enqueue),
    Transmit(Dequeue),
}

impl Side {
    fn turn(&self) {
        let mut storage = Box::<BurstStorage>::default();
        match self {
            Side::Receive(queue) => {
                let bytes = [7u8; 100];
                let mut burst = storage.start();
                burst.push((&bytes[..]).into());
                let _ = queue.transmit(burst.frames());
            }
            Side::Transmit(queue) => {
                let mut burst = storage.start();
                let _ = queue.receive(&mut burst);
                queue.recycle();
            }
        }
    }
}

impl Queues for Owner {
    fn connected(&self) {}

    fn start(&self, index: usize, setup: QueueSetup) -> Result<(), SetupError> {
        let side = if index % 2 == 0 {
            Side::Receive(Enqueue::new(setup.memory, &setup.config)?)
        } else {
            Side::Transmit(Dequeue::new(setup.memory, &setup.config)?)
        };
        side.turn();
        let before = self.running.lock().unwrap()[index].replace(side);
        assert!(before.is_none(), "a queue started twice");
        Ok(())
    }

    fn stop(&self, index: usize) -> Result<Option<u32>, String> {
        let side = self.running.lock().unwrap()[index].take();
        side.iter().for_each(Side::turn);
        Ok(side.map(|side| match side {
            Side::Receive(queue) => queue.base(),
            Side::Transmit(queue) => queue.base(),
        }))
    }

    fn disconnected(&self, _reason: &str) {
        assert!(self.running.lock().unwrap().iter().all(Option::is_none), "a queue outlived its session");
        // Nobody waits for a session in which nothing was said.
        let _ = self.gone.lock().unwrap().send(());
    }

    fn describe(&self, _line: String) {}
}

/// State kept between sessions.
struct Bench {
    socket: std::path::PathBuf,
    memory: OwnedFd,
    event: OwnedFd,
}

fn bench() -> &'static Bench {
    static BENCH: OnceLock<Bench> = OnceLock::new();
    BENCH.get_or_init(|| {
        // Left in the temporary directory: a fuzzer ends without unwinding.
        let socket = tempfile::tempdir().unwrap().keep().join("vhost.sock");
        let memory = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&memory, 4 << 20).unwrap();
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        Bench { socket, memory, event }
    })
}

pub fn run(messages: &[Message]) {
    let bench = bench();
    // A new service per session: a service makes new sessions wait after a refused one.
    let (sender, gone) = channel();
    let running = (0..4).map(|_| None).collect();
    let owner = Arc::new(Owner { running: Mutex::new(running), gone: Mutex::new(sender) });
    let service = Service::spawn(Options::new(&bench.socket, Mode::Server, 2), owner).unwrap();
    let stream = UnixStream::connect(&bench.socket).expect("the device listens after every session");
    stream.set_nonblocking(true).unwrap();
    let mut sent = 0;
    for message in messages.iter().take(64) {
        let (bytes, fds) = message.encode();
        let fd = if matches!(message, Message::Memory { .. }) { bench.memory.as_fd() } else { bench.event.as_fd() };
        let fds = vec![fd; usize::from(fds % 12)];
        if !send(&stream, &bytes, &fds) {
            break;
        }
        sent += bytes.len();
        // Answers are ignored, but must not fill the socket.
        let _ = (&stream).read(&mut [0; 4096]);
    }
    let _ = stream.shutdown(Shutdown::Write);
    drop(stream);
    // A frontend that leaves without sending anything need not have had a session.
    if sent > 0 {
        gone.recv_timeout(Duration::from_secs(50)).expect("a session ends when its frontend is gone");
    }
    drop(service);
}

fn send(stream: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
    if bytes.is_empty() {
        return true;
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(12))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    }
    sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).is_ok()
}
