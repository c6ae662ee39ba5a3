use super::*;
use rustix::event::epoll::{self, CreateFlags};
use rustix::fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, memfd_create};
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
use std::fs::File;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Returns an event and the peer's own descriptor of the same file description.
fn shared(flags: EventfdFlags) -> (Event, OwnedFd) {
    let peer = eventfd(0, flags).unwrap();
    (Event::take(peer.try_clone().unwrap(), None).unwrap(), peer)
}

fn count(fd: &OwnedFd) -> u64 {
    let mut count = [0; 8];
    rustix::io::read(fd, &mut count).unwrap();
    u64::from_ne_bytes(count)
}

/// Runs `act`, and fails the test instead of hanging if it blocks.
fn soon(act: impl FnOnce() + Send + 'static) {
    let (done, is_done) = channel();
    std::thread::spawn(move || {
        act();
        let _ = done.send(());
    });
    is_done.recv_timeout(Duration::from_secs(120)).expect("it blocks");
}

#[test]
fn each_notification_counts_and_taking_one_makes_none() {
    let (event, peer) = shared(EventfdFlags::empty());
    // Not by `notify`: if signals take long, which on a slow machine any may, several become one.
    let signals = Signals::get().unwrap();
    (0..1000).for_each(|_| signals.signal(event.as_fd()));
    assert_eq!(count(&peer), 1000);
}

#[test]
fn a_full_counter_in_blocking_mode_does_not_block_the_writer() {
    let (event, peer) = shared(EventfdFlags::NONBLOCK);
    rustix::io::write(&peer, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    fcntl_setfl(&peer, fcntl_getfl(&peer).unwrap() - OFlags::NONBLOCK).unwrap();
    soon(move || (0..1000).for_each(|_| event.notify()));
    assert_eq!(count(&peer), u64::MAX);
}

#[test]
fn an_event_emptied_in_blocking_mode_is_cleared_at_once() {
    let (event, peer) = shared(EventfdFlags::empty());
    event.notify();
    assert_eq!(count(&peer), 1);
    soon(move || event.clear());
}

#[test]
fn a_cleared_event_is_silent_until_it_is_signalled_again() {
    let (event, peer) = shared(EventfdFlags::NONBLOCK);
    (0..3).for_each(|_| event.notify());
    event.clear();
    assert_eq!(rustix::io::read(&peer, &mut [0; 8]), Err(Errno::AGAIN));
    event.notify();
    assert_eq!(count(&peer), 1);
}

#[test]
fn semaphores_count_notifications() {
    let (event, peer) = shared(EventfdFlags::SEMAPHORE);
    (0..2).for_each(|_| event.notify());
    assert_eq!((count(&peer), count(&peer)), (1, 1));
}

#[test]
fn threads_notify_one_another_and_nothing_is_lost() {
    let (event, peer) = shared(EventfdFlags::empty());
    // As above.
    let signals = Signals::get().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..5000).for_each(|_| signals.signal(event.as_fd())));
        }
    });
    assert_eq!(count(&peer), 8 * 5000);
}

#[test]
fn descriptors_other_than_eventfds_are_refused() {
    let (read, write) = rustix::pipe::pipe().unwrap();
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    // SAFETY: the sets are empty, and of the size that the kernel knows.
    let signalfd = || unsafe {
        use rustix::fd::FromRawFd;
        let empty: libc::sigset_t = std::mem::zeroed();
        OwnedFd::from_raw_fd(libc::signalfd(-1, &raw const empty, 0))
    };
    let others: [(&str, OwnedFd); 9] = [
        ("pipe", read),
        ("pipe", write),
        ("socket", socket.into()),
        ("memfd", memfd_create("not an eventfd", MemfdFlags::CLOEXEC).unwrap()),
        ("epoll", rustix::event::epoll::create(CreateFlags::CLOEXEC).unwrap()),
        ("timerfd", timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).unwrap()),
        ("inotify", rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC).unwrap()),
        ("signalfd", signalfd()),
        ("file", File::open("/proc/self/exe").unwrap().into()),
    ];
    for (what, fd) in others {
        assert!(matches!(Event::take(fd, None), Err(EventError::NotAnEventFd)), "{what}");
    }
}

/// Adds `times` watchers to an eventfd; they stay until the returned descriptors are closed.
fn watched(peer: &OwnedFd, times: usize) -> Vec<OwnedFd> {
    // Each watcher is another pair of an epoll and a descriptor of the same file.
    let same: Vec<OwnedFd> = (0..times.div_ceil(100)).map(|_| peer.try_clone().unwrap()).collect();
    let epolls: Vec<OwnedFd> = (0..100).map(|_| epoll::create(CreateFlags::CLOEXEC).unwrap()).collect();
    for epoll in &epolls {
        same.iter().for_each(|fd| epoll::add(epoll, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN).unwrap());
    }
    epolls.into_iter().chain(same).collect()
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_signal_that_takes_long_is_sent_by_another_thread_until_it_is_cheap_again() {
    Event::relay().unwrap();
    let (event, peer) = shared(EventfdFlags::NONBLOCK);
    let watchers = watched(&peer, 40_000);
    let is_relayed = || event.0.is_relayed();
    for _ in 0..3 {
        event.notify();
    }
    assert!(is_relayed());
    let arrives = || rustix::io::read(&peer, &mut [0; 8]).is_ok();
    wait_for("the signals so far", arrives);
    for _ in 0..3 {
        event.notify();
        wait_for("a signal of the other thread", arrives);
    }
    assert!(is_relayed());
    drop(watchers);
    wait_for("it to be cheap again", || {
        event.notify();
        !is_relayed()
    });
    // Those on the way come, too.
    event.notify();
    assert!(arrives());
}
