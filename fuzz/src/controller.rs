//! A controller that sends anything, in any pieces: the switch answers or closes, and stays within its announced limits.

use arbitrary::Arbitrary;
use openflow::{Identity, Switch};

/// Capacity of each flow table.
const FLOWS: usize = 8;

/// Data to send: messages with valid lengths, and raw bytes.
#[derive(Arbitrary, Debug)]
pub struct Input {
    pieces: Vec<Piece>,
}

#[derive(Arbitrary, Debug)]
enum Piece {
    Message {
        kind: u8,
        xid: u32,
        body: Vec<u8>,
    },
    Bytes(Vec<u8>),
    /// Advances time by milliseconds.
    Wait(u16),
}

/// Sends all of it to a switch after a valid greeting.
pub fn run(input: &Input) {
    let mut switch = Switch::new(Identity::default(), FLOWS, FLOWS);
    let id = switch.connect();
    let mut now = 0;
    if switch.receive(id, &[4, 0, 0, 8, 0, 0, 0, 0], now).is_err() {
        panic!("a right greeting was refused");
    }
    for piece in &input.pieces {
        let bytes = match piece {
            Piece::Message { kind, xid, body } => {
                let len = (8 + body.len()).min(0xffff) as u16;
                [&[4, *kind][..], &len.to_be_bytes(), &xid.to_be_bytes(), &body[..usize::from(len) - 8]].concat()
            }
            Piece::Bytes(bytes) => bytes.clone(),
            Piece::Wait(millis) => {
                now += u64::from(*millis);
                switch.expire(now);
                continue;
            }
        };
        if switch.receive(id, &bytes, now).is_err() {
            break;
        }
        while switch.event().is_some() {}
        assert!(switch.tables().all()[0].len() <= FLOWS && switch.tables().aggregation().len() <= FLOWS);
        if let Some(output) = switch.output(id) {
            assert!(output.len() <= 2 * openflow::BACKLOG + (128 << 10));
            output.clear();
        }
    }
    let _ = switch.next_hops();
    switch.disconnect(id);
}
