//! Loads, peers and comparisons for Millrace and other virtual switches.

mod aggregation;
mod analysis;
mod compare;
mod draw;
mod latency;
mod machine;
mod millrace;
mod peers;
mod record;
mod ring_format;
mod surroundings;
mod transfer;

use clap::{Args, Parser, Subcommand};
use loadgen::{load, wire};
use std::process::ExitCode;

/// Loads, peers and comparisons for Millrace and other virtual switches.
#[derive(Parser)]
#[command(version, after_help = FIRST)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// Where to begin.
const FIRST: &str = "Begin with `testbed compare --quick`, as root. `load` and `wire` need a switch that runs; \
all others start what they measure. `compare`, `analyse`, `aggregation` and `latency` write tables, charts and figures into \
a new directory below bench/results, or into the one that --out names. docs/performance.md has the figures that are \
published.";

#[derive(Subcommand)]
enum Command {
    /// Send frames through a switch and take them back, as fast as the switch can
    Load(LoadArguments),
    /// Be a NIC before a switch and a network function behind it: frames go from the one to the other and back
    Wire(WireArguments),
    /// Measure Millrace and a peer in turn, under the same load, and show both side by side
    ///
    /// Needs root, for huge pages; with dpdk-testpmd as peer or load, Debian's package dpdk-dev; with Open vSwitch,
    /// openvswitch-switch-dpdk. Use two processors that nothing else uses. A ratio is of two measurements one after the other,
    /// and is what compares; rates of different runs do not.
    Compare(compare::Compare),
    /// Draw the chart of a comparison anew, from the figures that were kept of it
    Chart(compare::DrawCharts),
    /// Find out what copies, ring sizes and ring formats cost Millrace's data path
    ///
    /// The paper that the options speak of is Kawashima, "Software Physical/Virtual Rx Queue Mapping Toward High-Performance
    /// Containerized Networking", IEEE TNSM 18 (2021). docs/measured/copies.md has the published results.
    #[command(subcommand)]
    Analyse(analysis::Analyse),
    /// Find out what joining packets between nodes gains and costs
    ///
    /// docs/aggregation.md explains the placements: `none` joins nothing, with `vhost` the switch splits and joins, with `nf`
    /// the network function's library, and with `native` the function itself gets whole aggregates.
    #[command(subcommand)]
    Aggregation(aggregation::Aggregation),
    /// Send one frame at a time through Millrace: how long it takes, and how much of its processor the idle switch uses
    Latency(compare::LoneFrames),
    /// Measure how far apart two processors are, and what moving cache lines between them costs. Figures of two runs compare
    /// only if both had the same answer
    LatencyCores(latency::LatencyCores),
}

#[derive(Args)]
struct LoadArguments {
    #[command(flatten)]
    load: load::LoadOptions,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct WireArguments {
    #[command(flatten)]
    wire: wire::WireOptions,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Load(arguments) => load::run(&arguments.load).map_err(Into::into).map(|r| report(&r, arguments.json)),
        Command::Wire(arguments) => wire::run(&arguments.wire).map_err(Into::into).map(|r| report(&r, arguments.json)),
        Command::Compare(arguments) => compare::run(&arguments).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::Chart(charts) => compare::run_chart(&charts).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::Analyse(analyse) => analysis::run(&analyse).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::Aggregation(measured) => aggregation::run(&measured).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::Latency(arguments) => {
            compare::run_lone_frames(&arguments).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        Command::LatencyCores(arguments) => run_latency(&arguments),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("testbed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the report. Lost or changed frames make a run fail.
fn report(report: &load::Report, json: bool) -> ExitCode {
    if json {
        println!("{}", serde_json::to_string_pretty(report).expect("numbers and strings"));
    } else {
        println!("{report}");
    }
    if report.has_errors() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn run_latency(arguments: &latency::LatencyCores) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let latency = latency::between(arguments.a, arguments.b)?;
    let transfer = transfer::between(arguments.a, arguments.b)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "latency": latency, "transfer": transfer }))?);
    } else {
        println!("{latency}; {transfer}");
    }
    Ok(ExitCode::SUCCESS)
}
