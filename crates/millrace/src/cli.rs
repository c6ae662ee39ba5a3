//! The command line.

mod keys;
mod parts;
mod time;

pub use parts::{
    AddBridge, AddPort, BridgeRequest, ListPorts, PatchRequest, PortOptions, PortRequest, SetBridge, SetPort,
};

use crate::demo::FunctionOptions;
use clap::{Args, Parser, Subcommand, ValueEnum};
use manual::Shell;
use std::path::PathBuf;
use std::time::Duration;

/// A software data plane for NFV nodes: a vhost-user switch.
#[derive(Debug, Parser)]
#[command(
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  millrace check switch.toml           check a configuration
  millrace run --config switch.toml    start the switch; Ctrl-C stops it, SIGHUP reloads the configuration
  millrace top                         live view: rates, drops, workers, mappings, aggregation
  millrace ctl ports                   a single query; scripts add --json
  millrace demo                        see frames move, without a guest or a configuration"
)]
pub struct Cli {
    /// Its command.
    #[command(subcommand)]
    pub command: Command,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start the switch and run it until SIGINT or SIGTERM
    #[command(after_help = "\
A port that can't be opened, for instance because its interface does not exist yet, stays down until it can; see
`millrace ctl ports`.
SIGHUP and `millrace ctl reload` apply a changed configuration; unchanged ports keep passing frames.
A second SIGINT or SIGTERM, a second after the first or later, ends the switch at once, without draining its ports.

Example:
  millrace run --config /etc/millrace.toml --log debug")]
    Run(RunOptions),
    /// Check a configuration without starting anything
    #[command(after_help = "\
Reports all problems of the file at once, each with its line and a remedy.
Exit status: 0 if `run` would accept the file (there may be warnings, such as for missing interfaces), 1 if not.
To learn what a port of driver `dpdk` would do with a NIC: `testbed nic-check` (docs/dpdk.md).

Examples:
  millrace check switch.toml
  millrace check --config switch.toml")]
    Check(CheckOptions),
    /// Query or control a running switch
    #[command(after_help = "\
Exit status: 0 if the switch did everything that was requested; 1 if not, also if a reload was only done in part.
Without --socket, the switch is looked for at its default sockets: $XDG_RUNTIME_DIR/millrace.sock,
/run/millrace.sock, /run/millrace/millrace.sock (the service's), or millrace.sock in this directory.

Examples:
  millrace ctl ports                   state, forwarding and recordings of all ports
  millrace ctl port add web-0 --vhost-user /run/web-0.sock --mode client --bridge br0 --wait 5s
  millrace ctl port list --label pod=ns/web-0
  millrace ctl events --follow         what happens: ports, guests, mappings, workers, reloads, calls
  millrace ctl stats --watch 1         frames and bits per second, every second
  millrace ctl drops                   dropped frames, by place and reason
  millrace ctl mappings                physical queues that receive into guests' buffers
  millrace ctl exchange                functions that swap buffers, and frames that were copied
  millrace ctl why eth1                which frames of a port are copied, why, and what would change it
  millrace ctl aggregation             packets that are joined for the network, and their number per frame
  millrace ctl flows                   flows that controllers have set over OpenFlow
  millrace ctl confinement             privileges, system calls and files that the switch gave up
  millrace ctl --json stats            all counters, for scripts
  millrace ctl reload                  apply the changed configuration, and report the steps; --json for scripts
  millrace ctl --socket /run/b.sock shutdown")]
    Ctl(CtlOptions),
    /// Watch a running switch: rates, drops, workers, mappings and aggregation
    #[command(after_help = "\
Keys on the live screen:
  Left, Right, Tab, 1-5       another view: ports, drops, workers, mappings, aggregation
  Up, Down, PgUp, PgDn        select another row; the lines below the table show its details
  s, r                        sort by the next column, reverse the order
  /                           show only rows with a text; Enter ends typing, Esc shows all again
  p                           pause: freeze the figures; p again resumes
  ?                           explain the keys, and the columns of the view
  q, Ctrl-C                   leave

All figures are of the last interval, except FRAMES of the drops, which counts since the port
was added. A switch that goes away is retried, also after a restart; a missing switch at the
start is an error. Without --socket, the switch is looked for as by `millrace ctl`.
If standard input or output is not a terminal, or a dumb one (TERM=dumb), --plain is the default. Colours
mark problems; NO_COLOR=1 turns them off. docs/top.md explains the fields of --json.

Examples:
  millrace top                                   the live screen
  millrace top --interval 200ms                  five times a second
  millrace top --plain --interval 1m >> top.log  a block of lines each minute
  millrace top --json --count 1                  the rates of one second, for scripts")]
    Top(TopOptions),
    /// Print the aggregates in a capture file, and the packets in them
    #[command(after_help = "\
Aggregates are recognized over UDP, inside VXLAN, and in plain Ethernet frames. Those that a switch would drop are
printed with the reason that it would count.

Examples:
  millrace decode wan.pcap                                   such as `record-to` writes
  millrace decode --json wan.pcap                            one line of JSON for each aggregate")]
    Decode(DecodeOptions),
    /// Print the schema or the reference of configuration files, or of the API
    #[command(after_help = "\
Examples:
  millrace schema > millrace.schema.json                     for editors that check and complete TOML
  millrace schema --markdown > docs/configuration.md         the reference documentation
  millrace schema --api                                      the methods of the control socket, as OpenRPC")]
    Schema(SchemaOptions),
    /// Print a script that completes commands and options in a shell
    #[command(after_help = "\
Packages install these scripts. In a shell without:
  source <(millrace completions bash)")]
    Completions(CompletionsOptions),
    /// Write the manual pages of all commands
    #[command(after_help = "\
Packages install these pages. Without a package:
  mkdir -p ~/.local/share/man/man1
  millrace manual ~/.local/share/man/man1")]
    Manual(ManualOptions),
    /// Show frames moving through a separate switch, with no guest, no root and no configuration
    #[command(after_help = "\
Example:
  millrace demo --seconds 2 --json")]
    Demo(DemoOptions),
    /// A network function of the demonstration
    #[command(hide = true)]
    DemoFunction(FunctionOptions),
}

/// Options of `run`.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// Configuration file
    #[arg(long, short, value_name = "FILE")]
    pub config: PathBuf,
    /// Verbosity of the log on standard error
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log: LogLevel,
    /// Refuse to start if a port can't be opened, rather than retry until it can
    #[arg(long)]
    pub strict: bool,
}

/// Verbosity of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Failures that keep a part from working
    Error,
    /// And possible causes of failures
    Warn,
    /// And changes: guests come and go, the configuration is reloaded
    Info,
    /// And negotiated features
    Debug,
    /// And every message
    Trace,
}

impl From<LogLevel> for tracing::Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

/// Options of `check`.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct CheckOptions {
    /// Configuration file
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Configuration file, as `run` takes it
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl CheckOptions {
    /// The file, however it was given.
    pub fn path(self) -> PathBuf {
        self.file.or(self.config).unwrap_or_default()
    }
}

/// Options of `ctl`.
#[derive(Debug, Args)]
pub struct CtlOptions {
    /// Control socket of the switch
    #[arg(long, short, value_name = "PATH", global = true)]
    pub socket: Option<PathBuf>,
    /// Print the raw result, one line of JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// The request.
    #[command(subcommand)]
    pub request: CtlRequest,
}

/// A request to a running switch.
#[derive(Clone, Debug, Subcommand)]
pub enum CtlRequest {
    /// Ports: state and forwarding
    Ports,
    /// Add, change, remove and list ports while the switch runs
    #[command(subcommand)]
    Port(PortRequest),
    /// Add, change and remove bridges while the switch runs
    #[command(subcommand)]
    Bridge(BridgeRequest),
    /// Join and part ports while the switch runs
    #[command(subcommand)]
    Patch(PatchRequest),
    /// Events: ports, guests, mappings, workers and changes of the configuration; the last ones, or those to come
    Events(EventsOptions),
    /// Frames and bytes of every queue
    Stats(StatsOptions),
    /// Workers: load, and time by step and stage
    Workers,
    /// MAC tables of the bridges
    Mac,
    /// Dropped frames, by port, stage and reason
    Drops,
    /// Mappings: physical queues that receive into guests' buffers, or why they do not
    Mappings,
    /// Functions that exchange buffers: exchanged frames, copied ones, and why
    Exchange,
    /// How frames get from a port to its peers and back: in place, exchanged or copied, and why
    Why(WhyOptions),
    /// Packets that are joined and split: next hops, flows, and frames on the wire
    Aggregation,
    /// Flows that controllers have set, with their counters
    Flows,
    /// Privileges, system calls and files that the switch has given up
    Confinement,
    /// Read the configuration again and apply it
    Reload,
    /// Stop the switch
    Shutdown,
    /// Version of the running switch
    Version,
}

/// Options of `ctl why`.
#[derive(Clone, Debug, Args)]
pub struct WhyOptions {
    /// Name of the port
    #[arg(value_name = "PORT")]
    pub port: String,
}

/// Options of `ctl events`.
#[derive(Clone, Copy, Debug, Args)]
#[command(after_help = "\
A line for each event, with its time; --json prints a line of JSON for each. docs/api.md lists the events.
The switch keeps the last ones, some thousand. Who reads too slowly loses some, and an event `lost` has their number.

Examples:
  millrace ctl events                                   the last 20 events
  millrace ctl events --follow --json                   those to come, for scripts
  millrace ctl events --follow --since 1764355000123    and those after the last one that a script has seen")]
pub struct EventsOptions {
    /// Print events as they happen, until Ctrl-C or the end of the switch
    #[arg(long, short)]
    pub follow: bool,
    /// Number of past events to print at most [default: 20; with --follow or --since: all that are wanted]
    #[arg(long, value_name = "N")]
    pub last: Option<usize>,
    /// Only events after the one of this number (`seq`)
    #[arg(long, value_name = "SEQ")]
    pub since: Option<u64>,
    /// With --follow: also addresses that bridges learn, move and forget
    #[arg(long, requires = "follow")]
    pub learned: bool,
}

/// Options of `ctl stats`.
#[derive(Clone, Debug, Args)]
pub struct StatsOptions {
    /// Show rates instead of totals, at this interval in seconds, until Ctrl-C
    #[arg(long, short, value_name = "SECONDS", value_parser = seconds)]
    pub watch: Option<f64>,
    /// With --watch: end after this number of reports
    #[arg(long, value_name = "N", requires = "watch")]
    pub count: Option<u64>,
}

/// Options of `top`.
#[derive(Clone, Debug, Args)]
pub struct TopOptions {
    /// Control socket of the switch
    #[arg(long, short, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Time between two samples, such as 1s, 500ms or 1m
    #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = time::interval)]
    pub interval: Duration,
    /// Print a block of lines each interval, without colours, for logs
    #[arg(long, conflicts_with = "json")]
    pub plain: bool,
    /// Print one line of JSON each interval
    #[arg(long)]
    pub json: bool,
    /// End after this number of intervals
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
}

/// Options of `decode`.
#[derive(Debug, Args)]
pub struct DecodeOptions {
    /// Capture file, pcap or pcapng
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// UDP port of aggregates
    #[arg(long, value_name = "PORT", default_value_t = paflow::header::UDP_PORT)]
    pub udp_port: u16,
    /// UDP port of VXLAN
    #[arg(long, value_name = "PORT", default_value_t = paflow::table::key::VXLAN_PORT)]
    pub vxlan_port: u16,
    /// Print one line of JSON for each aggregate
    #[arg(long)]
    pub json: bool,
}

/// Options of `schema`.
#[derive(Debug, Args)]
pub struct SchemaOptions {
    /// Print the reference documentation instead of the schema
    #[arg(long)]
    pub markdown: bool,
    /// Describe the API instead of configuration files, as OpenRPC
    #[arg(long)]
    pub api: bool,
}

/// Options of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsOptions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Options of `manual`.
#[derive(Debug, Args)]
pub struct ManualOptions {
    /// Directory that the pages are written into
    #[arg(value_name = "DIRECTORY")]
    pub directory: PathBuf,
}

/// Options of `demo`.
#[derive(Clone, Debug, Args)]
pub struct DemoOptions {
    /// Time to measure, not counting start and stop
    #[arg(long, short, value_name = "N", default_value = "12", value_parser = seconds)]
    pub seconds: f64,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("give a number of seconds from 0.01 to 86400".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn check_takes_its_file_either_way_but_not_both() {
        let parse = |arguments: &[&str]| Cli::try_parse_from([&["millrace", "check"], arguments].concat());
        for arguments in [&["f"][..], &["--config", "f"]] {
            let Command::Check(options) = parse(arguments).unwrap().command else { panic!("not check") };
            assert_eq!(options.path(), PathBuf::from("f"));
        }
        assert!(parse(&[]).is_err());
        assert!(parse(&["f", "--config", "g"]).is_err());
    }

    #[test]
    fn ctl_options_go_anywhere() {
        let cli =
            Cli::try_parse_from(["millrace", "ctl", "stats", "--watch", "0.5", "--json", "--socket", "s"]).unwrap();
        let Command::Ctl(CtlOptions { socket: Some(_), json: true, request: CtlRequest::Stats(stats) }) = cli.command
        else {
            panic!("{cli:?}")
        };
        assert_eq!(stats.watch, Some(0.5));
        assert!(Cli::try_parse_from(["millrace", "ctl", "stats", "--watch", "0"]).is_err());
    }

    #[test]
    fn intervals_have_units_or_are_seconds() {
        let parse = |text: &str| Cli::try_parse_from(["millrace", "top", "--interval", text]);
        for (text, millis) in [("1s", 1000), ("500ms", 500), ("1m", 60_000), ("0.25", 250), ("2", 2000)] {
            let Command::Top(options) = parse(text).unwrap().command else { panic!("not top") };
            assert_eq!(options.interval, Duration::from_millis(millis), "{text}");
        }
        for text in ["0", "-1", "1ms", "2days", "x", "nan", "inf"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(Cli::try_parse_from(["millrace", "top", "--plain", "--json"]).is_err());
    }
}
