//! Peers that attack the switch through shared descriptors, memory and sockets, next to two honest guests.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use e2e::Home;
use e2e::live::Live;
use e2e::virtio::Options;
use e2e::virtio::rogue::{BUFFERS, HEADER, Rogue, TX};
use lab::millrace::config::*;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, write};
use vhost::VhostBackend;
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use virtqueue::features;

/// Fills the counter and leaves the file description, shared with the switch, in blocking mode: a write would wait forever.
fn fill(event: BorrowedFd<'_>) {
    fcntl_setfl(event, fcntl_getfl(event).unwrap() | OFlags::NONBLOCK).unwrap();
    let mut amount = u64::MAX - 1;
    while amount > 0 {
        match write(event, &amount.to_ne_bytes()) {
            Ok(_) => {}
            Err(Errno::AGAIN) => amount /= 2,
            Err(error) => panic!("{error}"),
        }
    }
    fcntl_setfl(event, fcntl_getfl(event).unwrap() - OFlags::NONBLOCK).unwrap();
}

/// The guest requests notifications through descriptors that block on write.
#[test]
fn full_notification_counters_in_blocking_mode() {
    let live = Live::new(patched("a", "b"));
    let mut rogue = Rogue::connect(&live.home);
    live.millrace.wait_up(&["a"]);
    rogue.write(BUFFERS, &[0; 2048]);
    rogue.describe(TX, 0, BUFFERS, HEADER + 60, 0, 0);
    live.during(|attack| {
        while attack.continues() {
            rogue.events().for_each(fill);
            rogue.offer_all(TX, &[0]);
            attack.strike();
        }
    });
    drop(rogue);
    live.millrace.wait_down("a");
    live.finish();
}

/// Watchers of each call descriptor.
const WATCHERS: usize = 20_000;

/// The guest has its call descriptors watched so often that each notification takes milliseconds.
#[test]
fn notifications_that_wake_twenty_thousand_watchers() {
    let mut live = Live::new(patched("a", "b"));
    let mut b = Options::new(live.home.socket("b")).connect().unwrap();
    let mut rogue = Rogue::connect(&live.home);
    live.millrace.wait_up(&["a"]);
    let mark = live.millrace.daemon.log().mark();
    // A watcher is a pair of an epoll and a descriptor of the file: few descriptors suffice, as a process may have no more than 1024.
    let epolls: Vec<OwnedFd> = (0..200).map(|_| epoll::create(CreateFlags::CLOEXEC).unwrap()).collect();
    let same: Vec<OwnedFd> = rogue
        .events()
        .flat_map(|event| (0..WATCHERS / epolls.len()).map(move |_| event.try_clone_to_owned().unwrap()))
        .collect();
    for epoll in &epolls {
        same.iter().for_each(|fd| epoll::add(epoll, fd, EventData::new_u64(0), EventFlags::IN).unwrap());
    }
    live.during(|attack| {
        while attack.continues() {
            rogue.blast(&mut b, Duration::from_millis(1));
            attack.strike();
            // The attacker itself leaves the processor to honest guests.
            std::thread::sleep(Duration::from_millis(3));
        }
    });
    live.millrace.wait_said(mark, "notifying a guest takes longer");
    live.finish();
}

/// Connects a frontend to port `a`, up to feature negotiation.
pub(super) fn frontend(home: &Home) -> Frontend {
    let mut frontend = Frontend::from_stream(UnixStream::connect(home.socket("a")).unwrap(), 64);
    frontend.set_owner().unwrap();
    frontend.get_features().unwrap();
    frontend.set_features(features::VERSION_1 | features::PROTOCOL_FEATURES).unwrap();
    frontend.get_protocol_features().unwrap();
    frontend
}

/// The frontend requests more queues than there are, and reconnects as fast as it can.
#[test]
fn a_frontend_that_is_refused_comes_back_without_end() {
    let keys = VhostUser { socket: "a.sock".into(), queues: QueuesKey::Number(1).into(), ..VhostUser::default() };
    let mut live = Live::new((port("a", keys), vhost_user("b"), patch("a", "b")));
    let mark = live.millrace.daemon.log().mark();
    live.during(|attack| {
        while attack.continues() {
            let frontend = frontend(&live.home);
            let _ = frontend.set_vring_num(8, 256);
            assert!(frontend.get_features().is_err(), "there is no queue 8");
            attack.strike();
        }
    });
    live.millrace.wait_said(mark, "set `queues` of the port to 5");
    let guest = Options::new(live.home.socket("a")).connect().unwrap();
    live.millrace.wait_up(&["a"]);
    drop(guest);
    live.finish();
}
