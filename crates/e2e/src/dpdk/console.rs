//! The interactive side of testpmd: commands over its standard input.

use std::time::{Duration, Instant};

use super::PortStats;
use super::stats;
use crate::process::Daemon;
use crate::{Error, Result};

/// Time limit for testpmd to set up its ports, on a busy machine.
pub const READY: Duration = Duration::from_secs(120);

/// Time limit of a command.
const ANSWER: Duration = Duration::from_secs(120);

/// Time after which an echo is requested again.
const ECHO: Duration = Duration::from_secs(2);

/// A testpmd in interactive mode.
#[derive(Debug)]
pub struct Console {
    daemon: Daemon,
    fences: u32,
}

impl Console {
    pub(super) fn new(daemon: Daemon) -> Self {
        Self { daemon, fences: 0 }
    }

    /// Returns the process: the sandbox's, if there is one.
    pub fn daemon(&mut self) -> &mut Daemon {
        &mut self.daemon
    }

    /// Waits until testpmd has set up its ports and accepts commands.
    pub fn wait_ready(&mut self, timeout: Duration) -> Result<()> {
        // The prompt has no newline and therefore stays in testpmd's buffer; the answer to a fence does not.
        self.fence(timeout).map(drop)
    }

    /// Runs a command to its end; returns the lines that testpmd printed in between.
    pub fn command(&mut self, command: &str) -> Result<Vec<String>> {
        let mark = self.daemon.log().mark();
        self.daemon.send_line(command)?;
        let end = self.fence(ANSWER)?;
        let mut lines = self.daemon.log().since(mark);
        lines.truncate(end.saturating_sub(mark));
        Ok(lines)
    }

    /// Sends a comment, which testpmd echoes only when everything before it is done; returns the echo's line number.
    /// A message to the error stream can tear an echo in two, so it asks again.
    fn fence(&mut self, timeout: Duration) -> Result<usize> {
        let deadline = Instant::now() + timeout;
        loop {
            self.fences += 1;
            let fence = format!("# fence {}.", self.fences);
            self.daemon.send_line(&fence)?;
            let left = deadline.saturating_duration_since(Instant::now());
            let found = self.daemon.wait_for_line_since(0, "the prompt", left.min(ECHO), |line| line.contains(&fence));
            match found {
                Err(Error::Timeout { .. }) if left > ECHO => {}
                found => return found.map(|found| found.0),
            }
        }
    }

    /// Starts forwarding.
    pub fn start(&mut self) -> Result<()> {
        self.command("start").map(drop)
    }

    /// Sends `bursts` bursts of 32 packets from every queue, then starts forwarding: in a closed loop they circulate forever.
    pub fn start_tx_first(&mut self, bursts: u32) -> Result<()> {
        self.command(&format!("start tx_first {bursts}")).map(drop)
    }

    /// Stops forwarding; returns testpmd's summary.
    pub fn stop(&mut self) -> Result<Vec<String>> {
        self.command("stop")
    }

    /// Reads the counters of every port.
    pub fn stats(&mut self) -> Result<Vec<PortStats>> {
        stats::parse(&self.command("show port stats all")?)
    }

    /// Sets the counters of every port to zero.
    pub fn clear_stats(&mut self) -> Result<()> {
        self.command("clear port stats all").map(drop)
    }

    /// Makes testpmd close its ports and exit; an error if it takes longer than `timeout`.
    pub fn quit(&mut self, timeout: Duration) -> Result<()> {
        self.daemon.send_line("quit")?;
        self.daemon.wait(timeout).map(drop)
    }
}
