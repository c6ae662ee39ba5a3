//! Loads, peers and comparisons for Millrace and other virtual switches.

mod compare;
mod cpu;
mod cycles;
mod latency;
mod load;
mod transfer;

use clap::{Args, Parser, Subcommand};
use std::process::ExitCode;

/// Loads, peers and comparisons for Millrace and other virtual switches.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Send frames through a switch and take them back, as fast as the switch can
    Load(LoadArguments),
    /// Measure Millrace and a peer in turn, under the same load, and show both side by side
    Compare(compare::Compare),
    /// Send one frame at a time through Millrace: how long it takes, and what the switch costs in between
    Latency(compare::LoneFrames),
    /// Measure how far apart two processors are, and what moving cache lines between them costs: figures compare only
    /// between equal answers
    LatencyCores(latency::LatencyCores),
}

#[derive(Args)]
struct LoadArguments {
    #[command(flatten)]
    load: load::Load,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Load(arguments) => run_load(&arguments),
        Command::Compare(arguments) => compare::run(&arguments).map(|()| ExitCode::SUCCESS).map_err(Into::into),
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

/// Frames that were lost or changed make a run fail, after its report.
fn run_load(arguments: &LoadArguments) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let report = load::run(&arguments.load)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        println!("{report}");
    }
    Ok(if report.has_errors() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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
