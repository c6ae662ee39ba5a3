//! Millrace under test: what [`lab::millrace`] has, for tests, which end at the first failure.

mod home;
mod millrace;
mod program;

pub use home::Home;
pub use millrace::Millrace;
pub use program::{companion, function, program};

use lab::millrace::SOON;
use std::time::{Duration, Instant};

/// A worker on the core reserved for the switch, which leaves the core to others while nothing arrives.
pub fn poller() -> String {
    format!("[[worker]]\ncpu = {}\nidle = \"backoff\"\n", lab::cpu::Plan::detect().switch)
}

/// A worker that sleeps when idle, on any core.
pub const SLEEPER: &str = "[[worker]]\nidle = \"sleep\"\n";

/// Returns a vhost-user port with the socket `NAME.sock`.
pub fn port(name: &str) -> String {
    format!("[[port]]\nname = \"{name}\"\ndriver = \"vhost-user\"\nsocket = \"{name}.sock\"\n")
}

/// Returns two vhost-user ports and a patch between them.
pub fn patch(a: &str, b: &str) -> String {
    format!("{}{}[[patch]]\nports = [\"{a}\", \"{b}\"]\n", port(a), port(b))
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
