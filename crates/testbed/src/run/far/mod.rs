//! A second machine, which has the second host and all receivers and servers; [`super::host`] is its program.
//!
//! ```text
//!   testbed run                                                testbed host
//!     Far ──── lines of JSON over ssh, for example ────► requests, answers
//!   host 0: switch, senders, clients ═══ cable ═══ host 1: switch, receivers, servers
//! ```
//!
//! The machine that makes the run begins everything. Each request has one answer.

mod protocol;

pub use protocol::{Answer, Request};

use crate::machine::Machine;
use crate::run::apps::Traffic;
use crate::run::record::CpuUse;
use crate::scenario::{OtherMachine, Point};
use lab::process::{Daemon, Interrupt, Launch};
use lab::{Error, Result};
use loadgen::app::AppReport;
use std::process::Command;
use std::time::Duration;

/// Time limit for an answer: building the load on DPDK takes longest.
const LIMIT: Duration = Duration::from_secs(180);

/// Name of the other machine in messages.
const NAME: &str = "the other machine";

/// The connection to the other machine.
pub struct Far {
    daemon: Daemon,
    /// Number of lines that are read.
    read: usize,
    /// The machine.
    pub machine: Machine,
    /// Points that it can take part in.
    pub points: Vec<Point>,
    /// Reasons for which it can't take part in others.
    pub missing: Vec<String>,
}

/// A point that is open there; dropping it closes it.
pub struct Bench<'f>(&'f mut Far);

impl Far {
    /// Starts the testbed there, and lets it prepare for a scenario.
    pub fn connect(other: &OtherMachine, scenario: &str, switches: &[String], interrupt: &Interrupt) -> Result<Far> {
        let mut command = Command::new(&other.command[0]);
        command.args(&other.command[1..]).arg("host");
        let failed = Error::other("running `command` of [other-machine], which starts the testbed there");
        let mut daemon = Launch::measured(NAME, interrupt).spawn(command).map_err(failed)?;
        let mut read = 0;
        let request = Request::Prepare { scenario: scenario.to_owned(), switches: switches.to_vec() };
        match ask(&mut daemon, &mut read, &request)? {
            Answer::Prepared { machine, points, missing } => Ok(Far { daemon, read, machine, points, missing }),
            answer => Err(unexpected(&answer)),
        }
    }

    /// Starts the switch of a point there.
    pub fn open(&mut self, point: &Point) -> Result<Bench<'_>> {
        match self.ask(&Request::Open(Box::new(point.clone())))? {
            Answer::Opened => Ok(Bench(self)),
            answer => Err(unexpected(&answer)),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Answer> {
        ask(&mut self.daemon, &mut self.read, request)
    }
}

impl Bench<'_> {
    /// Starts the applications there.
    pub fn start(&mut self, traffic: Traffic) -> Result<()> {
        match self.0.ask(&Request::Start(traffic))? {
            Answer::Started => Ok(()),
            answer => Err(unexpected(&answer)),
        }
    }

    /// Says that the measured seconds begin.
    pub fn begin(&mut self) -> Result<()> {
        match self.0.ask(&Request::Begin)? {
            Answer::Begun => Ok(()),
            answer => Err(unexpected(&answer)),
        }
    }

    /// Says that the measured seconds end; returns the processor time that was used there.
    pub fn end(&mut self) -> Result<Vec<CpuUse>> {
        match self.0.ask(&Request::End)? {
            Answer::Ended(cpu) => Ok(cpu),
            answer => Err(unexpected(&answer)),
        }
    }

    /// Ends the applications there; returns their reports.
    pub fn finish(&mut self) -> Result<Vec<AppReport>> {
        match self.0.ask(&Request::Finish)? {
            Answer::Finished(reports) => Ok(reports),
            answer => Err(unexpected(&answer)),
        }
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        // A failure shows at the next request.
        let _ = self.0.ask(&Request::Close);
    }
}

fn ask(daemon: &mut Daemon, read: &mut usize, request: &Request) -> Result<Answer> {
    daemon.send_line(&serde_json::to_string(request).expect("numbers and strings"))?;
    // Its log is between the answers.
    let is_answer = |line: &str| line.starts_with(['{', '"']);
    let (number, line) = daemon.wait_for_line_since(*read, "its answer", LIMIT, is_answer)?;
    *read = number + 1;
    match serde_json::from_str(&line).map_err(Error::other(format!("reading the answer of {NAME}: {line}")))? {
        Answer::Failed(reason) => Err(Error::malformed(NAME, reason)),
        answer => Ok(answer),
    }
}

fn unexpected(answer: &Answer) -> Error {
    Error::malformed(NAME, format!("it gave the answer to another request: {answer:?}"))
}
