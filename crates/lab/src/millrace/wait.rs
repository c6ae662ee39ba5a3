//! Waits for events that are certain to come.

use super::{Millrace, Port};
use crate::Result;
use std::time::{Duration, Instant};

/// Time limit for anything that should happen at once: far longer than ever needed, however busy the machine is.
pub const SOON: Duration = Duration::from_secs(120);

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(2);

impl Millrace {
    /// Calls `look` until it finds something. Ends with an error if the time is up or the measurement is interrupted.
    pub fn wait_for<T>(&self, what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let deadline = Instant::now() + SOON;
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            self.daemon.check_interrupt()?;
            if Instant::now() >= deadline {
                return Err(self.daemon.timed_out(what, SOON));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until a port is as wanted.
    fn wait_port(&self, name: &str, what: &str, wanted: impl Fn(&Port) -> bool) -> Result<Port> {
        let first = self.port(name)?;
        let what = format!("port {name} {what}: {:?}", first.0);
        self.wait_for(&what, || Ok(Some(self.port(name)?).filter(|port| wanted(port))))
    }

    /// Returns a port once it has received and sent exactly these frames. A worker counts a burst after the guest can see it.
    pub fn counted(&self, name: &str, rx: u64, tx: u64) -> Result<Port> {
        let what = format!("to count {rx} frames from it and {tx} to it");
        self.wait_port(name, &what, |port| (port.rx(), port.tx()) == (rx, tx))
    }

    /// Waits until these ports are up.
    pub fn wait_up(&self, ports: &[&str]) -> Result<()> {
        ports.iter().try_for_each(|name| self.wait_port(name, "to be up", |port| port.0.up).map(drop))
    }

    /// Waits until all ports are up, as long as `others` succeeds.
    pub fn wait_all_up(&self, mut others: impl FnMut() -> Result<()>) -> Result<()> {
        self.wait_for("all ports to be up", || {
            others()?;
            Ok(self.stats()?.ports.iter().all(|port| port.up).then_some(()))
        })
    }

    /// Waits until a port is down.
    pub fn wait_down(&self, name: &str) -> Result<()> {
        self.wait_port(name, "to be down", |port| !port.0.up).map(drop)
    }

    /// Waits until a guest's session has ended: none of its queues runs any more. The port is down before that.
    pub fn wait_gone(&self, name: &str) -> Result<()> {
        self.wait_port(name, "to be without a guest", |port| port.0.detail.starts_with("no guest is connected"))
            .map(drop)
    }

    /// Waits until the mapping has a guest's buffers.
    pub fn wait_mapped(&self) -> Result<()> {
        self.wait_for("the mapping to be zero-copy", || {
            let mapping = self.mapping()?;
            Ok((mapping.zero_copy && mapping.on_loan > 0).then_some(()))
        })
    }

    /// Waits for a log line from line `mark` on that contains `part`.
    pub fn wait_said(&mut self, mark: usize, part: &str) -> Result<()> {
        self.daemon.wait_for_line_since(mark, part, SOON, |line| line.contains(part)).map(drop)
    }

    /// Terminates it as an operator does, and checks its exit status.
    pub fn stop(&mut self) -> Result<()> {
        let status = self.daemon.terminate(SOON)?;
        if status.success() { Ok(()) } else { Err(self.daemon.exited("stopping", status)) }
    }
}
