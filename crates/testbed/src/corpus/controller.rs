//! A controller that sets the flows of one path, and needs no other program: the required subset of OpenFlow 1.3.

use std::io::{Error, Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Time limit of an answer.
const LIMIT: Duration = Duration::from_secs(60);

const VERSION: u8 = 4;
const HELLO: u8 = 0;
const ERROR: u8 = 1;
const FLOW_MOD: u8 = 14;
const BARRIER_REQUEST: u8 = 20;
const BARRIER_REPLY: u8 = 21;

/// Fields of OXM's basic class (§7.2.3.7).
const IN_PORT: u8 = 0;
const ETH_TYPE: u8 = 5;
const VLAN_VID: u8 = 6;
const IP_PROTO: u8 = 10;

/// Sets flows that lead all frames of port `from` to port `to`, through two tables and by all headers that they may have: whatever a
/// frame is, a flow matches it. Waits until they are in force.
pub fn lead(socket: &Path, from: u32, to: u32) -> Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut request = message(HELLO, &[]);
    request.extend(flow(0, 1, &[field(IN_PORT, &from.to_be_bytes())], &go_to(1)));
    let ethertypes = [[8, 0], [0x86, 0xdd], [8, 6], [0x88, 0x47]];
    let mut matches = vec![Vec::new(), vec![tagged()]];
    matches.extend(ethertypes.map(|ethertype| vec![field(ETH_TYPE, &ethertype)]));
    for ip in &ethertypes[..2] {
        matches.extend([6, 17].map(|protocol| vec![field(ETH_TYPE, ip), field(IP_PROTO, &[protocol])]));
    }
    for (priority, fields) in (1..).zip(&matches) {
        request.extend(flow(1, priority, fields, &output(to)));
    }
    request.extend(message(BARRIER_REQUEST, &[]));
    stream.write_all(&request)?;
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header)?;
        let [_, kind, l0, l1, ..] = header;
        let mut body = vec![0; usize::from(u16::from_be_bytes([l0, l1])).saturating_sub(header.len())];
        stream.read_exact(&mut body)?;
        match kind {
            BARRIER_REPLY => return Ok(()),
            ERROR => {
                return Err(Error::other(format!("the switch refused a flow: {:02x?}", &body[..body.len().min(4)])));
            }
            _ => {}
        }
    }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (8 + body.len()) as u16;
    [&[VERSION, kind][..], &length.to_be_bytes(), &[0; 4], body].concat()
}

/// Returns the message that adds a flow (§7.3.4.1).
fn flow(table: u8, priority: u16, fields: &[Vec<u8>], instruction: &[u8]) -> Vec<u8> {
    let fields = fields.concat();
    // ofp_match (§7.2.3): its length does not count the padding.
    let mut matches = [&1u16.to_be_bytes()[..], &(4 + fields.len() as u16).to_be_bytes(), &fields].concat();
    matches.resize(matches.len().next_multiple_of(8), 0);
    let any = [0xff; 4];
    let fixed = [&[0; 16][..], &[table, 0], &[0; 4], &priority.to_be_bytes(), &any, &any, &any, &[0; 4]].concat();
    message(FLOW_MOD, &[&fixed, &matches, instruction].concat())
}

fn field(number: u8, value: &[u8]) -> Vec<u8> {
    [&[0x80, 0, number << 1, value.len() as u8], value].concat()
}

/// Returns the field that matches frames with a VLAN tag (§7.2.3.8).
fn tagged() -> Vec<u8> {
    [0x80, 0, VLAN_VID << 1 | 1, 4, 0x10, 0, 0x10, 0].into()
}

/// Returns the instruction to continue in a table.
fn go_to(table: u8) -> Vec<u8> {
    vec![0, 1, 0, 8, table, 0, 0, 0]
}

/// Returns the instruction to send to a port.
fn output(port: u32) -> Vec<u8> {
    [&[0, 4, 0, 24, 0, 0, 0, 0, 0, 0, 0, 16][..], &port.to_be_bytes(), &[0; 8]].concat()
}
