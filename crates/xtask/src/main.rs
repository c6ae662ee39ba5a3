//! Tasks of the workspace: `cargo xtask test` is for everybody, and `cargo xtask verify` for maintainers.

mod account;
mod arm64;
mod binaries;
mod command;
mod cost;
mod debian;
mod dependencies;
mod dpdk_current;
mod durations;
mod end;
mod failure;
mod fuzz;
mod instructions;
mod package;
mod part;
mod passt_current;
mod platforms;
mod pool;
mod proofs;
mod shelf;
mod since;
mod steps;
mod tier;
mod tools;

use clap::{Args, Parser, Subcommand, ValueEnum};
use command::{Builds, Context};
use failure::Failure;
use since::Reach;
use std::process::ExitCode;
use steps::Selection;
use tier::Tier;

/// Checks the workspace, and keeps generated files up to date.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install requirements of the tests, check format, lints and documentation, and run all tests
    Test(StepArguments),
    /// Run slower checks, which find what tests do not: Miri, models of threads, fuzzers, other processors, instruction
    /// counts, licences
    Verify(StepArguments),
    /// Run the tests of endurance: hundreds of millions of frames, every fuzzer for minutes
    Soak(SoakArguments),
    /// Make packages and an image for containers, below target/package
    Package(package::PackageArguments),
    /// Write the reference documentation that the program prints of itself
    Docs,
    /// Store the figures that later runs are compared with
    Baseline {
        /// Kind of figures
        #[arg(value_enum)]
        what: Baseline,
    },
    /// Say how performance is measured
    Bench,
}

#[derive(Clone, Copy, ValueEnum)]
enum Baseline {
    /// Instructions a packet of this tree, which are counted now
    Instructions,
    /// Times of the steps and tests that ran last
    Durations,
}

#[derive(Args)]
struct StepArguments {
    /// Run only what changes since this revision can reach: by dependencies, and by files that tests read
    #[arg(long, value_name = "REV")]
    since: Option<String>,
    /// Run these steps only
    #[arg(long, value_name = "STEP", conflicts_with = "skip")]
    only: Vec<String>,
    /// Leave these steps out
    #[arg(long, value_name = "STEP")]
    skip: Vec<String>,
    /// Run this many busy loops meanwhile, as others on the machine may do: no test depends on how fast it is
    #[arg(long, value_name = "LOOPS", default_value_t = 0)]
    busy: u32,
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
    let builds = match task {
        Task::Test(StepArguments { since: Some(_), .. }) => Builds::Often,
        _ => Builds::Once,
    };
    let context = &Context::new(builds)?;
    match task {
        Task::Test(arguments) => steps(context, Tier::Test, arguments),
        Task::Verify(arguments) => steps(context, Tier::Verify, arguments),
        Task::Soak(arguments) => {
            tools::prepare(context, &[tools::Need::Packages, tools::Need::HugePages, tools::Need::Fuzzer])?;
            // Release builds of both the switch and its guests.
            let soak =
                ["test", "--release", "--package", "millrace-e2e", "--test", "live", "--", "soak::", "--nocapture"];
            context.cargo(&soak).env("MILLRACE_SOAK_FRAMES", arguments.frames.to_string()).run()?;
            fuzz::run(context, arguments.minutes * 60 * fuzz::names(context)?.len() as u32)
        }
        Task::Package(arguments) => package::run(context, arguments),
        Task::Docs => {
            let schema = ["run", "--quiet", "--package", "millrace", "--", "schema", "--markdown"];
            let text = context.cargo(&schema).output()?;
            context.write("docs/configuration.md", &text)?;
            let text = context.cargo(&[&schema[..], &["--api"]].concat()).output()?;
            context.write("docs/api.md", &text)
        }
        Task::Baseline { what: Baseline::Instructions } => {
            tools::prepare(context, &[tools::Need::Valgrind])?;
            instructions::store(context)
        }
        Task::Baseline { what: Baseline::Durations } => durations::store(context),
        Task::Bench => {
            println!("{BENCH}");
            Ok(())
        }
    }
}

fn steps(context: &Context, tier: Tier, arguments: &StepArguments) -> Result<(), Failure> {
    if arguments.list {
        steps::list(tier);
        return Ok(());
    }
    let reach = arguments.since.as_ref().map_or(Ok(Reach::All), |since| Reach::since(context, since))?;
    if arguments.since.is_some() {
        println!("{}", reach.describe());
    }
    for _ in 0..arguments.busy {
        std::thread::spawn(|| {
            loop {
                std::hint::spin_loop()
            }
        });
    }
    steps::run(context, Selection { tier, only: &arguments.only, skip: &arguments.skip, reach })
}

const BENCH: &str = "\
Instructions a packet, exact on any machine:
    cargo xtask verify --only instructions    compares with bench/baseline/instructions.json
    cargo xtask baseline instructions         stores what this tree takes

Packets a second depend on the machine, so only ratios count, taken alternately in one run on one rig:
    cargo build --release
    cargo build --release -p millrace-testbed
    target/release/testbed latency-cores      how far apart two cores are; compare only equal rigs
    target/release/testbed load --help        sends frames through a running switch and takes them back
Published figures stand in bench/results/, in the form of bench/README.md.";
