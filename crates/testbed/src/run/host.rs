//! The answers of the machine that has the second host.

use super::RunError;
use super::apps::Traffic;
use super::far::{Answer, Request};
use super::plan::Plan;
use super::point::{HostRole, Rig};
use super::trial::Bench;
use crate::machine::Machine;
use crate::scenario::{Point, Scenario};
use lab::process::Interrupt;
use lab::{Error, Result};
use loadgen::app::AppReport;
use std::io::{BufRead, StdinLock, Write};
use std::path::Path;

/// Answers requests until there are no more.
pub fn serve() -> std::result::Result<(), RunError> {
    let mut requests = Requests(std::io::stdin().lock().lines());
    let served = prepare_and_serve(&mut requests);
    if let Err(error) = &served {
        answer(&Answer::Failed(error.to_string()))?;
    }
    served
}

fn prepare_and_serve(requests: &mut Requests) -> std::result::Result<(), RunError> {
    let (text, switches) = match requests.next()? {
        None => return Ok(()),
        Some(Request::Prepare { scenario, switches }) => (scenario, switches),
        Some(other) => return Err(RunError::Request(format!("{other:?} comes before the scenario"))),
    };
    let scenario = Scenario::parse(&text, Path::new("of the other machine"))?;
    let millrace = crate::millrace::program(None)?;
    let plan = Plan::new(&scenario, &switches, &millrace).map_err(RunError::Plan)?;
    let interrupt = Interrupt::install()?;
    let mut rig = Rig::new(&scenario, &plan, HostRole::Second, &interrupt)?;
    // The same in every round.
    let first = plan.turns().iter().filter(|turn| turn.round == 0);
    let points: Vec<Point> = first.map(|turn| turn.point.clone()).collect();
    let missing = plan.missing().to_vec();
    answer(&Answer::Prepared { machine: Machine::detect(&millrace), points, missing })?;
    while let Some(request) = requests.next()? {
        let Request::Open(point) = request else {
            // The point was closed by a failure.
            answer(&Answer::Closed)?;
            continue;
        };
        let processors = rig.processors(&point);
        match rig.with_bench(&point, &processors, |bench| trials(bench, &point, requests)) {
            Ok(()) => answer(&Answer::Closed)?,
            Err(error) if error.is_interrupt() => return Err(error.into()),
            Err(error) => answer(&Answer::Failed(error.to_string()))?,
        }
    }
    Ok(())
}

/// Takes part in trials until the point is to be closed.
fn trials(bench: &mut Bench<'_>, point: &Point, requests: &mut Requests) -> Result<()> {
    answer(&Answer::Opened)?;
    while let Some(Request::Start(traffic)) = requests.next()? {
        if trial(bench, point, traffic, requests)?.is_none() {
            break;
        }
    }
    Ok(())
}

/// Takes part in a trial; returns nothing if the point is to be closed.
fn trial(bench: &mut Bench<'_>, point: &Point, traffic: Traffic, requests: &mut Requests) -> Result<Option<()>> {
    let apps = bench.start(point, traffic)?;
    answer(&Answer::Started)?;
    let Some(Request::Begin) = requests.next()? else { return Ok(None) };
    let before = bench.used(&apps);
    answer(&Answer::Begun)?;
    let Some(Request::End) = requests.next()? else { return Ok(None) };
    answer(&Answer::Ended(bench.used(&apps).since(&before)))?;
    let Some(Request::Finish) = requests.next()? else { return Ok(None) };
    let mut reports = apps.finish()?;
    reports.iter_mut().for_each(without_times);
    bench.check()?;
    answer(&Answer::Finished(reports)).map(Some)
}

/// Removes the times from sender to receiver: they are of two clocks.
fn without_times(report: &mut AppReport) {
    report.flows.iter_mut().for_each(|flow| flow.latency = None);
}

struct Requests(std::io::Lines<StdinLock<'static>>);

impl Requests {
    /// Waits for the next request; returns nothing if the other machine has gone.
    fn next(&mut self) -> Result<Option<Request>> {
        let Some(line) = self.0.next() else { return Ok(None) };
        let line = line.map_err(Error::io("reading a request"))?;
        serde_json::from_str(&line).map(Some).map_err(Error::other(format!("reading the request {line}")))
    }
}

fn answer(answer: &Answer) -> Result<()> {
    let line = serde_json::to_string(answer).expect("numbers and strings");
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Error::io("sending an answer"))
}
