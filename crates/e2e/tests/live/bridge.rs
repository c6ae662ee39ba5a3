//! A guest that invents addresses, and a controller that asks but never reads, next to honest guests. The switch is checked
//! meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use e2e::live::Live;
use e2e::virtio::{Guest, Options};
use e2e::{SOON, wait_for};
use lab::millrace::config::*;

const LIMIT: u32 = 256;

fn frame(to: [u8; 6], from: [u8; 6], fill: u8) -> Vec<u8> {
    [&to[..], &from, &[0x08, 0x00], &[fill; 46]].concat()
}

/// Sends a burst; a rogue ignores how many frames fit.
fn send(guest: &mut Guest, frames: impl IntoIterator<Item = Vec<u8>>) {
    guest.reap().unwrap();
    for frame in frames {
        if !guest.send(&[&frame], 1).unwrap() {
            break;
        }
    }
    guest.flush();
}

/// Takes the received frames; returns how many equal `wanted`.
fn came(guest: &mut Guest, wanted: &[u8]) -> usize {
    let mut count = 0;
    guest
        .receive(64, |bytes| {
            count += usize::from(bytes == wanted);
            Ok(())
        })
        .unwrap();
    count
}

#[test]
fn a_guest_that_invents_addresses_evicts_no_other_address() {
    const VICTIM: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const FRIEND: [u8; 6] = [2, 0, 0, 0, 0, 2];
    let ports = ["a", "v", "w"].map(vhost_user);
    let bridge = RawBridge { learned_limit: i64::from(LIMIT).into(), ..bridge("br0", ["a", "v", "w"]) };
    let live = Live::new((ports, bridge));
    let [mut rogue, mut victim, mut friend] =
        ["a", "v", "w"].map(|port| Options::new(live.home.socket(port)).connect().unwrap());
    live.millrace.wait_up(&["a", "v", "w"]);
    let hello = frame([0xff; 6], VICTIM, 1);
    let known = || live.millrace.macs().iter().any(|entry| entry.mac == "02:00:00:00:00:01" && entry.port == "v");
    wait_for("the victim to be known", || {
        send(&mut victim, [hello.clone()]);
        known().then_some(())
    });
    let private = frame(VICTIM, FRIEND, 2);
    let mut number = 0u32;
    live.during(|attack| {
        while attack.continues() {
            // Sequential and random addresses; each frame from a new one to a new one.
            let burst = (0..64).map(|_| {
                number = number.wrapping_add(1);
                let [a, b, c, d] =
                    if number & 64 == 0 { number } else { number.wrapping_mul(0x9e37_79b9) }.to_be_bytes();
                frame([6, 0, a, b, c, d], [10, 0, a, b, c, d], 3)
            });
            send(&mut rogue, burst);
            wait_for("the friend's frame to reach the victim", || {
                send(&mut friend, [private.clone()]);
                came(&mut friend, &private);
                assert_eq!(came(&mut rogue, &private), 0, "what is for the victim is flooded");
                (came(&mut victim, &private) > 0).then_some(())
            });
            attack.strike();
        }
    });
    assert!(known(), "{:?}", live.millrace.macs());
    let learning = |port: &str| live.millrace.port(port).0.learning.unwrap();
    let (a, w) = (learning("a"), learning("w"));
    assert!(a.learned <= LIMIT && a.limit == LIMIT && a.over_limit > 0 && a.flooded > 0, "{a:?}");
    assert_eq!((w.over_limit, w.no_room, w.flooded), (0, 0, 0), "{w:?}");
    live.finish();
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (8 + body.len() as u16).to_be_bytes();
    [&[4, kind, length[0], length[1], 0, 0, 0, 1], body].concat()
}

const HELLO: u8 = 0;
const FLOW_MOD: u8 = 14;
const MULTIPART_REQUEST: u8 = 18;
const BARRIER_REQUEST: u8 = 20;
const BARRIER_REPLY: u8 = 21;

/// Requests statistics of all flows: each by itself, or their sum.
fn statistics(kind: u8) -> Vec<u8> {
    let fixed = [&[0xff, 0, 0, 0][..], &[0xff; 8], &[0; 20], &[0, 1, 0, 4, 0, 0, 0, 0]].concat();
    message(MULTIPART_REQUEST, &[&[0, kind, 0, 0, 0, 0, 0, 0], &fixed[..]].concat())
}

/// Connects a controller that has sent HELLO.
fn controller(live: &Live) -> UnixStream {
    let mut stream = UnixStream::connect(live.home.socket("of")).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(&message(HELLO, &[])).unwrap();
    stream
}

/// Reads messages up to one of this kind.
fn await_message(stream: &mut UnixStream, kind: u8) {
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header).unwrap();
        let mut body = vec![0; usize::from(u16::from_be_bytes([header[2], header[3]])) - 8];
        stream.read_exact(&mut body).unwrap();
        assert_ne!(header[1], 1, "an error: {body:02x?}");
        if header[1] == kind {
            return;
        }
    }
}

#[test]
fn a_controller_asks_without_end_and_reads_nothing() {
    const FLOWS: u16 = 4000;
    /// More than the switch may hold for a few controllers, but far less than all the answers.
    const ROOM: u64 = 32 << 20;
    let bridge = by_flows(bridge("br0", ["a", "b"]));
    let channel = listen("unix:of.sock");
    let live = Live::new((vhost_user("a"), vhost_user("b"), bridge, channel));
    let mut honest = controller(&live);
    for vid in 0..FLOWS {
        // One flow per VLAN, which drops.
        let [high, low] = (0x1000 | vid).to_be_bytes();
        let fixed = [&[0; 16][..], &[0, 0, 0, 0, 0, 0, 0, 1], &[0xff; 12], &[0; 4]].concat();
        let matches = [0, 1, 0, 10, 0x80, 0, 12, 2, high, low, 0, 0, 0, 0, 0, 0];
        honest.write_all(&message(FLOW_MOD, &[&fixed[..], &matches].concat())).unwrap();
    }
    honest.write_all(&message(BARRIER_REQUEST, &[])).unwrap();
    await_message(&mut honest, BARRIER_REPLY);
    let before = live.millrace.usage().rss;
    let connect = || {
        let rogue = controller(&live);
        rogue.set_nonblocking(true).unwrap();
        rogue
    };
    let requests = statistics(1).repeat(146);
    let mut rogue = (connect(), 0);
    // Sends as many requests as can be written now; reports whether the rogue was disconnected.
    let ask = |(stream, at): &mut (UnixStream, usize)| match stream.write(&requests[*at..]) {
        Ok(len) => {
            *at = (*at + len) % requests.len();
            false
        }
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    };
    live.during(|attack| {
        while attack.continues() {
            if ask(&mut rogue) {
                rogue = (connect(), 0);
            }
            // The other controller is answered all the time.
            honest.write_all(&[statistics(2), message(BARRIER_REQUEST, &[])].concat()).unwrap();
            await_message(&mut honest, BARRIER_REPLY);
            attack.strike();
        }
    });
    let after = live.millrace.usage().rss;
    assert!(after < before + ROOM, "{before} bytes before, {after} after");
    wait_for("the controller that does not read to be let go", || ask(&mut rogue).then_some(()));
    honest.write_all(&message(BARRIER_REQUEST, &[])).unwrap();
    await_message(&mut honest, BARRIER_REPLY);
    live.finish();
}
