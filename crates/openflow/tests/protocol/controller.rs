//! The controller's end, written without the crate's own codecs.

use openflow::{Closed, ConnectionId, Identity, Key, Millis, Port, Switch};
use packet::MacAddr;

/// Has a worker count packets with this key for their flow, and the switch look at it.
pub fn count_packets(switch: &mut Switch, key: &Key, packets: u64, bytes: u64, now: Millis) {
    let tables = switch.tables_mut();
    let slot = tables.lookup(0, key).found.expect("there is a flow").slot.index();
    tables.counters().lane(0).add(slot, packets, bytes);
    tables.look(now);
}

/// Builds a message.
pub fn message(kind: u8, xid: u32, body: &[u8]) -> Vec<u8> {
    let len = (8 + body.len()) as u16;
    [&[4, kind][..], &len.to_be_bytes(), &xid.to_be_bytes(), body].concat()
}

/// Builds an OXM field; with a mask, `value` ends with it.
pub fn oxm(number: u8, masked: bool, value: &[u8]) -> Vec<u8> {
    [&[0x80, 0, number << 1 | u8::from(masked), value.len() as u8], value].concat()
}

/// Builds an `ofp_match`.
pub fn matching(fields: &[Vec<u8>]) -> Vec<u8> {
    let fields = fields.concat();
    let len = 4 + fields.len();
    let mut out = [&[0, 1][..], &(len as u16).to_be_bytes(), &fields].concat();
    out.resize(len.next_multiple_of(8), 0);
    out
}

/// Builds an apply-actions instruction.
pub fn apply(actions: &[Vec<u8>]) -> Vec<u8> {
    instruction(4, &[&[0; 4][..], &actions.concat()].concat())
}

pub fn instruction(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &(4 + body.len() as u16).to_be_bytes(), body].concat()
}

pub fn output(port: u32) -> Vec<u8> {
    [&[0, 0, 0, 16][..], &port.to_be_bytes(), &[0; 8]].concat()
}

pub fn set_nfi(nfi: u16) -> Vec<u8> {
    [&[0xff, 0xff, 0, 16, 0x4d, 0x49, 0x4c, 0x4c, 0, 1][..], &nfi.to_be_bytes(), &[0; 4]].concat()
}

/// A FLOW_MOD, by default without instructions.
#[derive(Clone)]
pub struct FlowMod {
    pub cookie: u64,
    pub cookie_mask: u64,
    pub table: u8,
    pub command: u8,
    pub idle: u16,
    pub hard: u16,
    pub priority: u16,
    pub buffer: u32,
    pub out_port: u32,
    pub flags: u16,
    pub matches: Vec<u8>,
    pub instructions: Vec<u8>,
}

impl FlowMod {
    pub fn new(command: u8, priority: u16, fields: &[Vec<u8>]) -> FlowMod {
        FlowMod {
            cookie: 0,
            cookie_mask: 0,
            table: 0,
            command,
            idle: 0,
            hard: 0,
            priority,
            buffer: u32::MAX,
            out_port: u32::MAX,
            flags: 0,
            matches: matching(fields),
            instructions: Vec::new(),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut body = [self.cookie.to_be_bytes(), self.cookie_mask.to_be_bytes()].concat();
        body.extend([self.table, self.command]);
        for value in [self.idle, self.hard, self.priority] {
            body.extend(value.to_be_bytes());
        }
        for value in [self.buffer, self.out_port, u32::MAX] {
            body.extend(value.to_be_bytes());
        }
        body.extend(self.flags.to_be_bytes());
        body.extend([0; 2]);
        body.extend(&self.matches);
        body.extend(&self.instructions);
        message(14, 99, &body)
    }
}

/// A message from the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub kind: u8,
    pub xid: u32,
    pub body: Vec<u8>,
}

impl Received {
    /// Returns type and code of an error; panics for any other message.
    pub fn error(&self) -> (u16, u16) {
        assert_eq!(self.kind, 1, "{self:?}");
        (u16::from_be_bytes([self.body[0], self.body[1]]), u16::from_be_bytes([self.body[2], self.body[3]]))
    }
}

/// Adds ports with the numbers from 1 on.
pub fn add_ports(switch: &mut Switch, count: u32) {
    for number in 1..=count {
        switch.set_port(
            Port { number, mac: MacAddr([2; 6]), name: format!("p{number}"), up: true, speed: 0, configurable: true },
            0,
        );
    }
}

/// A switch with controllers.
pub struct Rig {
    pub switch: Switch,
    pub now: Millis,
}

impl Rig {
    pub fn new() -> Rig {
        let mut switch = Switch::new(Identity { datapath_id: 7, ..Identity::default() }, 4, 4096);
        add_ports(&mut switch, 2);
        Rig { switch, now: 0 }
    }

    /// Connects a controller and exchanges HELLOs.
    pub fn connect(&mut self) -> ConnectionId {
        let id = self.switch.connect();
        self.send(id, &message(0, 1, &[])).unwrap();
        assert_eq!(self.take(id)[0].kind, 0);
        assert!(self.switch.is_ready(id));
        id
    }

    pub fn send(&mut self, id: ConnectionId, bytes: &[u8]) -> Result<(), Closed> {
        self.switch.receive(id, bytes, self.now)
    }

    /// Takes all messages that the switch sends to a controller.
    pub fn take(&mut self, id: ConnectionId) -> Vec<Received> {
        let mut bytes = std::mem::take(self.switch.output(id).unwrap());
        while self.switch.is_busy(id) {
            self.switch.receive(id, &[], self.now).unwrap();
            bytes.append(self.switch.output(id).unwrap());
        }
        let mut rest = &bytes[..];
        let mut messages = Vec::new();
        while !rest.is_empty() {
            let len = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
            assert_eq!(rest[0], 4);
            let xid = u32::from_be_bytes([rest[4], rest[5], rest[6], rest[7]]);
            messages.push(Received { kind: rest[1], xid, body: rest[8..len].to_vec() });
            rest = &rest[len..];
        }
        messages
    }

    /// Sends a request, and takes the answers.
    pub fn ask(&mut self, id: ConnectionId, bytes: &[u8]) -> Vec<Received> {
        self.send(id, bytes).unwrap();
        self.take(id)
    }

    /// Sends a request that must be answered with one error.
    pub fn refused(&mut self, id: ConnectionId, bytes: &[u8]) -> (u16, u16) {
        let answers = self.ask(id, bytes);
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers[0].error()
    }

    /// Sends a request that must succeed without an answer.
    pub fn done(&mut self, id: ConnectionId, bytes: &[u8]) {
        assert_eq!(self.ask(id, bytes), []);
    }
}
