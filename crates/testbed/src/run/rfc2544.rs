//! The tests of RFC 2544 with one switch.

use super::RunError;
use super::plan::Plan;
use super::point::{HostRole, Rig};
use super::search::{greatest, trial};
use crate::machine::Machine;
use crate::scenario::{Scenario, Timing};
use crate::search::rfc2544::{Bursts, Settings, report, test};
use crate::search::{Goal, Limits};
use clap::Args;
use lab::process::Interrupt;
use loadgen::app::Size;
use loadgen::endpoint::Technique;
use std::path::{Path, PathBuf};

/// The switch, and how thoroughly it is tested.
#[derive(Clone, Debug, Args)]
pub struct Rfc2544 {
    /// Name of the switch, as `testbed list` has it
    #[arg(default_value = "millrace")]
    switch: String,
    /// How packets are sent and received
    #[arg(long, value_enum, default_value_t = Technique::VirtioUser)]
    technique: Technique,
    /// Bytes of a frame without its checksum; the RFC counts the four bytes of the checksum, too
    #[arg(long, value_delimiter = ',', value_name = "BYTES,...", default_value = "64,128,256,512,1024,1280,1514")]
    sizes: Vec<Size>,
    /// Seconds of a trial
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Trials of the latency test
    #[arg(long, default_value_t = 5)]
    trials: usize,
    /// Searches for the longest burst
    #[arg(long, default_value_t = 3)]
    repetitions: usize,
    /// Millrace's program [default: the one next to this program]
    #[arg(long, value_name = "FILE")]
    millrace: Option<PathBuf>,
}

/// Makes the tests with every size, and prints the tables.
pub fn run(options: &Rfc2544) -> Result<(), RunError> {
    let millrace = crate::millrace::program(options.millrace.as_deref())?;
    let timing = Timing { seconds: options.seconds, trial: options.seconds, rounds: 1, ..Timing::default() };
    let sizes: Vec<String> = options.sizes.iter().map(|size| format!("\"{size}\"")).collect();
    let text = format!(
        "title = \"RFC 2544\"\nswitches = [{:?}]\n[[test]]\ndimension = \"throughput\"\ntechniques = [\"{}\"]\n\
         sizes = [{}]\nrates = [\"search\"]\ntouch = \"header\"\nrounds = 1\n",
        options.switch,
        options.technique,
        sizes.join(", ")
    );
    let scenario = Scenario::parse(&text, Path::new("(RFC 2544)"))?;
    let settings = Settings {
        throughput: Goal { initial: options.seconds, seconds: options.seconds, sum: options.seconds, ..Goal::RFC2544 },
        limits: Limits { trials: 100, seconds: 100.0 * options.seconds },
        latency_trials: options.trials,
        latency_seconds: options.seconds,
        loss_step: 0.1,
        loss_seconds: options.seconds,
        bursts: Bursts { repetitions: options.repetitions, ..Settings::default().bursts },
    };
    let plan = Plan::new(&scenario, &[], &millrace).map_err(RunError::Plan)?;
    let interrupt = Interrupt::install()?;
    let mut rig = Rig::new(&scenario, &plan, HostRole::Only, &interrupt)?;
    let mut tested = Vec::new();
    for turn in plan.turns() {
        let point = &turn.point;
        eprintln!("frames of {} bytes", point.size);
        let processors = rig.processors(point);
        tested.push(rig.with_bench(point, &processors, |bench| {
            let max = greatest(bench, point, timing)?;
            test(point.size, max, &settings, |request| trial(bench, point, timing, request))
        })?);
    }
    println!("{}\n{}\n\n{}", options.switch, Machine::detect(&millrace), report(&tested));
    Ok(())
}
