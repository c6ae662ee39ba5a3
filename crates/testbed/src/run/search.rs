//! The search for the rates of a point: with the switch running, each trial has applications of its own.

use super::apps::Traffic;
use super::loss::Totals;
use super::trial::Bench;
use crate::scenario::{Point, Timing};
use crate::search::{Goal, Limits, Search, Searched, Trial, TrialRequest, conduct};
use lab::{Error, Result};
use loadgen::app::Rate;

/// Greatest rate that is tried, relative to the rate that came through when the load sent as fast as it could.
const BEYOND: f64 = 1.5;
/// Long trials that must agree.
const TRIALS: f64 = 3.0;
/// Longest search in seconds of its trials.
const LONGEST: f64 = 120.0;
/// Short trials, relative to long ones.
const SHORT: f64 = 0.4;

/// Burst that shows how many packets a switch holds: it must have left before the trial ends (RFC 9004 §6.2).
const BURST_SECONDS: f64 = 2.0;

/// Searches for the rates without loss and with 0.5 % of loss.
pub fn search(bench: &mut Bench<'_>, point: &Point, timing: Timing) -> Result<Searched> {
    let long = timing.trial;
    let max = BEYOND * greatest(bench, point, timing)?;
    let goal = |goal: Goal| Goal { initial: SHORT * long, seconds: long, sum: TRIALS * long, ..goal };
    let limits = Limits { trials: timing.trials, seconds: LONGEST };
    let search = Search::new(max, [goal(Goal::NDR), goal(Goal::PDR)], limits);
    Ok(conduct(search, |request| trial(bench, point, timing, request))?.into())
}

/// Returns the packets per second of each sender that come through when it sends as fast as it can.
pub fn greatest(bench: &mut Bench<'_>, point: &Point, timing: Timing) -> Result<f64> {
    let timing = Timing { seconds: timing.trial, ..timing };
    let found = bench.run(point, Traffic { rate: Rate::Max, packets: None, timing })?;
    let rate = Totals::of(&found.reports).rate() / f64::from(point.pairs);
    if rate > 0.0 { Ok(rate) } else { Err(Error::malformed("the search", "no packet came through, at any rate")) }
}

/// Makes one trial.
pub fn trial(bench: &mut Bench<'_>, point: &Point, timing: Timing, request: &TrialRequest) -> Result<Trial> {
    let traffic = match *request {
        TrialRequest::Rate { rate, seconds } => {
            Traffic { rate: Rate::PerSecond(rate), packets: None, timing: Timing { seconds, ..timing } }
        }
        TrialRequest::Burst { frames } => {
            let timing = Timing { seconds: BURST_SECONDS, warm_up: 0.0, ..timing };
            Traffic { rate: Rate::Max, packets: Some(frames), timing }
        }
    };
    let found = bench.run(point, traffic)?;
    let totals = Totals::of(&found.reports);
    let latency = found.reports.iter().flat_map(|report| &report.flows).find_map(|flow| flow.latency);
    let offered = totals.offered() / f64::from(point.pairs);
    let rate = if let Rate::PerSecond(rate) = traffic.rate { rate } else { offered };
    Ok(Trial { rate, offered, seconds: traffic.timing.seconds, loss: totals.loss(), latency })
}
