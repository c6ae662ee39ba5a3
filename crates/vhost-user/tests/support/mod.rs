//! Shared test support: a device that echoes, a guest that sends and checks, and a peer that sends arbitrary bytes.
#![allow(dead_code, missing_docs, unused_imports)] // Each test binary uses its part.

mod echo;
mod guest;
mod raw;

pub use echo::{Echo, Event};
pub use guest::Guest;
pub use raw::{Raw, Witness, words};

use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use vhost_user::Mode;
use vhost_user::backend::{Options, Service};
use virtqueue::features::{EVENT_IDX, IN_ORDER, INDIRECT_DESC, MRG_RXBUF, RING_PACKED};

pub const SPLIT: u64 = MRG_RXBUF | EVENT_IDX | INDIRECT_DESC;
pub const PACKED: u64 = SPLIT | RING_PACKED;
pub const PACKED_IN_ORDER: u64 = PACKED | IN_ORDER;

/// An echoing device on its own socket.
pub struct Bench {
    pub echo: Arc<Echo>,
    pub service: Option<Service>,
    pub socket: PathBuf,
    pub mode: Mode,
    pub pairs: u16,
    mtu: Option<u16>,
    _dir: TempDir,
}

impl Bench {
    /// Starts the device; `mode` is the device's.
    pub fn new(mode: Mode, pairs: u16) -> Bench {
        Bench::with_mtu(mode, pairs, None)
    }

    /// Starts a device that offers its guests an MTU.
    pub fn with_mtu(mode: Mode, pairs: u16, mtu: Option<u16>) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("vhost.sock");
        let mut bench = Bench { echo: Echo::new(pairs), service: None, socket, mode, pairs, mtu, _dir: dir };
        bench.start();
        bench
    }

    pub fn start(&mut self) {
        let options = Options { mtu: self.mtu, ..Options::new(&self.socket, self.mode, self.pairs) };
        self.service = Some(Service::spawn(options, self.echo.clone()).unwrap());
    }

    /// Stops the service, also while it waits.
    pub fn stop(&mut self) {
        self.service.take().expect("it runs").stop();
    }

    /// Connects a well-behaved guest that uses all queue pairs.
    pub fn guest(&self, features: u64) -> Guest {
        Guest::link(&self.socket, self.mode, self.pairs, features)
    }

    /// Connects a peer that sends arbitrary bytes.
    pub fn raw(&self) -> Raw {
        Raw::connect(&self.socket)
    }

    /// Checks that the session ended for this reason, and that a well-behaved guest is served afterwards, split or
    /// packed.
    pub fn ended(&self, reason: &str) {
        let said = self.echo.wait_disconnected();
        assert!(said.contains(reason), "the session ended because {said:?}, not {reason:?}");
        self.still_works();
    }

    pub fn still_works(&self) {
        for features in [SPLIT, PACKED] {
            let mut guest = self.guest(features);
            guest.exchange(100);
            // A connection without a guest, made before, may have been a session.
            self.echo.forget_events();
            drop(guest);
            self.echo.wait_disconnected();
        }
    }
}

/// Creates a memory file to share.
pub fn memfd(len: u64) -> OwnedFd {
    let file = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, len).unwrap();
    file
}

/// Calls `ask` until it returns a value.
pub fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "waited in vain for {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Counts the open descriptors of this process. Only useful in a test binary with a single test.
pub fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
