//! The running program.

use super::{Files, Port};
use crate::process::{Daemon, Usage};
use crate::{Error, Result, output_of};
use api::Drops;
use api::reload::ReloadReport;
use api::request::{self, Request};
use client::Client;
use engine::stats::{AggregationStats, MacEntry, MappingStats, Snapshot};
use std::path::PathBuf;
use std::process::Command;

/// A running Millrace; dropping it kills it.
#[derive(Debug)]
pub struct Millrace {
    /// Its process.
    pub daemon: Daemon,
    pub(super) program: PathBuf,
    pub(super) files: Files,
}

impl Millrace {
    /// Returns the answer to a request at the control socket.
    pub fn ask<R: Request>(&self, request: &R) -> Result<R::Answer> {
        let answer = Client::connect(&self.files.control).and_then(|mut client| client.call(request));
        let said =
            || format!("asking Millrace for `{}`; the end of its output:\n{}", R::METHOD, self.daemon.log().tail(40));
        answer.map_err(|error| Error::other(said())(error))
    }

    /// Returns all its counters.
    pub fn stats(&self) -> Result<Snapshot> {
        self.ask(&request::Stats {})
    }

    /// Returns the counters of a port.
    pub fn port(&self, name: &str) -> Result<Port> {
        self.stats().and_then(|stats| Port::of(&stats, name))
    }

    /// Returns the mapping, of the first queue if it has several.
    pub fn mapping(&self) -> Result<MappingStats> {
        let first = self.stats()?.mappings.into_iter().next();
        first.ok_or_else(|| Error::malformed("Millrace's counters", "there is no mapping"))
    }

    /// Returns the counters of `[aggregation]`.
    pub fn aggregation(&self) -> Result<AggregationStats> {
        self.stats()?.aggregation.ok_or_else(|| Error::malformed("Millrace's counters", "nothing is aggregated"))
    }

    /// Returns the addresses that its bridges know.
    pub fn macs(&self) -> Result<Vec<MacEntry>> {
        self.ask(&request::Mac {})
    }

    /// Returns the frames that it dropped, by port and reason.
    pub fn drops(&self) -> Result<Drops> {
        self.ask(&request::Drops {})
    }

    /// Makes it read its configuration again.
    pub fn reload(&self) -> Result<ReloadReport> {
        self.ask(&request::Reload {})
    }

    /// Returns a command that runs `millrace ctl` with these arguments.
    pub fn control(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["ctl", "--socket"]).arg(&self.files.control).args(arguments);
        command
    }

    /// Returns the output of `millrace ctl` with these arguments, which spaces separate.
    pub fn ctl(&self, arguments: &str) -> Result<String> {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let output = output_of(&mut self.control(&arguments))?;
        String::from_utf8(output).map_err(|_| Error::malformed("the output of millrace ctl", "it is not UTF-8"))
    }

    /// Returns its files.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Returns the machine's resources that it holds.
    pub fn usage(&self) -> Result<Usage> {
        self.daemon.usage()
    }
}
