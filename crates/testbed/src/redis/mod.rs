//! Redis over different paths between its clients and its server: requests per second, and their latency.

mod benchmark;
mod chart;
mod figures;
mod line;
mod processes;
mod rig;
mod table;

use crate::latency;
use crate::machine::Machine;
use crate::millrace::{self, MillraceError};
use crate::record::{Record, RecordError, free_directory};
use benchmark::{Load, Sample};
use clap::Args;
use figures::Samples;
use lab::process::Interrupt;
use line::Line;
use loadgen::cpu::PinError;
use rig::{Programs, Rig};
use std::path::PathBuf;

/// Which paths, and the load.
#[derive(Clone, Debug, Args)]
pub struct Redis {
    /// Paths between clients and server; the first one is the base of all ratios
    #[arg(long, value_enum, value_delimiter = ',', default_value = "veth,interfaces,copy,exchange")]
    lines: Vec<Line>,
    /// Bytes of the longest IP packet
    #[arg(long, value_delimiter = ',', default_value = "1500,9000", value_parser = clap::value_parser!(u16).range(576..=9000))]
    mtu: Vec<u16>,
    /// Bytes of a value
    #[arg(long, value_delimiter = ',', default_value = "64,1024,4096,16384,65536", value_parser = clap::value_parser!(u32).range(1..=65536))]
    size: Vec<u32>,
    /// Clients, each of which has one request under way
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=200))]
    clients: u16,
    /// Requests of each measurement
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(100..))]
    requests: u32,
    /// Most MiB of values in a measurement: there are fewer requests of long values
    #[arg(long, default_value_t = 256, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    volume: u32,
    /// Rounds, in which every line has its turn at every size
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Processor of the Redis server, and of the proxy before it
    #[arg(long, value_name = "CPU", default_value_t = 0)]
    server_cpu: usize,
    /// Processor of the clients, and of the proxy before them
    #[arg(long, value_name = "CPU", default_value_t = 1)]
    client_cpu: usize,
    /// Processor of the switch's worker
    #[arg(long, value_name = "CPU", default_value_t = 0)]
    switch_cpu: usize,
    /// Millrace's program [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    millrace: Option<PathBuf>,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Directory for the results [default: bench/results/DATE-redis]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Error of a measurement.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum RedisError {
    #[error(transparent)]
    Lab(#[from] lab::Error),
    #[error(transparent)]
    Millrace(#[from] MillraceError),
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("a temporary directory can't be made: {0}")]
    Directory(std::io::Error),
    #[error("redis-benchmark did not report its tests: {0}")]
    Report(String),
    #[error("line {0}: no frame was exchanged, so it is a measurement of copies")]
    NotExchanged(Line),
}

/// Measures, and writes the results.
pub fn run(options: &Redis) -> Result<(), RedisError> {
    let programs = Programs {
        millrace: millrace::program(options.millrace.as_deref())?,
        proxy: millrace::beside("nf-proxy", "millrace-nf", "")?,
    };
    let interrupt = Interrupt::install()?;
    let distance = || latency::between(options.server_cpu, options.client_cpu);
    let (mut latencies, mut samples) = (vec![distance()?], Samples::default());
    for &mtu in &options.mtu {
        // Idle lines sleep, so all can be there at once, and take turns at every size.
        let start = |&line: &Line| Rig::start(line, mtu, &programs, options, &interrupt);
        let mut rigs = options.lines.iter().map(start).collect::<Result<Vec<_>, _>>()?;
        for rig in &rigs {
            rig.benchmark(Load { bytes: 64, requests: 1000, clients: options.clients }, &interrupt)?;
        }
        for round in 0..options.rounds {
            eprintln!("MTU {mtu}, round {}/{}", round + 1, options.rounds);
            for &bytes in &options.size {
                let load = Load { bytes, requests: options.requests_of(bytes), clients: options.clients };
                for rig in &rigs {
                    for Sample { command, figures } in rig.benchmark(load, &interrupt)? {
                        samples.add((mtu, command, bytes, rig.line()), figures);
                    }
                }
            }
            latencies.push(distance()?);
        }
        rigs.iter_mut().try_for_each(Rig::check)?;
    }
    let machine = Machine::detect(&programs.millrace);
    let record = Record::new(&machine, &options.notes(), samples.rows(options.lines[0])).with_cores(latencies);
    let text = table::markdown(&record);
    print!("{}", if options.json { record.text() } else { text.clone() });
    let directory = options.out.clone().unwrap_or_else(|| free_directory(&machine, "redis"));
    let charts = ["SET", "GET"].map(|command| chart::svg(&record, command));
    record.write(&directory, &[("table.md", &text), ("chart-set.svg", &charts[0]), ("chart.svg", &charts[1])])?;
    eprintln!("results in {}", directory.display());
    Ok(())
}

impl Redis {
    /// Returns the number of requests for values of this length.
    fn requests_of(&self, bytes: u32) -> u32 {
        let fits = (u64::from(self.volume) << 20) / u64::from(bytes);
        self.requests.min(fits.max(100) as u32)
    }

    /// Returns what a reader has to know.
    fn notes(&self) -> Vec<String> {
        let Redis { clients, server_cpu, client_cpu, switch_cpu, .. } = self;
        vec![
            format!("{clients} clients with one request each"),
            format!(
                "pinned: server and its proxy to processor {server_cpu}, clients and their proxy to {client_cpu}, the switch's \
                 worker to {switch_cpu}, so threads share processors, and all sleep when idle"
            ),
            "veth carries segments whole (TSO), all other lines carry frames of the MTU".to_owned(),
        ]
    }
}
