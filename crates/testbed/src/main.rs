//! Loads, peers and comparisons for Millrace and other virtual switches.
#![warn(unreachable_pub)]

mod cpu;
mod cycles;
mod load;

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
