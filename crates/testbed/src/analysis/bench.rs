//! Measurement with a NIC and a network function in one process, and the switch in another, as in `testbed wire`.

use super::setup::{Setup, sizes};
use crate::compare::Counted;
use crate::ring_format::RingFormat;
use clap::Args;
use engine::stats::Snapshot;
use lab::process::{Daemon, Interrupt, Launch};
use loadgen::load::{RUNNING, Report};
use serde::Serialize;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Time limit for an operation of a program.
const LIMIT: Duration = Duration::from_secs(60);
/// Time between the start of the load and the first observation of the switch, and between the last one and the load's end.
const MARGIN: Duration = Duration::from_millis(20);

/// How long, how often and where is measured.
#[derive(Clone, Debug, Args)]
pub struct Measuring {
    /// Measurements of each point, in turn with those that it is compared with
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 0.6)]
    pub seconds: f64,
    /// Seconds to run before each measurement
    #[arg(long, default_value_t = 0.15)]
    pub warmup: f64,
    /// Processor of the switch
    #[arg(long, value_name = "CPU", default_value_t = 0)]
    pub switch_cpu: usize,
    /// Processor of the NIC and the network function
    #[arg(long, value_name = "CPU", default_value_t = 1)]
    pub load_cpu: usize,
    /// Directory for the results [default: bench/results/DATE-patterns or DATE-rings]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Error of a measurement.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum MeasureError {
    #[error(transparent)]
    Lab(#[from] lab::Error),
    #[error("a temporary directory can't be made, or this program not be found: {0}")]
    System(std::io::Error),
    #[error("what {who} wrote can't be read: {source}")]
    Report { who: &'static str, source: serde_json::Error },
    #[error("{0} frames came back changed")]
    Corrupt(u64),
}

/// Results of one measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// Millions of frames per second that came back.
    pub mpps: f64,
    /// Cycles of the switch per frame and direction, in rounds that moved frames.
    pub switch_cycles: f64,
    /// Share of the switch's cycles spent on idle polling.
    pub switch_idle: f64,
    /// Share of the load's cycles spent on idle polling.
    pub load_idle: f64,
    /// Frames lost.
    pub lost: u64,
}

/// Measures `setup` once.
pub fn measure(setup: &Setup, measuring: &Measuring, interrupt: &Interrupt) -> Result<Sample, MeasureError> {
    let directory = tempfile::Builder::new().prefix("testbed-").tempdir().map_err(MeasureError::System)?;
    let sockets = ["nic.sock", "nf.sock"].map(|name| directory.path().join(name));
    let program = std::env::current_exe().map_err(MeasureError::System)?;
    let command = |words: &[&str], queues: String, cpu: usize| {
        let mut command = Command::new(&program);
        command.args(words).args(&sockets).args(["--queue-size", &queues, "--cpu", &cpu.to_string()]);
        if setup.ring == RingFormat::Packed {
            command.arg("--packed");
        }
        command
    };
    let mut load = command(&["wire", "--json"], sizes(setup.guest), measuring.load_cpu);
    load.args(["--size", &setup.size.to_string(), "--touch", &setup.touch.to_string()]);
    load.args(["--window", &setup.window().to_string()]);
    load.args(["--seconds", &measuring.seconds.to_string(), "--warmup", &measuring.warmup.to_string()]);
    if !setup.pattern.is_sound() {
        load.arg("--unchecked");
    }
    let mut switch = command(&["analyse", "switch"], sizes(setup.physical), measuring.switch_cpu);
    switch.args(["--pattern", &setup.pattern.letter().to_string()]);

    let mut load = Launch::measured("the wire", interrupt).spawn(load)?;
    let mut switch = Launch::measured("the switch", interrupt).spawn(switch)?;
    load.wait_for_line("its first frames", LIMIT, |line| line == RUNNING)?;
    interrupt.sleep(Duration::from_secs_f64(measuring.warmup) + MARGIN)?;
    let before = snapshot(&mut switch)?;
    interrupt.sleep(Duration::from_secs_f64(measuring.seconds).saturating_sub(2 * MARGIN).max(MARGIN))?;
    let after = snapshot(&mut switch)?;
    let text = load.finish(Duration::from_secs_f64(measuring.seconds) + LIMIT)?;
    let report: Report =
        serde_json::from_str(&text).map_err(|source| MeasureError::Report { who: "the wire", source })?;
    if report.corrupt > 0 {
        return Err(MeasureError::Corrupt(report.corrupt));
    }
    let counted = Counted::between(&before, &after);
    Ok(Sample {
        mpps: report.mpps,
        switch_cycles: counted.cycles_per_packet,
        switch_idle: counted.idle_share,
        load_idle: report.idle_cycles,
        lost: report.lost,
    })
}

fn snapshot(switch: &mut Daemon) -> Result<Snapshot, MeasureError> {
    let known = switch.log().mark();
    switch.send_line("")?;
    let (_, line) = switch.wait_for_line_since(known, "its counters", LIMIT, |line| line.starts_with('{'))?;
    serde_json::from_str(&line).map_err(|source| MeasureError::Report { who: "the switch", source })
}
