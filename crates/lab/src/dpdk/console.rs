//! The interactive side of testpmd: commands over its standard input.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{PortStats, stats};
use crate::Result;
use crate::process::Daemon;

/// Time limit for testpmd to set up its ports, on a busy machine.
pub const READY: Duration = Duration::from_secs(120);

/// Time limit of a command.
const ANSWER: Duration = Duration::from_secs(120);

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
    fn fence(&mut self, timeout: Duration) -> Result<usize> {
        self.fences += 1;
        let fence = format!("# fence {}.", self.fences);
        self.daemon.send_line(&fence)?;
        let echo = self.daemon.wait_for_line_since(0, "the prompt", timeout, |line| line.contains(&fence))?;
        Ok(echo.0)
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

    /// Reads the named counters of every port.
    pub fn named_stats(&mut self) -> Result<Vec<BTreeMap<String, u64>>> {
        Ok(stats::parse_named(&self.command("show port xstats all")?))
    }

    /// Returns the number of frames received so far, all ports together.
    pub fn received(&mut self) -> Result<u64> {
        Ok(self.stats()?.iter().map(|port| port.rx_packets).sum())
    }

    /// Returns the cycles per frame in rounds that moved frames, since the last call. testpmd counts them if it was started with
    /// the argument `--record-core-cycles`.
    pub fn take_cycles(&mut self) -> Result<Option<f64>> {
        let cycles = stats::cycles(&self.command("show fwd stats all")?);
        self.command("clear fwd stats all")?;
        Ok(cycles)
    }

    /// Returns DPDK's version, as printed at its start.
    pub fn version(&self) -> Option<String> {
        let (_, line) = self.daemon.log().find(0, |line| stats::version(line).is_some())?;
        stats::version(&line)
    }

    /// Reports whether every port has a link: of a vhost-user port, whether a guest is connected.
    pub fn is_up(&mut self) -> Result<bool> {
        Ok(stats::is_up(&self.command("show port summary all")?))
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
