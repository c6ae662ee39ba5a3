//! Hostile controllers, next to two honest guests and an honest controller. The switch is checked meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use e2e::live::Live;
use e2e::{Home, wait_for};
use lab::millrace::config::*;

const HELLO: u8 = 0;
const PACKET_OUT: u8 = 13;
const BARRIER_REQUEST: u8 = 20;
const BARRIER_REPLY: u8 = 21;

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (8 + body.len() as u16).to_be_bytes();
    [&[4, kind, length[0], length[1], 0, 0, 0, 1], body].concat()
}

/// Starts a switch with a bridge that controllers set flows in.
fn live() -> Live {
    let bridge = by_flows(bridge("br0", ["a", "b"]));
    let channel = listen("unix:of.sock");
    Live::new((vhost_user("a"), vhost_user("b"), bridge, channel))
}

/// A controller that keeps to the protocol.
struct Honest(UnixStream);

impl Honest {
    fn connect(home: &Home) -> Honest {
        Honest::try_connect(home).expect("the switch takes a controller")
    }

    /// Connects, and exchanges HELLOs.
    fn try_connect(home: &Home) -> Option<Honest> {
        let mut stream = UnixStream::connect(home.socket("of")).ok()?;
        stream.set_read_timeout(Some(e2e::SOON)).unwrap();
        stream.write_all(&message(HELLO, &[])).ok()?;
        let mut honest = Honest(stream);
        (honest.read()? == HELLO).then_some(honest)
    }

    /// Reads a message; returns its type.
    fn read(&mut self) -> Option<u8> {
        let mut header = [0; 8];
        self.0.read_exact(&mut header).ok()?;
        let mut body = vec![0; usize::from(u16::from_be_bytes([header[2], header[3]])) - header.len()];
        self.0.read_exact(&mut body).ok()?;
        Some(header[1])
    }

    /// Sends a barrier, and waits until it is answered.
    fn ask(&mut self) {
        self.0.write_all(&message(BARRIER_REQUEST, &[])).unwrap();
        assert_eq!(self.read(), Some(BARRIER_REPLY), "the barrier is answered");
    }
}

#[test]
fn a_controller_sends_packets_without_end() {
    let live = live();
    let mut controller = Honest::connect(&live.home).0;
    // No buffer, from the controller, one action of 16 bytes: to all ports.
    let from = [&[0xff; 4][..], &[0xff, 0xff, 0xff, 0xfd, 0, 16], &[0; 6]].concat();
    let to_all = [&[0, 0, 0, 16, 0xff, 0xff, 0xff, 0xfb, 0xff, 0xff][..], &[0; 6]].concat();
    let flood = message(PACKET_OUT, &[&from[..], &to_all, &[0xff; 1000]].concat()).repeat(16);
    let sent = |live: &Live| -> u64 { live.millrace.port("a").drops().values().sum() };
    live.during(|attack| {
        while attack.continues() {
            controller.write_all(&flood).unwrap();
            attack.strike();
        }
    });
    wait_for("packets to have come", || (sent(&live) > 0).then_some(()));
    drop(controller);
    live.finish();
}

/// Controllers at once.
const CROWD: usize = 150;

#[test]
fn many_clients_send_nonsense() {
    let live = live();
    let mut honest = Honest::connect(&live.home);
    let nonsense: [Vec<u8>; 6] = [
        (0..200).map(|byte: u8| byte.wrapping_mul(91)).collect(),
        // The length of less than a header, another version, and half a message.
        vec![4, HELLO, 0, 4, 0, 0, 0, 1],
        vec![1, HELLO, 0, 8, 0, 0, 0, 1],
        message(HELLO, &[])[..5].to_vec(),
        [message(HELLO, &[]), message(14, &[0xff; 400]).repeat(20), message(18, &[0xff; 8])].concat(),
        [message(HELLO, &[]), message(14, &[0; 60])[..30].to_vec()].concat(),
    ];
    let (mark, began) = (live.millrace.daemon.log().mark(), Instant::now());
    live.during(|attack| {
        while attack.continues() {
            let crowd: Vec<_> = (0..CROWD).map(|_| UnixStream::connect(live.home.socket("of")).unwrap()).collect();
            for (mut stream, nonsense) in crowd.iter().zip(nonsense.iter().cycle()) {
                match stream.write_all(nonsense) {
                    // Most are one too many.
                    Err(error) => assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)),
                    Ok(()) => honest.ask(),
                }
            }
            attack.strike();
        }
    });
    let complaints = live.millrace.daemon.log().since(mark);
    let complaints = complaints.iter().filter(|line| line.contains("a controller is disconnected")).count();
    // Ten at once, and then one in a second.
    let limit = 10 + (began.elapsed() + Duration::from_secs(1)).as_secs() as usize;
    assert!((1..=limit).contains(&complaints), "{complaints} lines, and at most {limit} are expected");
    honest.ask();
    wait_for("room for another controller", || Honest::try_connect(&live.home)).ask();
    drop(honest);
    live.finish();
}
