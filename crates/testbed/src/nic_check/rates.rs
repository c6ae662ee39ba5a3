//! Rates, mapped and copied in turn.

use super::figures::{Figures, Rate, Rates};
use super::place::Far;
use super::report::{Answers, Question, Verdict};
use super::rig::{Joint, Rig};
use crate::compare::Counted;
use crate::record::rounded;
use crate::statistics::{Spread, median};
use engine::stats::MappingStats;
use lab::process::{Daemon, Launch};
use lab::{Error, Result};
use loadgen::load::{RUNNING, Report};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Seconds that frames flow before a measurement.
const WARMUP: f64 = 0.3;

/// Margin by which the switch is observed inside the load's own measurement, at either end.
const MARGIN: Duration = Duration::from_millis(100);

/// Time that a load may take beyond its own.
const LIMIT: Duration = Duration::from_secs(60);

/// Both ways in turn.
const JOINTS: [Joint; 2] = [Joint::Mapped, Joint::Copied];

/// One measurement.
struct Sample {
    joint: Joint,
    bytes: u16,
    mpps: f64,
    counted: Counted,
    in_place: f64,
    errors: u64,
}

/// Measures all sizes, mapped and copied in each round.
pub fn run(rig: &Rig) -> Result<Rates> {
    let (rounds, sizes) = (rig.options().rounds, rig.options().size.clone());
    let mut samples = Vec::new();
    for round in 0..rounds {
        for joint in JOINTS {
            let way = if joint == Joint::Mapped { "mapped" } else { "copied" };
            eprintln!("rates, round {} of {rounds}: {way}", round + 1);
            rig.join(joint)?;
            for &bytes in &sizes {
                for opened in [rig.open()?, rig.peer_opens()?] {
                    opened.map_err(|down| Error::malformed("the port", down))?;
                }
                samples.push(measure(rig, joint, bytes)?);
            }
        }
    }
    let rows = sizes.iter().filter_map(|&bytes| row(bytes, &samples)).collect();
    Ok(Rates { rounds, seconds: rig.options().seconds, shared: rig.processors().are_shared(), rows })
}

/// Measures frames that go there and back. Where the other end is a port of this machine, the load is there, and the guest echoes.
fn measure(rig: &Rig, joint: Joint, bytes: u16) -> Result<Sample> {
    let sockets = rig.sockets();
    let (function, load) = (rig.processors().function, rig.processors().load);
    let seconds = rig.options().seconds;
    let (mut measured, _echo) = match (&sockets[..], &rig.place().far) {
        ([near, far], _) => {
            // It ends when the load has.
            let echo = start(rig, "echo", near, bytes, function, 2.0 * LIMIT.as_secs_f64() + seconds)?;
            (start(rig, "load", far, bytes, load, seconds)?, Some(echo))
        }
        (_, Far::Echo) => (start(rig, "echo", &sockets[0], bytes, function, seconds)?, None),
        _ => (start(rig, "load", &sockets[0], bytes, load, seconds)?, None),
    };
    measured.wait_for_line("its first frames", LIMIT, |line| line == RUNNING)?;
    rig.interrupt().sleep(Duration::from_secs_f64(WARMUP) + MARGIN)?;
    let before = rig.stats()?;
    rig.interrupt().sleep(Duration::from_secs_f64(seconds).saturating_sub(2 * MARGIN).max(MARGIN))?;
    let after = rig.stats()?;
    let report = measured.finish(Duration::from_secs_f64(seconds) + LIMIT)?;
    let report: Report = serde_json::from_str(&report).map_err(Error::other("reading the load's report"))?;
    let in_place = match (before.mappings.first(), after.mappings.first()) {
        (Some(before), Some(after)) => {
            let since = |count: fn(&MappingStats) -> u64| count(after).saturating_sub(count(before)) as f64;
            let [some, others] = [since(|mapping| mapping.in_place), since(|mapping| mapping.copied)];
            some / (some + others).max(1.0)
        }
        _ => 0.0,
    };
    let errors = report.lost + report.corrupt + report.late;
    Ok(Sample { joint, bytes, mpps: report.mpps, counted: Counted::between(&before, &after), in_place, errors })
}

/// Starts this program again, at a socket of the switches.
fn start(rig: &Rig, subcommand: &str, socket: &Path, bytes: u16, cpu: usize, seconds: f64) -> Result<Daemon> {
    let program = std::env::current_exe().map_err(Error::io("looking for this program"))?;
    let mut command = Command::new(program);
    command.args([subcommand, "--json", "--size", &bytes.to_string(), "--cpu", &cpu.to_string()]);
    command.args(["--seconds", &seconds.to_string(), "--warmup", &WARMUP.to_string()]).arg(socket);
    if subcommand == "echo" {
        // The load compares what comes back.
        command.args(["--touch", "none"]);
    }
    Launch::measured(format!("the {subcommand}"), rig.interrupt()).spawn(command)
}

/// Returns the figures of a size.
fn row(bytes: u16, samples: &[Sample]) -> Option<Rate> {
    let [mapped, copied] = JOINTS.map(|joint| {
        let of = |sample: &&Sample| (sample.joint, sample.bytes) == (joint, bytes);
        samples.iter().filter(of).collect::<Vec<_>>()
    });
    let figures = |samples: &[&Sample]| {
        let of = |figure: fn(&Sample) -> f64| median(samples.iter().map(|sample| figure(sample)));
        Some(Figures {
            mpps: rounded(of(|sample| sample.mpps)?, 4),
            cycles: rounded(of(|sample| sample.counted.cycles_per_packet)?, 1),
            idle: rounded(of(|sample| sample.counted.idle_share)?, 3),
            in_place: rounded(of(|sample| sample.in_place)?, 3),
            errors: samples.iter().map(|sample| sample.errors).sum(),
        })
    };
    let ratio = Spread::of(mapped.iter().zip(&copied).map(|(mapped, copied)| mapped.mpps / copied.mpps))?;
    let ratio = [ratio.median, ratio.min, ratio.max].map(|ratio| rounded(ratio, 3));
    Some(Rate { bytes, mapped: figures(&mapped)?, copied: figures(&copied)?, ratio })
}

/// Answers whether frames pass faster without a copy: at every size, in every round. Parts that share processors don't show it.
pub fn answer(rates: &Rates, answers: &mut Answers) {
    let all = |holds: fn(&Rate) -> bool| rates.rows.iter().all(holds);
    let verdict = match rates.shared {
        true => Verdict::Open,
        false if all(|rate| rate.ratio[1] > 1.0) => Verdict::Yes,
        false if all(|rate| rate.ratio[2] < 1.0) => Verdict::No,
        false => Verdict::Partly,
    };
    let ratios = rates.rows.iter().map(|rate| format!("{:.2} at {} bytes", rate.ratio[0], rate.bytes));
    let mut seen = format!("frames mapped for each one copied: {}", ratios.collect::<Vec<_>>().join(", "));
    if rates.shared {
        seen += "; but parts shared processors (--cpus)";
    } else if rates.rows.iter().any(|rate| rate.mapped.idle > IDLE || rate.copied.idle > IDLE) {
        seen += "; the switch waited at times, so something else was the limit";
    }
    answers.set(Question::Faster, verdict, seen);
}

/// Share of idle cycles from which the switch is not the limit.
const IDLE: f64 = 0.05;

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn sample(joint: Joint, mpps: f64, idle_share: f64) -> Sample {
        let counted = Counted { cycles_per_packet: 100.0 / mpps, idle_share, drops: BTreeMap::new() };
        Sample { joint, bytes: 1514, mpps, counted, in_place: 1.0, errors: 1 }
    }

    /// Returns the rates of three rounds.
    pub fn rates() -> Rates {
        let rounds = [(3.0, 2.0), (2.0, 2.0), (4.0, 2.0)];
        let both = rounds
            .iter()
            .flat_map(|&(mapped, copied)| [sample(Joint::Mapped, mapped, 0.0), sample(Joint::Copied, copied, 0.2)]);
        let rows = row(1514, &both.collect::<Vec<_>>()).into_iter().collect();
        Rates { rounds: 3, seconds: 1.0, shared: true, rows }
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let rates = rates();
        let Rate { mapped, copied, ratio, .. } = &rates.rows[0];
        assert_eq!((mapped.mpps, copied.mpps, *ratio), (3.0, 2.0, [1.5, 1.0, 2.0]));
        assert_eq!((mapped.errors, copied.cycles), (3, 50.0));
        assert!(row(64, &[]).is_none());
    }

    #[test]
    fn only_what_every_round_shows_is_faster() {
        let answered = |rates: &Rates| {
            let mut answers = Answers::default();
            answer(rates, &mut answers);
            answers.get(Question::Faster).unwrap().clone()
        };
        let shared = answered(&rates());
        assert!(shared.answer == Verdict::Open && shared.seen.ends_with("but parts shared processors (--cpus)"));
        for (ratio, verdict) in
            [([1.5, 1.1, 2.0], Verdict::Yes), ([1.5, 0.9, 2.0], Verdict::Partly), ([0.8, 0.7, 0.9], Verdict::No)]
        {
            let mut alone = Rates { shared: false, ..rates() };
            alone.rows[0].ratio = ratio;
            assert_eq!(answered(&alone).answer, verdict, "{ratio:?}");
            assert!(answered(&alone).seen.contains("bytes; the switch waited"), "its copy was idle for a fifth");
        }
    }
}
