//! One controller's channel: framing, version negotiation, role, and wanted notices.

use super::answer::Answer;
use super::bundle::Bundles;
use crate::wire::ofp::{HEADER_LEN, VERSION, bundle, message};
use crate::wire::{Error, Message, Put, Reader, put_message};
use std::collections::BTreeMap;

/// Bytes of the offending message in an error: the least that the specification requires.
const ERROR_DATA: usize = 64;

/// Bytes of packets from all ports that a controller may leave unread before more are dropped. Other notices are dropped
/// beyond twice as much.
pub const BACKLOG: usize = 1 << 20;

/// Bytes of unsent output at which requests have to wait.
const UNREAD: usize = 64 << 10;

/// Type of an error whose code is an extension's. The extension is named behind it.
const EXTENSION: u16 = 0xffff;

/// A controller's role (Section 6.3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names say it.
pub enum Role {
    Equal = 1,
    Master = 2,
    Slave = 3,
}

/// Kinds of notices that a controller can select, in the order of `ofp_async_config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    PacketIn,
    PortStatus,
    FlowRemoved,
}

/// A channel.
#[derive(Debug)]
pub(super) struct Connection {
    pub input: Vec<u8>,
    pub output: Vec<u8>,
    /// The answer to send after the output, piece by piece.
    pub answer: Option<Answer>,
    pub negotiated: bool,
    pub role: Role,
    /// By notice: bit masks of the wanted reasons as master or equal, and as slave.
    pub wanted: [[u32; 2]; 3],
    /// The value to report on request. It has no effect: packets are never buffered, so they are always sent whole.
    pub miss_send_len: u16,
    pub bundles: Bundles,
    /// Bytes of packets in the output, by input port.
    shown: BTreeMap<u32, usize>,
    /// Notices that were dropped because the controller doesn't read.
    pub lost: u64,
}

impl Connection {
    /// Creates a channel, with HELLO in its output.
    pub fn new() -> Connection {
        let mut output = Vec::new();
        // An element of type 1: the bitmap of versions, here only bit 4.
        put_message(&mut output, message::HELLO, 0, |body| body.put(&[0, 1, 0, 8, 0, 0, 0, 1 << VERSION]));
        Connection {
            input: Vec::new(),
            output,
            answer: None,
            negotiated: false,
            role: Role::Equal,
            // Section 7.3.10 requires this default: the ports' state for slaves, and for others everything but packets whose time to live is
            // over.
            wanted: [[0b11, 0], [0b111, 0b111], [0b1111, 0]],
            miss_send_len: 128,
            bundles: Bundles::default(),
            shown: BTreeMap::new(),
            lost: 0,
        }
    }

    /// Reports whether requests must wait until the controller has read its output.
    pub fn is_blocked(&self) -> bool {
        self.answer.is_some() || self.output.len() >= UNREAD
    }

    /// Returns the reasons for which the controller wants notices of this kind, a bit each.
    pub fn reasons(&self, notice: Notice) -> u32 {
        let role = usize::from(self.role == Role::Slave);
        if self.negotiated { self.wanted[notice as usize][role] } else { 0 }
    }

    /// Reports whether there is room for one more notice.
    pub fn has_room(&self) -> bool {
        self.output.len() < 2 * BACKLOG
    }

    /// Takes room for `len` bytes of a packet from `in_port`, one of `ports` ports; returns false if there is none. A flood at
    /// one port displaces neither packets of other ports nor other notices.
    pub fn takes_room(&mut self, in_port: u32, len: usize, ports: usize) -> bool {
        if self.output.is_empty() {
            self.shown.clear();
        }
        let has_room = self.has_room();
        let shown = self.shown.entry(in_port).or_default();
        let takes = has_room && (*shown == 0 || *shown + len <= BACKLOG / (ports + 1));
        *shown += if takes { len } else { 0 };
        takes
    }

    /// Answers a request with an error.
    pub fn fail(&mut self, request: &Message, error: Error) {
        let data = &request.bytes[..request.bytes.len().min(ERROR_DATA)];
        self.send_error(request.xid, error, data);
    }

    /// Sends an error with some data.
    pub fn send_error(&mut self, xid: u32, error: Error, data: &[u8]) {
        put_message(&mut self.output, message::ERROR, xid, |body| {
            let (kind, code) = error.numbers();
            body.u16(kind);
            body.u16(code);
            if kind == EXTENSION {
                body.u32(bundle::ONF);
            }
            body.put(data);
        });
    }

    /// Handles the first message, which must be a HELLO that allows our version.
    pub fn negotiate(&mut self, hello: &Message) -> Result<(), Error> {
        self.negotiated = hello.kind == message::HELLO && offers_our_version(hello);
        if self.negotiated {
            return Ok(());
        }
        let text = Error::HelloIncompatible.to_string();
        self.send_error(hello.xid, Error::HelloIncompatible, text.as_bytes());
        Err(Error::HelloIncompatible)
    }
}

/// Reports whether the peer's bitmap has our version; without a bitmap, whether its highest version is not below ours
/// (Section 6.3.1).
fn offers_our_version(hello: &Message) -> bool {
    let mut elements = hello.body();
    loop {
        let mut header = elements;
        let (Some(kind), Some(len)) = (header.u16(), header.u16()) else { break };
        let Some(element) = elements.take(usize::from(len)).filter(|_| len >= 4) else { break };
        // Elements are padded to eight bytes, which their length leaves out.
        let padding = usize::from(len).next_multiple_of(8) - usize::from(len);
        if elements.take(padding).is_none() {
            elements = Reader(&[]);
        }
        if kind == 1 {
            return Reader(&element[4..]).u32().is_some_and(|versions| versions & 1 << VERSION != 0);
        }
    }
    hello.version >= VERSION
}

/// Returns the length of the first message in `bytes`, if its length field is there; an error if the length is below that
/// of a header, as the start of the next message is then unknown.
pub(super) fn first_len(bytes: &[u8]) -> Result<Option<usize>, ()> {
    let Some([_, _, l0, l1]) = bytes.first_chunk() else { return Ok(None) };
    match usize::from(u16::from_be_bytes([*l0, *l1])) {
        len if len < HEADER_LEN => Err(()),
        len => Ok(Some(len)),
    }
}
