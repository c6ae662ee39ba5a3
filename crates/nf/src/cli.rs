//! Command-line options common to the sample programs.

use crate::aggregate::{Aggregation, Splitter};
use crate::crew::{Crew, CrewError, CrewOptions, ParentRole, Sharing, Verdict, View};
use crate::port::{Exchange, OpenError, Options, PortOptions, Ports};
use crate::run::{Idle, RunError, Work, run, run_work};
use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, Parser, ValueEnum};
use paflow::AggregationRules;
use settings::aggregation::{self, LoadError};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use vhost_user::frontend::FrontendError;

/// Options about ports, and how to run.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Sockets of the ports
    #[arg(required = true, value_name = "SOCKET")]
    pub sockets: Vec<PathBuf>,
    /// Create the sockets and wait for the switch to connect, instead of connecting to the switch
    #[arg(long)]
    pub server: bool,
    /// Queue pairs of each port; with --sharing rss, those of each worker
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=128))]
    pub queue_pairs: u16,
    /// Descriptors of each queue; a power of two unless packed
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(2..=1024))]
    pub queue_size: u16,
    /// Ask for packed rings
    #[arg(long)]
    pub packed: bool,
    /// Ask for mergeable receive buffers
    #[arg(long, value_name = "on|off", default_value = "on", action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub mergeable: bool,
    /// Ask for buffers to be used in order
    #[arg(long, value_name = "on|off", default_value = "on", action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub in_order: bool,
    /// Ask for notifications by index
    #[arg(long, value_name = "on|off", default_value = "off", action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub event_idx: bool,
    /// Bytes of the longest frame that fits into one buffer
    #[arg(long, default_value_t = 2048)]
    pub buffer_size: usize,
    /// Exchange the buffers or pages of frames with other functions instead of copying frames: the ports are in an
    /// `[[exchange]]` of the switch, of this mode
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "group")]
    pub exchange: Option<ExchangeMode>,
    /// Poll when idle: lowest latency, and a whole processor
    #[arg(long, conflicts_with = "sleep")]
    pub poll: bool,
    /// Sleep when idle until the switch notifies (the default: after some rounds without a frame)
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "soon")]
    pub sleep: Option<Sleep>,
    /// End when the switch goes away, instead of waiting for it
    #[arg(long)]
    pub once: bool,
    /// Seconds to wait for the switch's first answer; without limit by default
    #[arg(long)]
    pub timeout: Option<u64>,
    /// Split received aggregates and join sent packets, by the section [aggregation] of this file, as in a switch's
    /// configuration; a next hop's port is the file name of a socket without extension
    #[arg(long, value_name = "FILE")]
    pub aggregation: Option<PathBuf>,
}

/// The time of an idle function's sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sleep {
    /// after some rounds without a frame: waking up costs more than these
    Soon,
    /// after the first round without a frame: if the function and the switch share a processor, the switch can only send while
    /// the function sleeps
    AtOnce,
}

/// The mode of the exchange that a function takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExchangeMode {
    /// buffers of a memory that all functions share
    Group,
    /// pages of its own, by the kernel module zcopy
    Zcopy,
}

/// The device of the kernel module.
const DEVICE: &str = "/dev/zcopy";

/// The option of programs that read aggregates themselves.
#[derive(Clone, Copy, Debug, Args)]
pub struct Native {
    /// Keep received aggregates whole, and work on the packets in them
    #[arg(long, requires = "aggregation")]
    native: bool,
}

impl From<Native> for Splitter {
    fn from(option: Native) -> Splitter {
        if option.native { Splitter::Native } else { Splitter::Nf }
    }
}

/// Options of programs whose frames several workers can process.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Several workers")]
pub struct Workers {
    /// Workers that process frames; several work at the same time, and share the ports as --sharing says
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    workers: u16,
    /// Way for workers to share the ports; by default static-role for several workers, while one does all
    #[arg(long)]
    sharing: Option<Sharing>,
    /// Whether the parent of static-role only talks to the switch, or works as well; by default separate
    #[arg(long)]
    parent: Option<ParentRole>,
    /// Seconds that a worker may hold the oldest frames before the parent of static-role continues without them
    #[arg(long, default_value = "1", value_parser = seconds, value_name = "SECONDS")]
    patience: Duration,
    /// Processors to run on, separated by commas: the parent's if there is one, and each other worker's
    #[arg(long, value_delimiter = ',', value_name = "CPU")]
    cpus: Vec<usize>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

impl Workers {
    /// Returns the options of the crew; `None` if one thread does all.
    pub fn crew(&self) -> Option<CrewOptions> {
        let Workers { workers, sharing, parent, patience, ref cpus } = *self;
        if workers == 1 && sharing.is_none() && parent.is_none() && cpus.is_empty() {
            return None;
        }
        let options = CrewOptions::new(workers, sharing.unwrap_or(Sharing::StaticRole));
        Some(CrewOptions { parent: parent.unwrap_or_default(), patience, cpus: cpus.clone(), ..options })
    }
}

/// The reason why a program failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum Failure {
    Run(#[from] RunError),
    Crew(CrewError),
    Aggregation(#[from] LoadError),
}

impl From<CrewError> for Failure {
    fn from(error: CrewError) -> Failure {
        match error {
            CrewError::Run(error) => Failure::Run(error),
            error => Failure::Crew(error),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        Failure::Run(error.into())
    }
}

impl Common {
    fn options(&self, aggregation: Option<&Aggregation>) -> Options {
        let port = |socket: &PathBuf| PortOptions {
            mode: if self.server { vhost_user::Mode::Server } else { vhost_user::Mode::Client },
            queue_pairs: self.queue_pairs,
            queue_size: self.queue_size,
            packed: self.packed,
            mergeable: self.mergeable,
            in_order: self.in_order,
            event_idx: self.event_idx,
            aggregation: aggregation.cloned(),
            ..PortOptions::new(socket)
        };
        let defaults = Options::new(self.sockets.iter().map(port).collect());
        Options {
            buffer_size: self.buffer_size,
            exchange: match self.exchange {
                None => Exchange::None,
                Some(ExchangeMode::Group) => Exchange::Group,
                Some(ExchangeMode::Zcopy) => Exchange::Pages(DEVICE.into()),
            },
            reconnect: !self.once,
            timeout: self.timeout.map(Duration::from_secs),
            ..defaults
        }
    }

    fn idle(&self) -> Idle {
        match self.sleep {
            _ if self.poll => Idle::Poll,
            None | Some(Sleep::Soon) => Idle::Sleep,
            Some(Sleep::AtOnce) => Idle::SleepAtOnce,
        }
    }

    /// Loads the aggregation of the ports, if they aggregate.
    fn aggregation(&self, splitter: Splitter) -> Result<Option<Aggregation>, LoadError> {
        let Some(file) = &self.aggregation else { return Ok(None) };
        let names: Vec<String> =
            self.sockets.iter().map(|socket| PortOptions::new(socket).name().into_owned()).collect();
        let spec = aggregation::load(file, &names)?.spec();
        Ok(Some(Aggregation { rules: Arc::new(AggregationRules::new(&spec, std::iter::empty())), splitter }))
    }

    /// Opens the ports, runs `round` on them until SIGINT or SIGTERM, and prints the ports' counters. `splitter` applies to
    /// ports that aggregate.
    pub fn run(&self, splitter: impl Into<Splitter>, round: impl FnMut(&mut Ports) -> usize) -> ExitCode {
        let run = |ports: &mut Ports, idle, stop: &AtomicBool| Ok(run(ports, idle, stop, round)?);
        exit(self.try_run(splitter.into(), |options| options, run))
    }

    /// Like [`Common::run`], for a function that waits for more than frames.
    pub fn run_work(&self, work: &mut impl Work) -> ExitCode {
        let run = |ports: &mut Ports, idle, stop: &AtomicBool| Ok(run_work(ports, idle, stop, work)?);
        exit(self.try_run(Splitter::Nf, |options| options, run))
    }

    /// Like [`Common::run`] with a crew, the functions of whose workers `work` makes; prints the crew's counters as well.
    pub fn run_crew<W>(&self, options: CrewOptions, splitter: impl Into<Splitter>, work: impl Fn() -> W) -> ExitCode
    where
        W: FnMut(&mut View<'_>) -> Verdict + Send,
    {
        exit(self.try_run_crew(options, splitter.into(), work))
    }

    fn try_run_crew<W>(&self, options: CrewOptions, splitter: Splitter, work: impl Fn() -> W) -> Result<(), Failure>
    where
        W: FnMut(&mut View<'_>) -> Verdict + Send,
    {
        let mut crew = Crew::new(options.clone())?;
        let run = |ports: &mut Ports, idle, stop: &AtomicBool| Ok(crew.run(ports, idle, stop, work)?);
        let outcome = self.try_run(splitter, |ports| options.adapt(ports), run);
        let per_packet = |cycles: u64, packets: u64| if packets > 0 { cycles as f64 / packets as f64 } else { 0.0 };
        if let Some(parent) = crew.parent() {
            let cycles = |cycles| per_packet(cycles, parent.packets);
            tell(format_args!(
                "parent: {} batches, {} packets; cycles a packet: {:.1} to receive, {:.1} to send",
                parent.batches,
                parent.packets,
                cycles(parent.receive_cycles),
                cycles(parent.send_cycles)
            ));
        }
        for (number, worker) in (1..).zip(crew.workers()) {
            let cycles = |cycles| per_packet(cycles, worker.packets);
            tell(format_args!(
                "worker {number}: {} batches, {} packets; cycles a packet: {:.1} to claim, {:.1} of work, {:.1} to complete",
                worker.batches,
                worker.packets,
                cycles(worker.claim_cycles),
                cycles(worker.work_cycles),
                cycles(worker.complete_cycles)
            ));
        }
        outcome
    }

    /// Opens the ports, with options that `adapt` changes; runs `run` until SIGINT or SIGTERM, and prints the ports' counters.
    fn try_run(
        &self,
        splitter: Splitter,
        adapt: impl FnOnce(Options) -> Options,
        run: impl FnOnce(&mut Ports, Idle, &AtomicBool) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let options = adapt(self.options(self.aggregation(splitter)?.as_ref()));
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // A second signal terminates the process, in case the first does not stop it.
            signal_hook::flag::register_conditional_default(signal, stop.clone()).map_err(OpenError::Signals)?;
            signal_hook::flag::register(signal, stop.clone()).map_err(OpenError::Signals)?;
        }
        let outcome = self.open_and_run(options, &stop, run);
        match outcome {
            // A signal while waiting for a switch is not a failure.
            Err(Failure::Run(RunError::Ports(OpenError::Link { source: FrontendError::Stopped, .. })))
                if stop.load(Ordering::Relaxed) =>
            {
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn open_and_run(
        &self,
        options: Options,
        stop: &AtomicBool,
        run: impl FnOnce(&mut Ports, Idle, &AtomicBool) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut ports = Ports::open(options, stop)?;
        for port in ports.iter() {
            let negotiated = port.negotiated();
            tell(format_args!(
                "{}: {} rings, features {:#x}",
                port.socket().display(),
                negotiated.format(),
                negotiated.0
            ));
        }
        tell(format_args!("memory: {}", ports.memory()));
        let outcome = run(&mut ports, self.idle(), stop);
        for (port, c) in ports.iter().zip(ports.counters()) {
            tell(format_args!(
                "{}: {} received, {} sent, {} dropped as the queue was full, {} malformed",
                port.socket().display(),
                c.received,
                c.transmitted,
                c.full,
                c.malformed
            ));
            if self.aggregation.is_some() {
                tell(format_args!("  {} frames received, {} frames sent", c.received_frames, c.transmitted_frames));
            }
            c.dropped.named().for_each(|(reason, count)| tell(format_args!("  dropped, {reason}: {count}")));
        }
        outcome
    }
}

/// Parses the command line of a program, or ends it with a message, or with its completions or its manual page.
pub fn parse<A: Parser>() -> A {
    manual::parse(
        "millrace(1); on network functions, aggregation.md, exchange.md, proxy.md and sharing.md in /usr/share/doc/millrace",
    )
}

/// Writes a line to the standard error output. If that fails, the program continues without it.
pub fn tell(line: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn exit(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(format_args!("{error}"));
            ExitCode::FAILURE
        }
    }
}
