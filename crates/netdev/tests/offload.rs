//! Work that the kernel leaves to who receives a frame, and takes over from who sends one: TCP and UDP of its stacks, over each pair of
//! interfaces.

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::{Netns, wait_for};
use netdev::{
    Links, PacketRx, PacketTx, PushError, RawSegment, RxConfig, RxMonitor, Tap, TapQueue, TapWrite, TxConfig,
};
use packet::checksum::{self, Sum};
use packet::offload::{Cut, Message, Offload, Offloads, Work, header};
use packet::segmenter::{MAX_HEADERS, Segmenter};
use packet::{Cursor, HEAD, MAX_FRAME, Segment, unfinished};

const MTU: usize = 1500;

/// Our end of an interface whose other end is a stack's.
enum End {
    Tap(TapQueue),
    Packet(Box<PacketRx>, PacketTx),
}

/// Kinds of ends.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Tap,
    Packet,
}

impl End {
    /// Opens an end in a new namespace. Its stack has this address.
    fn open(netns: &Netns, kind: Kind, offloads: Offloads, address: &str) -> End {
        let end = match kind {
            Kind::Tap => {
                let tap = netns.run(|| Tap::open("a", 1, offloads)).unwrap().remove(0);
                netns.ip(&format!("link set dev a mtu {MTU} up"));
                End::Tap(tap)
            }
            Kind::Packet => {
                netns.ip("link add name a type veth peer name b");
                netns.ip(&format!("link set dev a mtu {MTU} up"));
                netns.ip(&format!("link set dev b mtu {MTU} up"));
                netns.run(|| {
                    let links = Links::open().unwrap();
                    let up = || links.get("b").ok().filter(|link| link.is_up && link.has_carrier);
                    let link = wait_for("carrier", up);
                    let rx = PacketRx::open(&link, 1, &RxConfig::of(offloads)).unwrap().remove(0);
                    End::Packet(Box::new(rx), PacketTx::open(&link, &TxConfig::of(offloads)).unwrap())
                })
            }
        };
        netns.ip(&format!("addr add {address}/24 dev a"));
        end
    }

    fn takes(&self) -> Offloads {
        match self {
            End::Tap(tap) => tap.offloads(),
            End::Packet(_, tx) => tx.offloads(),
        }
    }

    fn receive(&mut self) -> Option<(Vec<u8>, Offload)> {
        match self {
            End::Tap(tap) => {
                let mut frame = vec![0; MAX_FRAME as usize];
                let (len, header) = tap.read_described(&mut frame).unwrap()?;
                frame.truncate(len);
                let left = header::read(header, tap.offloads(), len as u32, &frame[..len.min(HEAD)]);
                Some((frame, left.unwrap()))
            }
            End::Packet(rx, _) => {
                let received = rx.next_frame().map(|frame| {
                    let (bytes, left) = (frame.bytes(), frame.offload());
                    match frame.vlan() {
                        Some(vlan) => {
                            let whole = [&bytes[..12], &vlan.to_bytes(), &bytes[12..]].concat();
                            (whole, left.moved(4).unwrap())
                        }
                        None => (bytes.to_vec(), left),
                    }
                });
                rx.release();
                received
            }
        }
    }

    fn send(&self, frame: &[u8], left: Offload) {
        match self {
            End::Tap(tap) => {
                let header = header::write(left);
                let has_header = !tap.offloads().is_none();
                let segments = [RawSegment::from(&header[..]), RawSegment::from(frame)];
                // SAFETY: the segments are slices that live until the call returns.
                let sent = unsafe { tap.write_raw(&segments[usize::from(!has_header)..]) }.unwrap();
                assert!(matches!(sent, TapWrite::Sent | TapWrite::Busy), "{left:?}: {sent:?}");
            }
            End::Packet(_, tx) => {
                // SAFETY: the segment is a slice that lives until the call returns.
                let pushed = unsafe { tx.push_raw(left, &[RawSegment::from(frame)]) };
                assert!(matches!(pushed, Ok(()) | Err(PushError::Full)), "{left:?}: {pushed:?}");
                assert_eq!(tx.flush().unwrap().wrong_format, 0, "{left:?} {} bytes", frame.len());
            }
        }
    }
}

/// Returns the frames that a frame is for who takes only so much.
fn completed(frame: Vec<u8>, left: Offload, takes: Offloads) -> Vec<(Vec<u8>, Offload)> {
    let segments = [Segment::from(&frame[..])];
    match left.work() {
        _ if takes.has(left.needs()) => vec![(frame, left)],
        Work::Nothing => unreachable!("anybody takes it"),
        Work::Checksum { start, offset } => {
            let patch = unfinished::as_asked(segments.into_iter(), start.into(), offset.into()).unwrap();
            let mut whole = frame.clone();
            patch.apply(&mut whole);
            vec![(whole, Offload::NONE)]
        }
        Work::Cut(cut) => {
            let segmenter = Segmenter::new(segments.into_iter(), frame.len() as u32, cut).unwrap();
            let mut at = Cursor::new(segments);
            at.skip(segmenter.headers_len() as u32);
            let cut = (0..segmenter.count()).map(|index| {
                let part = at.take(segmenter.payload(index).len() as u32);
                let (mut sum, mut payload, mut room) = (Sum::new(), Vec::new(), [0; MAX_HEADERS]);
                part.for_each(|piece| {
                    piece.read_pieces(|bytes| {
                        sum.add(bytes);
                        payload.extend(bytes);
                    })
                });
                let len = segmenter.write(index, sum, &mut room);
                ([&room[..len], &payload].concat(), Offload::NONE)
            });
            cut.collect()
        }
    }
}

/// Frames that leave messages uncut which passed, by protocol; and the longest.
#[derive(Default)]
struct Seen {
    messages: Vec<Message>,
    longest: usize,
}

/// Connects two ends as long as `body` runs.
fn connected<T>(ends: [End; 2], body: impl FnOnce() -> T) -> (T, Seen) {
    let stop = AtomicBool::new(false);
    let forward = || {
        let [mut left, mut right] = ends;
        let mut seen = Seen::default();
        let mut pass = |from: &mut End, to: &End| {
            let Some((frame, offload)) = from.receive() else { return false };
            seen.longest = seen.longest.max(frame.len());
            if let Work::Cut(cut) = offload.work() {
                seen.messages.push(cut.message);
            }
            completed(frame, offload, to.takes()).iter().for_each(|(frame, left)| to.send(frame, *left));
            true
        };
        while !stop.load(Ordering::Relaxed) {
            let any = [pass(&mut left, &right), pass(&mut right, &left)];
            if any == [false; 2] {
                thread::sleep(Duration::from_micros(100));
            }
        }
        seen
    };
    thread::scope(|scope| {
        let forwarder = scope.spawn(forward);
        // Also if the body panics.
        struct Stop<'s>(&'s AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let stop = Stop(&stop);
        let done = body();
        drop(stop);
        (done, forwarder.join().unwrap())
    })
}

/// Sends a megabyte by TCP each way, between stacks in namespaces of their own. Returns what passed.
fn exchange(kinds: [(Kind, Offloads); 2]) -> Seen {
    let (here, there) = (Netns::new(), Netns::new());
    let [(left, takes), (right, others)] = kinds;
    let ends = [End::open(&here, left, takes, "10.9.0.1"), End::open(&there, right, others, "10.9.0.2")];
    let data: Vec<u8> = (0..1 << 20).map(|at: usize| (at * 7 + at / 251) as u8).collect();
    let listener = there.run(|| TcpListener::bind("10.9.0.2:7").unwrap());
    let timeout = Some(Duration::from_secs(60));
    let send = |stream: &mut TcpStream| {
        stream.set_read_timeout(timeout).unwrap();
        stream.set_write_timeout(timeout).unwrap();
        stream.write_all(&data).unwrap();
    };
    let receive = |stream: &mut TcpStream| {
        let mut got = vec![0; data.len()];
        stream.read_exact(&mut got).unwrap();
        assert!(got == data, "the bytes are others");
    };
    let both = || {
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut stream = listener.accept().unwrap().0;
                stream.set_read_timeout(timeout).unwrap();
                receive(&mut stream);
                send(&mut stream);
            });
            let mut stream = here.run(|| TcpStream::connect("10.9.0.2:7").unwrap());
            send(&mut stream);
            receive(&mut stream);
        });
    };
    connected(ends, both).1
}

#[test]
fn messages_pass_whole_between_who_takes_them() {
    for kinds in [[Kind::Tap, Kind::Tap], [Kind::Packet, Kind::Tap], [Kind::Packet, Kind::Packet]] {
        let seen = exchange(kinds.map(|kind| (kind, Offloads::ALL)));
        assert!(seen.messages.contains(&Message::Tcp4), "{kinds:?}: none of {} bytes", seen.longest);
        assert!(seen.longest > 2 * MTU);
    }
}

/// Returns a message with this VLAN tag, whose segments have 1000 bytes, and its description.
fn tagged_message(tag: [u8; 4]) -> (Vec<u8>, Offload) {
    let mut frame =
        [&[2; 12][..], &tag, &[8, 0, 0x45, 0], &3040u16.to_be_bytes(), &[0, 1, 0x40, 0, 64, 6, 0, 0]].concat();
    frame.extend([10, 9, 0, 1, 10, 9, 0, 2]);
    let sum = checksum::of(&frame[18..38]);
    frame[28..30].copy_from_slice(&sum.to_be_bytes());
    let pseudo = !checksum::of(&[&frame[30..38], &[0, 6], &3020u16.to_be_bytes()].concat());
    frame.extend([0, 80, 0x30, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 0x10, 2, 0]);
    frame.extend(pseudo.to_be_bytes());
    frame.resize(frame.len() + 2 + 3000, 7);
    let cut = Cut { message: Message::Tcp4, size: 1000, start: 38, header: 20, ecn: false };
    (frame, Offload::cut(cut).unwrap())
}

#[test]
fn a_tag_moves_the_description() {
    let (frame, left) = tagged_message([0x81, 0, 0x20, 5]);
    for kind in [Kind::Tap, Kind::Packet] {
        let netns = Netns::new();
        let mut end = End::open(&netns, kind, Offloads::ALL, "10.9.0.1");
        // As if the stack behind the end sent it.
        let sender = netns.run(|| {
            let link = Links::open().unwrap().get("a").unwrap();
            PacketTx::open(&link, &TxConfig::of(Offloads::ALL)).unwrap()
        });
        // SAFETY: the segment is a slice that lives until the call returns.
        unsafe { sender.push_raw(left, &[RawSegment::from(&frame[..])]) }.unwrap();
        assert_eq!(sender.flush().unwrap().sent, 1);
        let (got, found) = wait_for("message", || end.receive().filter(|(got, _)| got[12..14] == [0x81, 0]));
        assert!(got == frame, "{kind:?}: another frame, of {} bytes", got.len());
        assert_eq!(found, left, "{kind:?}");
    }
}

#[test]
fn messages_are_cut_for_who_takes_none() {
    for kind in [Kind::Tap, Kind::Packet] {
        let seen = exchange([(kind, Offloads::ALL), (Kind::Tap, Offloads::NONE)]);
        assert!(seen.messages.contains(&Message::Tcp4) && seen.longest > 2 * MTU, "{kind:?}");
    }
}

#[test]
fn checksums_alone_are_left_to_who_takes_no_more() {
    let seen = exchange([(Kind::Tap, Offloads::CHECKSUM); 2]);
    assert!(seen.messages.is_empty() && seen.longest <= MTU + 14);
}

/// Sends one message of UDP, of datagrams of 1000 bytes.
fn send_datagrams(netns: &Netns, payload: &[u8]) {
    netns.run(|| {
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        let size: libc::c_int = 1000;
        // SAFETY: the option is an integer, which lives until the call returns.
        let set = unsafe {
            let len = size_of_val(&size) as libc::socklen_t;
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, (&raw const size).cast(), len)
        };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        socket.send_to(payload, "10.9.0.2:9").unwrap();
    });
}

#[test]
fn messages_of_udp_pass_whole_and_are_datagrams_for_the_receiver() {
    let payload: Vec<u8> = (0..4321).map(|at: usize| (at * 5) as u8).collect();
    for right in [(Kind::Tap, Offloads::ALL), (Kind::Packet, Offloads::ALL), (Kind::Tap, Offloads::NONE)] {
        let (here, there) = (Netns::new(), Netns::new());
        let left = End::open(&here, Kind::Tap, Offloads::ALL, "10.9.0.1");
        let knows = left.takes().has(Offloads::UDP);
        let ends = [left, End::open(&there, right.0, right.1, "10.9.0.2")];
        let receiver = there.run(|| UdpSocket::bind("10.9.0.2:9").unwrap());
        receiver.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (got, seen) = connected(ends, || {
            send_datagrams(&here, &payload);
            let mut room = [0; 2000];
            (0..5).map(|_| receiver.recv(&mut room).map(|len| room[..len].to_vec()).unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), [1000, 1000, 1000, 1000, 321]);
        assert_eq!(got.concat(), payload);
        assert_eq!(seen.messages, vec![Message::Udp; knows.into()]);
    }
}

/// Returns the next datagram that the stack sends through a tap.
fn datagram(tap: &TapQueue) -> (Vec<u8>, [u8; header::LEN]) {
    let mut room = vec![0; 2000];
    wait_for("datagram", || {
        let read = tap.read_described(&mut room).unwrap();
        if read.is_none() {
            // The kernel drops frames until it has noticed that the tap has a program.
            UdpSocket::bind("10.9.0.1:0").unwrap().send_to(b"an odd payload!", "10.9.0.2:9").unwrap();
        }
        read.filter(|_| room[12..14] == [8, 0]).map(|(len, header)| (room[..len].to_vec(), header))
    })
}

#[test]
fn a_tap_forgets_what_another_program_asked_for() {
    let netns = Netns::new();
    netns.ip("tuntap add dev lasting mode tap vnet_hdr");
    netns.ip("addr add 10.9.0.1/24 dev lasting");
    netns.ip("link set dev lasting up");
    netns.ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:01 dev lasting");
    for offloads in [Offloads::ALL, Offloads::NONE, Offloads::CHECKSUM, Offloads::NONE] {
        // A program that another test starts has the last descriptor until it runs.
        let tap = wait_for("tap", || netns.run(|| Tap::open("lasting", 1, offloads)).ok()).remove(0);
        assert!(offloads.has(tap.offloads()));
        let (frame, header) = netns.run(|| datagram(&tap));
        assert_eq!(frame.len(), 14 + 20 + 8 + 15);
        assert_eq!(checksum::of(&frame[14..34]), 0);
        let left = header::read(header, offloads, frame.len() as u32, &frame).unwrap();
        if offloads.is_none() {
            assert!(left.is_none());
            assert_eq!(unfinished::renew([Segment::from(&frame[..])].into_iter()), None, "the checksum is wrong");
        } else {
            assert_eq!(left, Offload::checksum(34, 6));
        }
    }
}

#[test]
fn queues_of_a_tap_agree_on_headers() {
    Netns::new().run(|| {
        for (first, second, words) in [
            (Offloads::ALL, Offloads::NONE, "have a virtio header"),
            (Offloads::NONE, Offloads::ALL, "have no virtio header"),
        ] {
            let queues = Tap::open("mq%d", 2, first).unwrap();
            let error = Tap::open(queues[0].name(), 2, second).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("choose the same offloads"), "{error}");
        }
    });
}

#[test]
fn segments_longer_than_the_mtu_are_not_sent() {
    Netns::with_veth(MTU).run(|| {
        let link = Links::open().unwrap().get("a").unwrap();
        let tx = PacketTx::open(&link, &TxConfig::of(Offloads::ALL)).unwrap();
        assert!(tx.offloads().has(Offloads::CHECKSUM | Offloads::TCP4 | Offloads::TCP6 | Offloads::ECN));
        let frame = vec![7; 5000];
        let cut = |size| Cut { message: Message::Tcp4, size, start: 34, header: 20, ecn: false };
        // SAFETY: the segment is a slice that lives until the call returns.
        let push = |left, len| unsafe { tx.push_raw(left, &[RawSegment::from(&frame[..len])]) };
        for (size, fits) in [(MTU as u16 - 40, true), (MTU as u16 - 39, false)] {
            assert_eq!(push(Offload::cut(cut(size)).unwrap(), 5000).is_ok(), fits, "segments of {size} bytes");
        }
        assert!(matches!(push(Offload::checksum(34, 16), MTU + 15), Err(PushError::TooLong { .. })));
        assert!(push(Offload::NONE, MTU + 14).is_ok());
    });
}

/// A program behind a tap leaves work on a frame that the kernel can't describe to a packet socket: the kernel hands over no further
/// frame, and the monitor tells. Rings whose slots hold no frames lose that frame only.
#[test]
fn a_frame_without_words_for_its_work_is_noticed() {
    for are_beside in [false, true] {
        let netns = Netns::new();
        let tap = netns.run(|| Tap::open("t0", 1, Offloads::ALL)).unwrap().remove(0);
        netns.ip("link set dev t0 up");
        let open = || {
            let config = RxConfig { are_beside, ..RxConfig::of(Offloads::ALL) };
            let link = Links::open().unwrap().get("t0").unwrap();
            PacketRx::open(&link, 1, &config).unwrap().remove(0)
        };
        let mut rx = netns.run(open);
        let monitor = rx.monitor();
        let mut frame = vec![2; 12];
        frame.extend([
            8, 0, 0x45, 0, 3, 0xda, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2, 0, 9, 0, 9, 3, 0xc6, 0, 0,
        ]);
        frame.resize(14 + 0x3da, 7);
        let send = |gso: [u8; 10]| {
            let segments = [RawSegment::from(&gso[..]), RawSegment::from(&frame[..])];
            // SAFETY: the segments are slices that live until the call returns.
            assert_eq!(unsafe { tap.write_raw(&segments) }.unwrap(), TapWrite::Sent);
        };
        let complete = [0; 10];
        // UFO (virtio 1.2, VIRTIO_NET_HDR_GSO_UDP), with headers of 42 bytes and pieces of 400.
        let ufo = [1, 3, 42, 0, 0x90, 1, 34, 0, 6, 0];
        send(complete);
        assert_eq!(wait_for("frame", || rx.next_frame()).bytes(), frame);
        rx.release();
        monitor.take().unwrap().unwrap();
        send(ufo);
        if are_beside {
            send(complete);
            assert_eq!(wait_for("frame", || rx.next_frame()).bytes(), frame);
            assert!(monitor.take().unwrap().unwrap().drops == 1 && !monitor.is_jammed());
            continue;
        }
        let count =
            |monitor: &RxMonitor| wait_for("count", || Some(monitor.take()?.unwrap().drops).filter(|&it| it > 0));
        count(&monitor);
        assert!(!monitor.is_jammed());
        send(complete);
        count(&monitor);
        assert!(monitor.is_jammed());
        assert!(rx.next_frame().is_none());
        drop(rx);
        let rx = netns.run(open);
        send(complete);
        assert_eq!(wait_for("frame", || rx.next_frame()).bytes(), frame);
    }
}
