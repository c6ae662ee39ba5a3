//! Single frames: the time that a frame takes after silence, and the cost of the idle switch.

mod guest;

use super::choices::Forward;
use super::millrace;
use crate::latency::{self, Latency};
use crate::machine::Machine;
use crate::millrace::{Idle, MillraceError};
use crate::record::{Record, RecordError, free_directory, rounded};
use crate::ring_format::RingFormat;
use clap::{Args, ValueEnum};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use guest::{Guest, GuestError};
use lab::process::Interrupt;
use loadgen::cpu::{self, PinError};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Silence before a frame: much longer than a worker keeps polling, or than a backoff lasts.
const SILENCE: Duration = Duration::from_millis(1);
/// Microseconds added to the silence in steps, so that frames arrive at any point of the switch's pauses.
const SPREAD: u64 = 200;
/// Frames sent before measuring.
const FIRST: u64 = 50;
/// Time for the switch to become idle after the guests connect.
const SETTLE: Duration = Duration::from_millis(300);

/// How a guest waits for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Waiting {
    /// It polls its queue.
    Poll,
    /// It sleeps until the switch notifies it.
    Call,
}

/// Cases to measure.
#[derive(Clone, Debug, Args)]
pub struct LoneFrames {
    /// How the switch rests while there are no frames
    #[arg(long, value_enum, value_delimiter = ',', default_value = "sleep,backoff,poll")]
    pub idle: Vec<Idle>,
    /// How the guests wait for frames
    #[arg(long, value_enum, value_delimiter = ',', default_value = "poll,call")]
    pub receive: Vec<Waiting>,
    /// Ring format
    #[arg(long, value_enum, default_value_t = RingFormat::Split)]
    pub ring: RingFormat,
    /// Frames to send there and back
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub frames: u64,
    /// Seconds to watch the switch while there is nothing to do
    #[arg(long, default_value_t = 3.0)]
    pub idle_seconds: f64,
    /// The Millrace program [default: the one next to this program]
    #[arg(long, value_name = "PATH")]
    pub millrace: Option<PathBuf>,
    /// Processor of the switch
    #[arg(long, value_name = "CPU", default_value_t = 0)]
    pub switch_cpu: usize,
    /// Processor of the guests
    #[arg(long, value_name = "CPU", default_value_t = 1)]
    pub guest_cpu: usize,
    /// Print the results as JSON, and not as a table
    #[arg(long)]
    pub json: bool,
    /// Directory for the results [default: bench/results/DATE-lone]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Error of a measurement.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum LoneError {
    #[error(transparent)]
    Millrace(#[from] MillraceError),
    #[error(transparent)]
    Lab(#[from] lab::Error),
    #[error(transparent)]
    Guest(#[from] GuestError),
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error("{action}: {source}")]
    System { action: &'static str, source: std::io::Error },
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Times of many frames, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    median: f64,
    p99: f64,
}

impl Times {
    fn of(mut times: Vec<Duration>) -> Times {
        times.sort();
        let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize].as_secs_f64() * 1e6;
        Times { median: at(0.5), p99: at(0.99) }
    }
}

/// One idle policy with one kind of guest.
#[derive(Clone, Copy, Debug)]
struct Row {
    idle: Idle,
    receive: Waiting,
    /// One way, to a switch that was idle for long.
    there_us: Times,
    /// The other way, right after that.
    back_us: Times,
    round_trip_us: Times,
    /// Processor share of the idle switch.
    idle_cpu_share: f64,
}

#[derive(Debug)]
struct Report {
    rig: Machine,
    ring: RingFormat,
    frames: u64,
    cores: Latency,
    rows: Vec<Row>,
}

/// Measures and prints.
pub fn run(options: &LoneFrames) -> Result<(), LoneError> {
    let program = crate::millrace::program(options.millrace.as_deref())?;
    let interrupt = Interrupt::install()?;
    let cores = latency::between(options.switch_cpu, options.guest_cpu)?;
    let mut rows = Vec::new();
    for &idle in &options.idle {
        rows.extend(measure(options, &program, idle, &interrupt)?);
    }
    let (rig, ring) = (Machine::detect(&program), options.ring);
    let report = Report { rig, ring, frames: options.frames, cores, rows };
    let (record, text) = (record(&report), text(&report));
    print!("{}", if options.json { record.text() } else { text.clone() });
    let directory = options.out.clone().unwrap_or_else(|| free_directory(&report.rig, "lone"));
    record.write(&directory, &[("table.txt", &text)])?;
    eprintln!("results in {}", directory.display());
    Ok(())
}

/// A row as it is kept; times are median and 99th percentile.
#[derive(Debug, Serialize)]
struct Figure {
    idle: Idle,
    receive: Waiting,
    there_us: [f64; 2],
    back_us: [f64; 2],
    round_trip_us: [f64; 2],
    idle_cpu_percent: f64,
}

fn record(report: &Report) -> Record<Figure> {
    let times = |Times { median, p99 }| [median, p99].map(|time| rounded(time, 1));
    let figure = |row: &Row| Figure {
        idle: row.idle,
        receive: row.receive,
        there_us: times(row.there_us),
        back_us: times(row.back_us),
        round_trip_us: times(row.round_trip_us),
        idle_cpu_percent: rounded(100.0 * row.idle_cpu_share, 1),
    };
    let notes = ["each time: median, 99th percentile".to_owned()];
    Record::new(&report.rig, &notes, report.rows.iter().map(figure).collect()).with_cores([report.cores])
}

fn measure(options: &LoneFrames, program: &Path, idle: Idle, interrupt: &Interrupt) -> Result<Vec<Row>, LoneError> {
    let directory = tempfile::Builder::new().prefix("testbed-").tempdir();
    let directory = directory.map_err(|source| LoneError::System { action: "making a temporary directory", source })?;
    let sockets = ["a.sock", "b.sock"].map(|name| directory.path().join(name));
    let setup = millrace::Setup {
        forward: Forward::Patch,
        longest: 0,
        nic: None,
        tunnel: false,
        cpu: options.switch_cpu,
        idle,
    };
    let switch = millrace::start(program, directory.path(), &sockets, setup, interrupt)?;
    let packed = options.ring == RingFormat::Packed;
    let mut guests = [Guest::connect(&sockets[0], packed)?, Guest::connect(&sockets[1], packed)?];
    switch.wait_all_up(|| Ok(()))?;
    interrupt.sleep(SETTLE)?;
    let (before, began) = (switch.daemon.cpu_time()?, Instant::now());
    interrupt.sleep(Duration::from_secs_f64(options.idle_seconds))?;
    let idle_cpu_share = (switch.daemon.cpu_time()? - before).as_secs_f64() / began.elapsed().as_secs_f64();
    let mut rows = Vec::new();
    for &receive in &options.receive {
        // On a separate thread: this one starts programs, which inherit its processors.
        let [there, back] = std::thread::scope(|scope| {
            let pinging = scope.spawn(|| {
                cpu::pin(options.guest_cpu)?;
                ping(&mut guests, options.frames, receive, interrupt)
            });
            pinging.join().expect("the thread does not panic")
        })?;
        let round_trips = Times::of(there.iter().zip(&back).map(|(there, back)| *there + *back).collect());
        rows.push(Row {
            idle,
            receive,
            there_us: Times::of(there),
            back_us: Times::of(back),
            round_trip_us: round_trips,
            idle_cpu_share,
        });
    }
    Ok(rows)
}

/// Sends single frames from one guest to the other and back; returns the times there and back.
fn ping(
    [a, b]: &mut [Guest; 2],
    frames: u64,
    waiting: Waiting,
    interrupt: &Interrupt,
) -> Result<[Vec<Duration>; 2], LoneError> {
    let asleep = waiting == Waiting::Call;
    let mut times = [const { Vec::new() }; 2];
    for number in 0..FIRST + frames {
        interrupt.check()?;
        let silence = SILENCE + Duration::from_micros(number * 37 % SPREAD);
        let start = Instant::now();
        if asleep {
            std::thread::sleep(silence);
        } else {
            // If this thread slept, the processor's ramp-up would be measured too.
            while start.elapsed() < silence {
                std::hint::spin_loop();
            }
        }
        let sent = Instant::now();
        a.send(2 * number)?;
        b.receive(2 * number, asleep)?;
        let turned = Instant::now();
        b.send(2 * number + 1)?;
        a.receive(2 * number + 1, asleep)?;
        let returned = Instant::now();
        if number >= FIRST {
            times[0].push(turned - sent);
            times[1].push(returned - turned);
        }
    }
    Ok(times)
}

fn text(report: &Report) -> String {
    let mut table = Table::new();
    let header = [
        "SWITCH IDLES BY",
        "GUESTS WAIT BY",
        "THERE us (p99)",
        "BACK us (p99)",
        "ROUND TRIP us (p99)",
        "ONE WAY us",
        "IDLE CPU",
    ];
    table.load_style(NOTHING).set_header(header);
    for index in 2..header.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let times = |times: Times| format!("{:.1} ({:.1})", times.median, times.p99);
    for row in &report.rows {
        table.add_row([
            row.idle.to_string(),
            match row.receive {
                Waiting::Poll => "poll".to_owned(),
                Waiting::Call => "call".to_owned(),
            },
            times(row.there_us),
            times(row.back_us),
            times(row.round_trip_us),
            format!("{:.1}", row.round_trip_us.median / 2.0),
            format!("{:.1} %", 100.0 * row.idle_cpu_share),
        ]);
    }
    format!(
        "{}\n\n{} lone frames on {} rings; there: after {} ms of silence; back: at once. Cores {}.\n{}\n",
        table.trim_fmt(),
        report.frames,
        report.ring,
        SILENCE.as_millis(),
        report.cores,
        report.rig
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_sorted_times() {
        let times = Times::of((1..=101).rev().map(Duration::from_micros).collect());
        assert_eq!((times.median.round(), times.p99.round()), (51.0, 100.0));
    }
}
