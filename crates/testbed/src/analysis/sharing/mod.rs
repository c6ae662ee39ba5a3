//! Ways to share one receive queue among threads, after Asada et al., "Roadblocks of I/O Parallelization: Removing H/W
//! Contentions by Static Role Assignment in VNFs": the cycles that sharing and I/O cost for each packet, the speed of two
//! processors, and a model of more.
//!
//! [`plan`] has the points to compare. A [`subject`] measures it once: a [`crew`] of a network function. Of the workers of
//! the [`switch`] there are means only. [`found`] has the statistics, [`model`] the queues, and the others show both.

mod chart;
mod crew;
mod distribution;
mod error;
mod found;
mod model;
mod pace;
mod plan;
mod rows;
mod show;
mod subject;
mod switch;

use crate::latency;
use crate::machine::Machine;
use crate::record::free_directory;
use crate::ring_format::RingFormat;
use clap::Args;
use crew::{CrewSetup, CrewSubject, CrewSubjectError};
use found::Found;
use loadgen::load::power_of_two;
use plan::{Flows, Load, Sharing, Wanted};
use std::path::PathBuf;
use subject::Subject;

pub use error::SharingError;

/// Which ways, under which conditions.
#[derive(Clone, Debug, Args)]
pub struct CompareSharing {
    /// Ways to share the queue; one thread alone is always measured
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["rss", "locked", "static-role", "working-parent"])]
    pub sharing: Vec<Sharing>,
    /// Threads that process packets; a parent that does not work is one more
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8", value_parser = clap::value_parser!(u16).range(1..=16))]
    pub threads: Vec<u16>,
    /// Flows of the packets
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["one", "many"])]
    pub flows: Vec<Flows>,
    /// Whether packets come a few at a time, or the queue is full
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["low", "full"])]
    pub load: Vec<Load>,
    /// Cycles of work for each packet, where speed is measured
    #[arg(long, value_name = "CYCLES", value_delimiter = ',', default_value = "200,500,1000")]
    pub work: Vec<u64>,
    /// Ring format
    #[arg(long, value_enum, default_value_t = RingFormat::Split)]
    pub ring: RingFormat,
    /// Descriptors of each ring; a full queue has three quarters of that: many times as many as all batches have room for, so that
    /// most of them are used again, as in a crew that runs for longer
    #[arg(long, default_value = "8192", value_parser = power_of_two)]
    pub queue_size: u16,
    /// Packets at a time under a low load
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=32))]
    pub few: u16,
    /// Rounds, in each of which all measurements are made; medians over rounds are shown
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Turns of a round, in each of which all measurements are made once, one after the other
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub turns: u32,
    /// Processors: a parent's, or every other thread's, and the others'
    #[arg(long, value_name = "CPU,CPU", default_value = "0,1", value_parser = two_processors)]
    pub cpus: [usize; 2],
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Directory for the results [default: bench/results/DATE-sharing]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Reads the numbers of two processors.
fn two_processors(text: &str) -> Result<[usize; 2], String> {
    let number = |text: &str| text.parse().map_err(|error| format!("processor {text:?}: {error}"));
    match text.split_once(',').map(|(first, second)| (number(first), number(second))) {
        Some((first, second)) => match [first?, second?] {
            [first, second] if first == second => {
                Err(format!("processor {first} is given twice: threads have to be apart"))
            }
            both => Ok(both),
        },
        None => Err("two processors are needed, as in 0,1".to_owned()),
    }
}

/// Measures, and writes the results.
pub fn run(options: &CompareSharing) -> Result<(), SharingError> {
    let [first, second] = options.cpus;
    let CompareSharing { sharing, threads, flows, load, work, .. } = options;
    let points = plan::points(&Wanted { sharings: sharing, threads, flows, loads: load, work });
    let machine = Machine::detect(&std::env::current_exe().unwrap_or_default());
    let mut found = Found::new(machine, points, switch::points(sharing, threads));
    let setup = CrewSetup {
        ring: options.ring,
        queue_size: options.queue_size,
        few: options.few.into(),
        cpus: options.cpus,
        threads: options.threads.iter().copied().max().unwrap_or(1).max(2),
    };
    let mut subject = CrewSubject::open(setup).map_err(SharingError::Open)?;
    for round in 1..=options.rounds {
        found.latencies.push(latency::between(first, second)?);
        eprintln!("[{round}/{}] {} measurements, {} times", options.rounds, found.points.len(), options.turns);
        measure(&mut found, &mut subject, options)?;
    }
    found.latencies.push(latency::between(first, second)?);
    let (text, record) = (show::text(&found), rows::record(&found));
    print!("{}", if options.json { record.text() } else { text.clone() });
    let directory = options.out.clone().unwrap_or_else(|| free_directory(&found.rig, "sharing"));
    let charts = [
        ("chart.svg", chart::cycles(&found, Flows::One)),
        ("chart-many.svg", chart::cycles(&found, Flows::Many)),
        ("chart-model.svg", chart::model(&found)),
    ];
    let charts = charts.iter().filter_map(|(name, chart)| Some((*name, chart.as_deref()?)));
    record.write(&directory, &[("table.txt", &text[..])].into_iter().chain(charts).collect::<Vec<_>>())?;
    eprintln!("results in {}", directory.display());
    Ok(())
}

/// Makes all measurements in turn, several times.
fn measure(
    found: &mut Found,
    subject: &mut impl Subject<Error = CrewSubjectError>,
    options: &CompareSharing,
) -> Result<(), SharingError> {
    for _ in 0..options.turns {
        for measured in &mut found.points {
            let point = measured.point;
            measured.add(subject.measure(&point).map_err(|source| SharingError::Measure { point, source })?);
        }
        for workers in &mut found.switch {
            workers.measure(options.cpus)?;
        }
    }
    found.points.iter_mut().for_each(|measured| measured.end_round());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        sharing: CompareSharing,
    }

    fn parsed(words: &[&str]) -> Result<CompareSharing, String> {
        let line = Line::try_parse_from([&["sharing"], words].concat());
        line.map(|line| line.sharing).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_read() {
        let options = parsed(&["--threads", "1,3", "--sharing", "locked", "--work", "50", "--cpus", "3,1"]).unwrap();
        assert_eq!((&options.threads[..], &options.sharing[..]), (&[1, 3][..], &[Sharing::Locked][..]));
        assert_eq!((&options.work[..], options.cpus), (&[50][..], [3, 1]));
        let defaults = parsed(&[]).unwrap();
        assert_eq!((&defaults.threads[..], &defaults.work[..]), (&[1, 2, 4, 8][..], &[200, 500, 1000][..]));
        assert_eq!(
            (defaults.cpus, defaults.sharing.len(), defaults.flows.len(), defaults.load.len()),
            ([0, 1], 4, 2, 2)
        );
    }

    #[test]
    fn options_that_cannot_be_measured_are_refused() {
        for (words, why) in [
            (["--cpus", "1"], "two processors are needed"),
            (["--cpus", "1,1"], "processor 1 is given twice"),
            (["--cpus", "1,x"], "processor \"x\""),
            (["--threads", "0"], "0"),
            (["--threads", "17"], "17"),
            (["--queue-size", "1000"], "1000"),
            (["--few", "33"], "33"),
            (["--sharing", "magic"], "magic"),
        ] {
            let error = parsed(&words).unwrap_err();
            assert!(error.contains(why), "{words:?}: {error}");
        }
    }
}
