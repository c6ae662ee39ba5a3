//! Tasks of the workspace: `cargo xtask test` is the whole check.

mod binaries;
mod command;
mod dependencies;
mod fuzz;
mod instructions;
mod lanes;
mod steps;
mod tools;

use clap::{Args, Parser, Subcommand};
use command::{Context, Failure};
use std::process::ExitCode;

/// Checks the workspace and keeps what is generated from it up to date.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what the tests need and run them all
    Test(TestArguments),
    /// Run the tests of endurance: hundreds of millions of frames, every fuzzer for minutes
    Soak(SoakArguments),
    /// Write the reference documentation that the program prints of itself
    Docs,
    /// Store the instruction counts of this tree as what later ones are compared with
    Baseline,
    /// Say how performance is measured
    Bench,
}

#[derive(Args)]
struct TestArguments {
    /// Run these steps only
    #[arg(long, value_name = "STEP", conflicts_with = "skip")]
    only: Vec<String>,
    /// Leave these steps out
    #[arg(long, value_name = "STEP")]
    skip: Vec<String>,
    /// Keep all processors busy meanwhile, as others on the machine may do: no test depends on how fast it is
    #[arg(long)]
    busy: bool,
    /// List the steps
    #[arg(long)]
    list: bool,
}

#[derive(Args)]
struct SoakArguments {
    /// Frames through each of a patch and a bridge
    #[arg(long, default_value_t = 500_000_000)]
    frames: u32,
    /// Minutes for each fuzzer
    #[arg(long, default_value_t = 10)]
    minutes: u32,
}

fn main() -> ExitCode {
    match run(&Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("cargo xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &Task) -> Result<(), Failure> {
    let context = &Context::new()?;
    match task {
        Task::Test(arguments) if arguments.list => {
            steps::list();
            Ok(())
        }
        Task::Test(arguments) => {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            for _ in 0..if arguments.busy { processors } else { 0 } {
                std::thread::spawn(|| {
                    loop {
                        std::hint::spin_loop()
                    }
                });
            }
            steps::run(context, &arguments.only, &arguments.skip)
        }
        Task::Soak(arguments) => {
            tools::prepare(context, &[tools::Need::Packages, tools::Need::HugePages, tools::Need::Fuzzer])?;
            // Release builds of both the switch and its guests.
            let soak =
                ["test", "--release", "--package", "millrace-e2e", "--test", "live", "--", "soak::", "--nocapture"];
            context.cargo(&soak).env("MILLRACE_SOAK_FRAMES", arguments.frames.to_string()).run()?;
            fuzz::run(context, arguments.minutes * 60)
        }
        Task::Docs => {
            let arguments = ["run", "--quiet", "--package", "millrace", "--", "schema", "--markdown"];
            let text = context.cargo(&arguments).output()?;
            context.write("docs/configuration.md", &text)
        }
        Task::Baseline => {
            tools::prepare(context, &[tools::Need::Valgrind])?;
            instructions::store(context)
        }
        Task::Bench => {
            println!("{BENCH}");
            Ok(())
        }
    }
}

const BENCH: &str = "\
Instructions a packet, exact on any machine:
    cargo xtask test --only instructions      compares with bench/baseline/instructions.json
    cargo xtask baseline                      stores what this tree takes

Packets a second depend on the machine, so only ratios count, taken alternately in one run on one rig:
    cargo build --release
    cargo build --release -p millrace-testbed
    target/release/testbed latency-cores      how far apart two cores are; compare only equal rigs
    target/release/testbed load --help        sends frames through a running switch and takes them back
Published figures stand in bench/results/, in the form of bench/README.md.";
