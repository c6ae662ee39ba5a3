//! Millrace under test: [`lab::millrace`] for tests, which end at the first failure.

mod home;
mod millrace;
mod program;
mod vm;

pub use home::Home;
pub use millrace::Millrace;
pub use program::{companion, function, program, testbed};
pub use vm::VmSwitch;

use lab::millrace::SOON;
use lab::millrace::config::{RawWorker, backing_off, pinned};
use std::time::{Duration, Instant};

/// Returns a worker on the core reserved for the switch, which leaves the core to others as soon as nothing arrives.
pub fn poller() -> RawWorker {
    RawWorker { patience: "0s".to_owned().into(), ..pinned(lab::cpu::Plan::detect().switch, backing_off()) }
}

/// Calls `ask` until it returns an answer.
pub fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
