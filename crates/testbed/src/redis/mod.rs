//! Redis over different paths between its clients and its server: requests per second, and their latency.

mod benchmark;
mod chart;
mod error;
mod figures;
mod line;
mod options;
mod processes;
mod rig;
mod table;

pub use options::Redis;

use crate::latency;
use crate::machine::Machine;
use crate::millrace;
use crate::record::{Record, free_directory};
use benchmark::{Load, Sample};
use error::RedisError;
use figures::Samples;
use lab::process::Interrupt;
use line::Line;
use rig::{Programs, Rig};

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
