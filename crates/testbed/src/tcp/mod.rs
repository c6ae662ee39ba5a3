//! A long TCP stream between two hosts, over one switch after the other: its speed, and the processor time that it costs.

mod error;
mod figures;
mod iperf;
mod options;
mod show;

pub use options::Tcp;

use crate::hosts::{Hosts, Setup};
use crate::machine::Machine;
use crate::record::{Record, free_directory};
use crate::{latency, millrace};
use error::TcpError;
use figures::Samples;
use lab::process::Interrupt;

/// Measures, and writes the results.
pub fn run(options: &Tcp) -> Result<(), TcpError> {
    let millrace = millrace::program(options.millrace.as_deref())?;
    let interrupt = Interrupt::install()?;
    let distance = || latency::between(options.sender_cpu, options.receiver_cpu);
    let (mut latencies, mut samples) = (vec![distance()?], Samples::default());
    for &mtu in &options.mtu {
        for round in 0..options.rounds {
            eprintln!("MTU {mtu}, round {}/{}", round + 1, options.rounds);
            for &between in &options.lines {
                // A switch that polls would take its processor away from the others: only one is there at a time.
                let directory = tempfile::Builder::new().prefix("testbed-").tempdir().map_err(TcpError::Directory)?;
                let (millrace, directory) = (&*millrace, directory.path());
                let setup = Setup {
                    between,
                    mtu,
                    segments: options.segments,
                    cpu: options.switch_cpu,
                    millrace,
                    directory,
                    interrupt: &interrupt,
                };
                let hosts = Hosts::join(&setup)?;
                samples.add((mtu, between), iperf::stream(&hosts, options, &interrupt)?);
            }
            latencies.push(distance()?);
        }
    }
    let machine = Machine::detect(&millrace);
    let record = Record::new(&machine, &options.notes(), samples.rows(options.lines[0])).with_cores(latencies);
    let text = show::markdown(&record);
    print!("{}", if options.json { record.text() } else { text.clone() });
    let directory = options.out.clone().unwrap_or_else(|| free_directory(&machine, "tcp"));
    record.write(&directory, &[("table.md", &text), ("chart.svg", &show::svg(&record))])?;
    eprintln!("results in {}", directory.display());
    Ok(())
}
