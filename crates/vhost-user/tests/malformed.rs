//! Malformed messages, and messages not sent in one piece. After each of them, a well-behaved frontend is served.
#![allow(missing_docs)]

mod support;

use rustix::fd::AsFd;
use std::io::Write;
use std::time::{Duration, Instant};
use support::{Bench, Event, Guest, PACKED, SPLIT, Witness, memfd, words};
use vhost::vhost_user::message::FrontendReq as Request;
use vhost_user::Mode;
use vhost_user::backend::{Options, Service};
use virtqueue::features::{PROTOCOL_FEATURES, VERSION_1};

const FEATURES: u64 = SPLIT | VERSION_1;
/// Protocol features: MQ, REPLY_ACK and CONFIGURE_MEM_SLOTS.
const PROTOCOL: u64 = 1 | 1 << 3 | 1 << 15;
const USER: u64 = 0x7000_0000_0000;

fn bench() -> Bench {
    Bench::new(Mode::Server, 1)
}

#[test]
fn features_that_were_not_offered() {
    for (request, value) in [
        (Request::SET_FEATURES, VERSION_1 | 1 << 26),
        (Request::SET_FEATURES, u64::MAX),
        // LOG_SHMFD, INFLIGHT_SHMFD, everything: the messages that these allow are thus out of reach.
        (Request::SET_PROTOCOL_FEATURES, PROTOCOL | 1 << 1),
        (Request::SET_PROTOCOL_FEATURES, PROTOCOL | 1 << 12),
        (Request::SET_PROTOCOL_FEATURES, u64::MAX),
    ] {
        let bench = bench();
        let raw = bench.raw();
        raw.send_u64(request, value);
        assert!(raw.is_closed());
        bench.ended("were not offered");
    }
}

#[test]
fn regions_that_cannot_be_mapped() {
    let bench = bench();
    let (pipe, _other) = rustix::pipe::pipe().unwrap();
    let directory = std::fs::File::open("/").unwrap();
    let empty = memfd(0);
    for fd in [pipe.as_fd(), directory.as_fd(), empty.as_fd()] {
        let raw = bench.raw();
        raw.negotiate(FEATURES);
        raw.send_table(&[[0x10000, 0x1000, USER, 0]], &[fd]);
        assert!(raw.is_closed());
        bench.ended("SET_MEM_TABLE");
    }
}

#[test]
fn more_or_fewer_descriptors_than_regions() {
    let bench = bench();
    let file = memfd(0x10000);
    for count in [0, 1, 3] {
        let raw = bench.raw();
        raw.negotiate(FEATURES);
        raw.send_table(&[[0x10000, 0x1000, USER, 0], [0x20000, 0x1000, USER, 0]], &vec![file.as_fd(); count]);
        assert!(raw.is_closed());
        bench.ended(&format!("SET_MEM_TABLE: it names 2 regions, and brings {count} descriptors"));
    }
}

#[test]
fn slots_are_added_without_end() {
    let bench = bench();
    let raw = bench.raw();
    raw.negotiate(FEATURES | PROTOCOL_FEATURES);
    raw.send_u64(Request::SET_PROTOCOL_FEATURES, PROTOCOL);
    let file = memfd(0x1000);
    raw.send(Request::GET_MAX_MEM_SLOTS, &[], &[]);
    let slots = raw.reply_u64();
    for slot in 0..=slots {
        let body = [0, 0x10000 + slot * 0x1000, 0x1000, USER + slot * 0x1000, 0].map(u64::to_ne_bytes).concat();
        raw.send(Request::ADD_MEM_REG, &body, &[file.as_fd()]);
    }
    assert!(raw.is_closed());
    bench.ended(&format!("{} memory regions; at most {slots}", slots + 1));
}

#[test]
fn a_region_that_was_never_added_is_removed() {
    let bench = bench();
    for shared in [false, true] {
        let raw = bench.raw();
        raw.negotiate(FEATURES | PROTOCOL_FEATURES);
        raw.send_u64(Request::SET_PROTOCOL_FEATURES, PROTOCOL);
        let file = memfd(0x1000);
        if shared {
            raw.send_table(&[[0x10000, 0x1000, USER, 0]], &[file.as_fd()]);
        }
        let body = [0, 0x20000, 0x1000, USER, 0].map(u64::to_ne_bytes).concat();
        raw.send(Request::REM_MEM_REG, &body, &[]);
        assert!(raw.is_closed());
        bench.ended("no memory region");
    }
}

#[test]
fn get_vring_base_of_a_queue_never_created() {
    let bench = bench();
    let raw = bench.raw();
    for queue in [0, 1] {
        raw.send_state(Request::GET_VRING_BASE, queue, 0);
        assert_eq!(raw.reply().unwrap(), words(&[queue, 0]));
    }
    raw.send_state(Request::SET_VRING_BASE, 1, 77);
    raw.send_state(Request::GET_VRING_BASE, 1, 0);
    assert_eq!(raw.reply().unwrap(), words(&[1, 77]));
    drop(raw);
    bench.ended("closed the connection");
}

#[test]
fn sizes_that_no_queue_has() {
    for size in [0, 3, 100, 0x8001, 0xffff, 0x1_0000, 0x1_0100, u32::MAX] {
        let bench = bench();
        let raw = bench.raw();
        raw.negotiate(FEATURES);
        raw.send_state(Request::SET_VRING_NUM, 0, size);
        assert!(raw.is_closed());
        bench.ended("cannot have");
    }
}

#[test]
fn a_base_beyond_the_ring() {
    let bench = bench();
    let raw = bench.raw();
    let guest = Guest::raw(&raw, PACKED | VERSION_1, &[0, 1, 2, 4, 5, 6]);
    bench.echo.wait_started(1);
    raw.send_state(Request::SET_VRING_BASE, 1, 0x8040_8040);
    bench.echo.wait_line("queue 1 stopped: the base 0x80408040 does not fit");
    drop((guest, raw));
    bench.ended("closed the connection");
}

#[test]
fn kicks_and_calls_that_are_no_eventfds() {
    for request in [Request::SET_VRING_KICK, Request::SET_VRING_CALL] {
        let bench = bench();
        let raw = bench.raw();
        raw.negotiate(FEATURES);
        let witness = Witness::new();
        raw.send_fd(request, 0, witness.fd());
        assert!(raw.is_closed());
        witness.all_closed();
        bench.ended("not an eventfd");
    }
}

#[test]
fn half_a_message_then_nothing() {
    for half in [&words(&[Request::SET_OWNER.into()])[..], &words(&[Request::SET_FEATURES.into(), 1, 8, 0])] {
        let mut bench = bench();
        let raw = bench.raw();
        raw.send_bytes(half, &[]);
        bench.echo.wait("a connection", |event| (event == Event::Connected).then_some(()));
        std::thread::sleep(Duration::from_millis(100));
        bench.stop();
        assert!(raw.is_closed());
        bench.start();
        bench.ended("this side");
    }
}

#[test]
fn half_a_message_does_not_hold_the_socket_forever() {
    let bench = bench();
    let began = Instant::now();
    let raw = bench.raw();
    raw.send_bytes(&words(&[Request::SET_FEATURES.into(), 1, 8, 0]), &[]);
    // The next guest waits in the backlog meanwhile.
    let mut guest = bench.guest(PACKED);
    assert!(began.elapsed() > Duration::from_secs(4), "{:?}", began.elapsed());
    guest.exchange(10);
    drop(raw);
    let reason = bench.echo.wait("the end", |event| match event {
        Event::Disconnected(reason) => Some(reason),
        _ => None,
    });
    assert!(reason.contains("half a message"), "{reason}");
}

#[test]
fn a_message_in_two_pieces_is_a_message() {
    let bench = bench();
    let raw = bench.raw();
    raw.send_bytes(&words(&[Request::GET_VRING_BASE.into(), 1]), &[]);
    std::thread::sleep(Duration::from_millis(20));
    raw.send_bytes(&words(&[8, 1]), &[]);
    std::thread::sleep(Duration::from_millis(20));
    raw.send_bytes(&words(&[0]), &[]);
    assert_eq!(raw.reply().unwrap(), words(&[1, 0]));
    drop(raw);
    bench.ended("closed the connection");
}

#[test]
fn a_peer_that_never_reads_replies() {
    let mut bench = bench();
    let raw = bench.raw();
    raw.0.set_nonblocking(true).unwrap();
    let request = words(&[Request::GET_FEATURES.into(), 1, 0]);
    // Until both sides' buffers are full, which leaves the session blocked in writing a reply.
    let mut stalled = Instant::now();
    while stalled.elapsed() < Duration::from_millis(300) {
        if (&raw.0).write(&request).is_ok() {
            stalled = Instant::now();
        }
    }
    bench.stop();
    bench.start();
    bench.echo.wait_disconnected();
    bench.still_works();
}

#[test]
fn invalid_headers() {
    for header in [
        [0, 1, 0],
        [99, 1, 0],
        [u32::MAX, u32::MAX, u32::MAX],
        [Request::GET_FEATURES.into(), 0, 0],
        [Request::GET_FEATURES.into(), 1, 4097],
        [Request::GET_FEATURES.into(), 1, u32::MAX],
        [Request::GET_FEATURES.into(), 5, 0],
        [Request::GET_FEATURES.into(), 0x1001, 0],
        [Request::SET_MEM_TABLE.into(), 1, 4097],
        [Request::SET_MEM_TABLE.into(), 1, 0],
        [Request::SET_MEM_TABLE.into(), 5, 0],
        [Request::SET_MEM_TABLE.into(), 0, 0],
        [Request::SET_VRING_ENABLE.into(), 1, 0],
        [Request::SET_VRING_ENABLE.into(), 1, u32::MAX],
        [Request::POSTCOPY_ADVISE.into(), 1, 0],
        [Request::IOTLB_MSG.into(), 1, 0],
        [Request::SET_STATUS.into(), 1, 0],
    ] {
        let bench = bench();
        let raw = bench.raw();
        raw.send_bytes(&words(&header), &[]);
        assert!(raw.is_closed(), "{header:x?}");
        bench.echo.wait_disconnected();
        bench.still_works();
    }
}

#[test]
fn noise() {
    let mut bench = bench();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let witness = Witness::new();
    for session in 0..2000 {
        if session % 4 == 0 {
            // A frontend refused repeatedly has to wait.
            bench = self::bench();
        }
        let raw = bench.raw();
        for _ in 0..random() % 8 {
            // Well-formed enough to get past the header most of the time.
            let request = (random() % 46) as u32;
            let len = [0, 8, 8, 40, 40, (random() % 64) as u32][random() as usize % 6];
            let word = |r: u64| if r.is_multiple_of(3) { r as u32 } else { r as u32 >> 16 & 3 };
            let body: Vec<u32> = (0..len.div_ceil(4)).map(|_| word(random())).collect();
            let message = [words(&[request, 1, len]), words(&body)[..len as usize].to_vec()].concat();
            let fds = vec![witness.fd(); [0, 0, 1, 2][random() as usize % 4]];
            raw.send_bytes(&message, &fds);
        }
        drop(raw);
    }
    // Frontends are served in turn: the one that is answered is the last.
    let raw = bench.raw();
    raw.send(Request::GET_FEATURES, &[], &[]);
    raw.reply_u64();
    while bench.echo.next_event().is_some() {}
    drop(raw);
    bench.echo.wait_disconnected();
    witness.all_closed();
    bench.still_works();
}

#[test]
fn a_peer_that_is_refused_repeatedly_waits_and_the_log_says_why() {
    let bench = bench();
    let began = Instant::now();
    for _ in 0..11 {
        let raw = bench.raw();
        raw.negotiate(FEATURES);
        raw.send_state(Request::SET_VRING_NUM, 8, 64);
        assert!(raw.is_closed());
        let said = bench.echo.wait_disconnected();
        assert!(said.contains("there is no queue 8: this port has 1 queue pair, 2 queues"), "{said}");
        assert!(said.contains("set `queues` of the port to 5"), "{said}");
    }
    // 1 ms after the first refusal, 2 ms after the second, and so on.
    assert!(began.elapsed() >= Duration::from_millis(1023), "{:?}", began.elapsed());
    bench.still_works();
}

#[test]
fn the_end_of_a_peer_that_only_counted_queues_names_their_number() {
    let bench = bench();
    let raw = bench.raw();
    raw.send(Request::GET_FEATURES, &[], &[]);
    raw.reply_u64();
    raw.send_u64(Request::SET_PROTOCOL_FEATURES, 1);
    raw.send(Request::GET_QUEUE_NUM, &[], &[]);
    assert_eq!(raw.reply_u64(), 1);
    drop(raw);
    bench.ended("closed the connection; it was told that this port has 1 queue pair, and may want more");
}

#[test]
fn files_that_are_no_memory() {
    let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let add = |raw: &support::Raw| {
        let body: Vec<u8> = [0, 0x1000, 0x1000, USER, 0].iter().flat_map(|v: &u64| v.to_ne_bytes()).collect();
        raw.send_u64(Request::SET_PROTOCOL_FEATURES, PROTOCOL);
        raw.send(Request::ADD_MEM_REG, &body, &[file.as_fd()]);
    };
    let table = |raw: &support::Raw| raw.send_table(&[[0x1000, 0x1000, USER, 0]], &[file.as_fd()]);
    for share in [&table as &dyn Fn(&support::Raw), &add] {
        let bench = bench();
        let raw = bench.raw();
        raw.negotiate(FEATURES);
        share(&raw);
        assert!(raw.is_closed());
        bench.ended("memory region at guest address 0x1000 is not memory");
    }
}

#[test]
fn any_file_is_accepted_if_the_owner_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let file = std::fs::File::create_new(dir.path().join("file")).unwrap();
    file.set_len(0x1000).unwrap();
    let file = std::fs::File::options().read(true).write(true).open(dir.path().join("file")).unwrap();
    let echo = support::Echo::new(1);
    let options = Options { any_memory: true, ..Options::new(dir.path().join("s"), Mode::Server, 1) };
    let _service = Service::spawn(options, echo).unwrap();
    let raw = support::Raw::connect(&dir.path().join("s"));
    raw.negotiate(FEATURES);
    raw.send_table(&[[0x1000, 0x1000, USER, 0]], &[file.as_fd()]);
    raw.send(Request::GET_FEATURES, &[], &[]);
    raw.reply_u64();
}
