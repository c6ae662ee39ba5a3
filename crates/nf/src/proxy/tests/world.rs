//! Two proxies joined by a wire, in simulated time: `near` reaches the service of `far`.

use super::wire::{End, Faults, wire};
use crate::proxy::counters::{Counters, Refusal};
use crate::proxy::options::{Endpoint, Limits, Options, Reach, Serve};
use crate::proxy::relay::Relay;
use smoltcp::time::{Duration, Instant};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use tempfile::TempDir;

/// Simulated time after which a test has failed.
const DEADLINE: Duration = Duration::from_secs(3600);

pub(super) struct World {
    pub(super) near: Relay,
    pub(super) far: Relay,
    pub(super) ends: [End; 2],
    pub(super) now: Instant,
    directory: TempDir,
}

/// The differences between worlds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) mtu: u16,
    pub(super) faults: Faults,
    pub(super) seed: u64,
    pub(super) near: Limits,
    pub(super) far: Limits,
}

impl Default for Setup {
    fn default() -> Setup {
        let limits = Limits::default();
        Setup { mtu: 1500, faults: Faults::default(), seed: 1, near: limits, far: limits }
    }
}

impl World {
    pub(super) fn new(setup: Setup) -> World {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| Endpoint::Unix(directory.path().join(name));
        let options = |number: u8, limits| Options {
            mac: format!("02:00:00:00:00:0{number}").parse().unwrap(),
            address: format!("10.0.0.{number}/24").parse().unwrap(),
            gateway: None,
            mtu: setup.mtu,
            serve: Vec::new(),
            reach: Vec::new(),
            limits,
        };
        let reach = |name, port: u16| Reach { at: path(name), to: format!("10.0.0.2:{port}").parse().unwrap() };
        let near = Options {
            reach: vec![
                reach("client", 6379),
                reach("nowhere", 9),
                Reach { to: "10.0.0.99:1".parse().unwrap(), ..reach("nobody", 1) },
            ],
            ..options(1, setup.near)
        };
        let far = Options { serve: vec![Serve { port: 6379, to: path("service") }], ..options(2, setup.far) };
        World {
            near: Relay::new(&near).unwrap(),
            far: Relay::new(&far).unwrap(),
            ends: wire(setup.mtu.into(), setup.faults, setup.seed),
            now: Instant::from_secs(1),
            directory,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts the service that `far` serves.
    pub(super) fn service(&self) -> UnixListener {
        let listener = UnixListener::bind(self.path("service")).unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    }

    /// Connects to a local socket of `near`.
    pub(super) fn client(&self, name: &str) -> UnixStream {
        let client = UnixStream::connect(self.path(name)).unwrap();
        client.set_nonblocking(true).unwrap();
        client
    }

    /// Lets both proxies work; time goes on when neither has anything to do.
    pub(super) fn step(&mut self) {
        let [a, b] = &mut self.ends;
        if turn(&mut self.near, a, self.now) + turn(&mut self.far, b, self.now) == 0 {
            let patience = self.near.patience(self.now).min(self.far.patience(self.now));
            self.now += Duration::from(patience).max(Duration::from_micros(100));
        }
    }

    /// Works until `ask` has an answer.
    pub(super) fn until<T>(&mut self, what: &str, mut ask: impl FnMut(&mut World) -> Option<T>) -> T {
        let deadline = self.now + DEADLINE;
        loop {
            if let Some(answer) = ask(self) {
                return answer;
            }
            assert!(self.now < deadline, "{what}\nnear: {}\nfar: {}", self.near.counters(), self.far.counters());
            self.step();
        }
    }

    /// Works for this long.
    pub(super) fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.until("the time to pass", |world| (world.now >= end).then_some(()));
    }

    /// Works until `near` has counted this many connections refused for this reason.
    pub(super) fn refused(&mut self, reason: Refusal, times: u64) {
        self.until(&format!("{reason:?}"), |world| (world.near.counters().refused(reason) == times).then_some(()));
    }

    pub(super) fn counters(&self) -> [Counters; 2] {
        [self.near.counters(), self.far.counters()]
    }
}

/// Gives a proxy all frames that wait for it.
fn turn(relay: &mut Relay, end: &mut End, now: Instant) -> usize {
    let mut done = 0;
    for _ in 0..32 {
        let any = end.take();
        done += relay.round(end, now);
        if !any {
            break;
        }
    }
    done
}
