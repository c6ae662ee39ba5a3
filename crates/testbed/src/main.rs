//! Loads, peers and comparisons for Millrace and other virtual switches.

mod aggregation;
mod analysis;
mod compare;
mod corpus;
mod draw;
mod exchange_model;
mod hosts;
mod latency;
mod list;
mod machine;
mod millrace;
mod nic;
mod nic_check;
mod peers;
mod ports;
mod record;
mod redis;
mod reload;
mod report;
mod ring_format;
mod run;
mod scenario;
mod search;
mod simulate;
mod statistics;
mod surroundings;
mod switches;
mod tcp;
mod transfer;

use clap::{Args, FromArgMatches, Parser, Subcommand};
use loadgen::{app, load, wire};
use std::path::PathBuf;
use std::process::ExitCode;

/// Loads, peers and comparisons for Millrace and other virtual switches.
#[derive(Parser)]
#[command(version, after_help = FIRST)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// Hints for beginners.
const FIRST: &str = "Begin with `testbed list`, and as root with `testbed run bench/scenarios/smoke.toml`; docs/testbed.md explains \
both. `load`, `wire`, `echo` and `app` need a running switch; all others start the programs that they measure. `compare`, `analyse`, `aggregation`, `simulate`, \
`reload`, `ports` and `latency` write tables, charts and figures to a new directory below bench/results, or to the one that --out names. \
docs/performance.md has the published figures. `nic-check` is for owners of NICs; docs/dpdk.md explains it.";

#[derive(Subcommand)]
enum Command {
    /// Send frames through a switch and take them back, as fast as the switch can
    Load(LoadArguments),
    /// Act as a NIC in front of a switch and a network function behind it: frames go from one to the other and back
    Wire(WireArguments),
    /// Act as a network function behind a switch that has a NIC: it sends back what comes
    Echo(EchoArguments),
    /// Act as a sender, a receiver, a client or a server of packets, or pairs of these; `testbed run` starts such processes
    ///
    /// It prints "ready" on standard error, and waits for "go" (if it sends) or "stop" (if it only receives) on standard
    /// input. Its report is a line of JSON on standard output.
    App(app::AppOptions),
    /// Measure Millrace and a peer in turn, under the same load, and show both side by side
    ///
    /// Needs root, for huge pages; with dpdk-testpmd as peer or load, Debian's package dpdk-dev; with Open vSwitch,
    /// openvswitch-switch-dpdk. Use two processors that nothing else uses. Only ratios compare, of two measurements one after
    /// the other; rates of different runs do not.
    Compare(compare::Compare),
    /// Draw the chart of a comparison again, from its stored figures
    Chart(compare::DrawCharts),
    /// Measure the cost of copies, ring sizes and ring formats in Millrace's data path
    ///
    /// The paper that the options refer to is Kawashima, "Software Physical/Virtual Rx Queue Mapping Toward High-Performance
    /// Containerized Networking", IEEE TNSM 18 (2021). docs/measured/copies.md has the published results.
    #[command(subcommand)]
    Analyse(analysis::Analyse),
    /// Measure the gain and cost of joining packets between nodes
    ///
    /// docs/aggregation.md explains the placements: `none` joins nothing, with `vhost` the switch splits and joins, with `nf`
    /// the network function's library, and with `native` the function itself gets whole aggregates.
    #[command(subcommand)]
    Aggregation(aggregation::Aggregation),
    /// Measure Redis over proxies that terminate TCP in user space, and over the kernel's TCP, in turn
    ///
    /// Needs root, for namespaces, and Debian's packages redis-server and redis-tools. docs/proxy.md explains the proxies.
    Redis(redis::Redis),
    /// Measure a TCP stream between two hosts of the kernel's, over one switch after the other: its speed, and what it costs
    ///
    /// Needs root, for namespaces, and Debian's package iperf3; for Open vSwitch, openvswitch-switch-dpdk and huge pages.
    /// docs/measured/tcp.md has the published results.
    Tcp(tcp::Tcp),
    /// Send one frame at a time through Millrace: measures its latency, and the processor time of the idle switch
    Latency(compare::LoneFrames),
    /// Change the configuration of Millrace again and again: how long the frames of a port wait that is not concerned
    ///
    /// docs/reload.md has the published results.
    Reload(reload::Reload),
    /// Add and remove ports by calls, and connect guests to many of them: time, memory, and the cost of ports without frames
    ///
    /// Measures Open vSwitch with DPDK in turn with Millrace, which needs root, huge pages and Debian's package
    /// openvswitch-switch-dpdk. Without them, Millrace alone. docs/measured/ports.md has the published results.
    Ports(ports::Ports),
    /// Run a scenario: traffic through one switch after the other, at every size, rate and number of pairs in its file
    ///
    /// docs/testbed.md explains scenarios. Results are stored run by run: the same command continues where it was stopped.
    Run(run::Run),
    /// Act as the second host of a `testbed run` on another machine, which starts this by the command of its scenario
    ///
    /// Requests are lines of JSON on standard input, and answers are such lines on standard output.
    Host,
    /// Run the tests of RFC 2544 with a switch: throughput, latency, frame loss rate and back-to-back frames
    ///
    /// The durations of the RFC take hours; the defaults here are shorter. --seconds 60 --trials 20 --repetitions 50 are the RFC's.
    Rfc2544(run::Rfc2544),
    /// Measure the cost of changing OpenFlow flows in some switches: time, memory, and lost frames
    ///
    /// Needs ovs-ofctl (Debian's package openvswitch-common), which sends each flow with a barrier.
    FlowChanges(run::FlowChanges),
    /// Replay capture files through Millrace along several paths, and compare output with input
    ///
    /// Needs neither root nor anything besides Millrace. docs/testbed.md explains it.
    Corpus(corpus::ReplayCorpus),
    /// Compute from measured costs when exchanging pages (docs/zcopy.md) beats copying
    ExchangeModel(exchange_model::ExchangeModel),
    /// Simulate service chains of many nodes with ns-3: packets on each link with aggregation and without
    ///
    /// Needs Debian's packages libns3-dev, g++, make and pkg-config: the simulator, `sim/`, is built when it is first used.
    /// docs/simulation.md explains the model.
    Simulate(simulate::Simulate),
    /// Check what Millrace's `dpdk` port does with a NIC: does it receive in place, byte-right, and give buffers back
    ///
    /// Needs root, the plugin for DPDK beside Millrace (docs/dpdk.md), and the device alone. It takes a minute or two.
    NicCheck(nic_check::NicCheck),
    /// List the switches, techniques and containers that are available here, and why others are not
    List(list::List),
    /// Measure the distance of two processors, and the cost of moving cache lines between them. Figures of two runs compare
    /// only at equal distances
    LatencyCores(latency::LatencyCores),
    /// Write a page and a summary of the results of `testbed run`
    Report(report::WriteReport),
    /// Print a script that completes commands and options in a shell
    Completions {
        /// The shell
        shell: manual::Shell,
    },
    /// Write the manual pages of all commands
    Manual {
        /// Directory that the pages are written into
        directory: PathBuf,
    },
}

/// What all manual pages refer to.
const OTHERS: &str = "millrace(1); the pages in /usr/share/doc/millrace: testbed.md, install.md, switches.md, dpdk.md";

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

#[derive(Args)]
struct EchoArguments {
    #[command(flatten)]
    function: wire::FunctionOptions,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let command = manual::command::<Arguments>();
    let arguments = Arguments::from_arg_matches(&command.clone().get_matches()).unwrap_or_else(|error| error.exit());
    let outcome = match arguments.command {
        Command::Load(arguments) => load::run(&arguments.load).map_err(Into::into).map(|r| print(&r, arguments.json)),
        Command::Wire(arguments) => wire::run(&arguments.wire).map_err(Into::into).map(|r| print(&r, arguments.json)),
        Command::Echo(echo) => wire::echo(&echo.function).map_err(Into::into).map(|r| print(&r, echo.json)),
        Command::App(options) => run_app(&options),
        Command::Compare(arguments) => compare::run(&arguments).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::Chart(charts) => compare::run_chart(&charts).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::Analyse(analyse) => analysis::run(&analyse).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::Aggregation(measured) => aggregation::run(&measured).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::Redis(options) => redis::run(&options).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::Tcp(options) => tcp::run(&options).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::Latency(arguments) => {
            compare::run_lone_frames(&arguments).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        Command::Reload(options) => reload::run(&options).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::Ports(options) => ports::run(&options).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::Run(options) => run::run(&options).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::Host => run::run_host().map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::Rfc2544(options) => run::run_rfc2544(&options).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::FlowChanges(options) => {
            run::run_flow_changes(&options).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        Command::Corpus(options) => corpus::run(&options).map_err(Into::into),
        Command::ExchangeModel(options) => {
            exchange_model::run(&options).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        Command::Simulate(options) => simulate::run(&options).map(|()| ExitCode::SUCCESS).map_err(Into::into),
        Command::NicCheck(options) => nic_check::run(&options).map_err(Into::into),
        Command::List(options) => {
            list::run(&options);
            Ok(ExitCode::SUCCESS)
        }
        Command::LatencyCores(arguments) => run_latency(&arguments),
        Command::Report(options) => write_report(&options).map_err(Into::into),
        Command::Completions { shell } => {
            print!("{}", manual::completions(command, shell));
            Ok(ExitCode::SUCCESS)
        }
        Command::Manual { directory } => {
            manual::write(command, OTHERS, &directory).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
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
fn print(report: &load::Report, json: bool) -> ExitCode {
    if json {
        println!("{}", serde_json::to_string_pretty(report).expect("numbers and strings"));
    } else {
        println!("{report}");
    }
    if report.has_errors() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs a traffic application, and prints its report as one line.
fn run_app(options: &app::AppOptions) -> Result<ExitCode, Box<dyn std::error::Error>> {
    println!("{}", serde_json::to_string(&app::run(options)?)?);
    Ok(ExitCode::SUCCESS)
}

fn write_report(options: &report::WriteReport) -> Result<ExitCode, report::ReportError> {
    println!("{}", report::run(options)?.display());
    Ok(ExitCode::SUCCESS)
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
