//! A running Millrace under test.

use super::wait_for;
use api::Drops;
use api::reload::ReloadReport;
use engine::stats::{AggregationSide, AggregationStats, MacEntry, MappingStats, Snapshot};
use lab::Result;
use lab::millrace::Port;
use lab::process::Usage;
use std::ops::{Deref, DerefMut};

/// A running Millrace; dropping it kills it. If it still runs then, the test has failed before its end: it shows its counters and its
/// log first.
pub struct Millrace(lab::millrace::Millrace);

impl Deref for Millrace {
    type Target = lab::millrace::Millrace;

    fn deref(&self) -> &lab::millrace::Millrace {
        &self.0
    }
}

impl DerefMut for Millrace {
    fn deref_mut(&mut self) -> &mut lab::millrace::Millrace {
        &mut self.0
    }
}

impl Drop for Millrace {
    fn drop(&mut self) {
        if std::thread::panicking() || self.0.daemon.exit_status().is_ok_and(|status| status.is_none()) {
            eprintln!("{:#?}\nMillrace said:\n{}", self.0.stats(), self.0.daemon.log().tail(40));
        }
    }
}

/// Ends the test if it failed.
fn sure<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

impl Millrace {
    pub(super) fn of(millrace: lab::millrace::Millrace) -> Millrace {
        Millrace(millrace)
    }

    /// Returns all its counters.
    pub fn stats(&self) -> Snapshot {
        sure(self.0.stats())
    }

    /// Waits until the only worker, which does not sleep, has made a whole round from now on.
    pub fn wait_round(&self) {
        let cycles = || {
            let worker = &self.stats().workers[0];
            worker.busy_cycles + worker.idle_cycles
        };
        // The first growth may be that of a round which had begun before.
        for _ in 0..2 {
            let before = cycles();
            wait_for("a round", || (cycles() > before).then_some(()));
        }
    }

    /// Returns the counters of a port.
    pub fn port(&self, name: &str) -> Port {
        sure(self.0.port(name))
    }

    /// Returns a port once it has received and sent exactly these frames.
    pub fn counted(&self, name: &str, rx: u64, tx: u64) -> Port {
        sure(self.0.counted(name, rx, tx))
    }

    /// Returns the mapping, of the first queue if it has several.
    pub fn mapping(&self) -> MappingStats {
        sure(self.0.mapping())
    }

    /// Returns the counters of `[aggregation]`.
    pub fn aggregation(&self) -> AggregationStats {
        sure(self.0.aggregation())
    }

    /// Returns the counters of both directions of a port that aggregates.
    pub fn sides(&self, port: &str) -> [AggregationSide; 2] {
        let ports = self.aggregation().ports;
        let port = ports.into_iter().find(|other| other.port == port).expect("it aggregates");
        [port.received, port.sent]
    }

    /// Returns the addresses that its bridges know.
    pub fn macs(&self) -> Vec<MacEntry> {
        sure(self.0.macs())
    }

    /// Returns the frames that it dropped, by port and reason.
    pub fn drops(&self) -> Drops {
        sure(self.0.drops())
    }

    /// Checks that it dropped nothing.
    pub fn none_dropped(&self) {
        let drops = self.drops();
        assert!(drops.is_empty(), "{drops:?}");
    }

    /// Makes it read its configuration again.
    pub fn reload(&self) -> ReloadReport {
        sure(self.0.reload())
    }

    /// Returns the output of `millrace ctl` with these arguments, which spaces separate.
    pub fn ctl(&self, arguments: &str) -> String {
        sure(self.0.ctl(arguments))
    }

    /// Returns the machine's resources that it holds.
    pub fn usage(&self) -> Usage {
        sure(self.0.usage())
    }

    /// Returns its usage at rest.
    pub fn usage_at_rest(&self) -> Usage {
        sure(self.0.usage_at_rest())
    }

    /// Waits until it holds no more than `before`, after `events` events each of which may have leaked something.
    pub fn holds_no_more(&self, before: Usage, events: usize) {
        let after = sure(self.0.holds_no_more(before, events));
        println!("before {before:?}\nafter  {after:?}");
    }

    /// Waits until these ports are up.
    pub fn wait_up(&self, ports: &[&str]) {
        sure(self.0.wait_up(ports));
    }

    /// Waits until a port is down.
    pub fn wait_down(&self, port: &str) {
        sure(self.0.wait_down(port));
    }

    /// Waits until a guest's session has ended.
    pub fn wait_gone(&self, port: &str) {
        sure(self.0.wait_gone(port));
    }

    /// Waits until the mapping has a guest's buffers.
    pub fn wait_mapped(&self) {
        sure(self.0.wait_mapped());
    }

    /// Waits for a log line from line `mark` on that contains `part`.
    pub fn wait_said(&mut self, mark: usize, part: &str) {
        sure(self.0.wait_said(mark, part));
    }

    /// Terminates it as an operator does, and checks its exit status.
    pub fn stop(mut self) {
        sure(self.0.stop());
    }
}
