//! testpmd as a network function, as a load, or as a vhost-user switch.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::{AnyPort, Console, Lcores, Pages, READY, Sandbox, stats};
use crate::process::{self, Daemon, Interrupt, Launch, Usage};
use crate::{Error, Result, cpu};

const PROGRAM: &str = "dpdk-testpmd";

/// Memory in MiB that it uses without huge pages of its own.
const SMALL: u64 = 128;

/// Memory in MiB that it uses in measurements.
pub const MEGABYTES: u64 = 512;

/// Time limit for DPDK to tell its version.
const LIMIT: Duration = Duration::from_secs(60);

/// Returns DPDK's version, which testpmd tells at its start.
pub fn version() -> Result<String> {
    let directory = tempfile::tempdir().map_err(Error::io("creating a temporary directory"))?;
    let mut command = Sandbox::plain(PROGRAM);
    command.args(["--no-huge", "--no-pci", "--no-telemetry", "--in-memory", "-v", "--", "--help"]);
    command.env("RUNTIME_DIRECTORY", directory.path());
    let mut testpmd = Daemon::spawn("testpmd", command)?;
    let line = testpmd.wait_for_line("its version", LIMIT, |line| stats::version(line).is_some())?;
    Ok(stats::version(&line).unwrap_or_default())
}

/// Forwarding mode of testpmd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forward {
    /// Passes packets between paired ports (0 and 1, 2 and 3) unchanged.
    Io,
    /// The same, with source and destination MAC address exchanged.
    MacSwap,
    /// Sends only.
    TxOnly,
    /// Receives only.
    RxOnly,
    /// Sends packets of many flows and drops received ones.
    FlowGen,
}

impl Forward {
    /// Returns testpmd's name for it, as used by its option and by the command `set fwd`.
    pub fn name(self) -> &'static str {
        match self {
            Forward::Io => "io",
            Forward::MacSwap => "macswap",
            Forward::TxOnly => "txonly",
            Forward::RxOnly => "rxonly",
            Forward::FlowGen => "flowgen",
        }
    }
}

/// A testpmd to start.
#[derive(Debug, Clone)]
pub struct Builder {
    name: String,
    ports: Vec<AnyPort>,
    queues: u16,
    forward: Forward,
    lcores: Lcores,
    pages: Pages,
    megabytes: u64,
    sandbox: Option<Sandbox>,
    interrupt: Option<Interrupt>,
    plugin: Option<PathBuf>,
    arguments: Vec<String>,
}

impl Builder {
    /// Adds a port. Ports 0 and 1 are each other's output, as are 2 and 3.
    pub fn port(mut self, port: impl Into<AnyPort>) -> Self {
        self.ports.push(port.into());
        self
    }

    /// Sets the number of queue pairs of every port; the default is one. testpmd forwards nothing on queues that the other side
    /// does not have.
    pub fn queues(mut self, pairs: u16) -> Self {
        self.queues = pairs;
        self
    }

    /// Sets its treatment of packets; the default is [`Forward::Io`].
    pub fn forward(mut self, forward: Forward) -> Self {
        self.forward = forward;
        self
    }

    /// Sets the cores of its threads; the default is that of the guests in [`cpu::Plan`], or for a switch the switch's.
    pub fn lcores(mut self, lcores: Lcores) -> Self {
        self.lcores = lcores;
        self
    }

    /// Sets its memory; the default is 128 MiB of normal pages.
    pub fn memory(mut self, pages: Pages, megabytes: u64) -> Self {
        (self.pages, self.megabytes) = (pages, megabytes);
        self
    }

    /// Sets the sandbox; the default is the best that the host permits, or for a switch none.
    pub fn sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = Some(sandbox);
        self
    }

    /// Makes it a part of a measurement; see [`Launch::measured`].
    pub fn measured(mut self, interrupt: &Interrupt) -> Self {
        self.interrupt = Some(interrupt.clone());
        self
    }

    /// Loads a driver that is not DPDK's.
    pub fn plugin(mut self, library: impl Into<PathBuf>) -> Self {
        self.plugin = Some(library.into());
        self
    }

    /// Adds an argument for testpmd itself, such as `--eth-peer=0,02:00:00:00:00:01` or `--txpkts=1500`.
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Starts it and returns at once; see [`Console::wait_ready`]. A port that is a server waits for its backend first.
    pub fn spawn(self) -> Result<Testpmd> {
        let sandbox = self.sandbox.unwrap_or_else(Sandbox::detect);
        let directory = tempfile::Builder::new().prefix("lab-dpdk-").tempdir();
        let directory = directory.map_err(Error::io("creating a temporary directory"))?;
        let (command, line) = self.command(sandbox, directory.path())?;
        let name = format!("testpmd {}", self.name);
        let launch = match &self.interrupt {
            Some(interrupt) => Launch::measured(name, interrupt),
            None => Launch::new(name).interactive(),
        };
        Ok(Testpmd { console: Console::new(launch.spawn(command)?), line, sandbox, _directory: directory })
    }

    /// Starts it and waits until it accepts commands. It forwards nothing before [`Console::start`].
    pub fn spawn_ready(self) -> Result<Testpmd> {
        let mut testpmd = self.spawn()?;
        testpmd.wait_ready(READY)?;
        Ok(testpmd)
    }

    /// Returns its command, and the line that a reader could type. Its files are in `directory`, so that none of them stay on
    /// the host.
    fn command(&self, sandbox: Sandbox, directory: &Path) -> Result<(Command, String)> {
        let sockets = self.ports.iter().filter_map(AnyPort::socket);
        let files: Vec<&Path> = sockets.chain(self.plugin.as_deref()).collect();
        let (mut command, mut files) = sandbox.enter(&files)?;
        let plugin = self.plugin.as_ref().and_then(|_| files.pop());
        let arguments = self.arguments(files, plugin);
        // Its output is a pipe; without stdbuf it would arrive in blocks of 4 KiB.
        command.args(["stdbuf", "-oL", PROGRAM]).args(&arguments).env("RUNTIME_DIRECTORY", sandbox.scratch(directory));
        Ok((command, process::line(PROGRAM, &arguments)))
    }

    /// Returns its arguments: options of the environment, the devices at `sockets`, options of the application.
    fn arguments(&self, sockets: Vec<PathBuf>, plugin: Option<PathBuf>) -> Vec<String> {
        let mut line = vec!["--lcores".to_owned(), self.lcores.option()];
        line.extend(plugin.into_iter().flat_map(|library| ["-d".to_owned(), library.display().to_string()]));
        line.extend(["--no-pci", "--no-telemetry", "-v"].map(str::to_owned));
        line.extend(self.pages.arguments().iter().map(|&argument| argument.to_owned()));
        line.extend(["-m".to_owned(), self.megabytes.to_string()]);
        let mut sockets = sockets.into_iter();
        for (number, port) in self.ports.iter().enumerate() {
            let mut port = port.clone();
            if port.socket().is_some() {
                port.set_socket(sockets.next().expect("a path for each socket"));
            }
            line.extend(port.devices(number, self.queues).into_iter().flat_map(|device| ["--vdev".to_owned(), device]));
        }
        let (queues, ring) = (self.queues, self.ports.iter().filter_map(AnyPort::queue_size).max().unwrap_or(256));
        let fixed = ["--", "-i", "--no-mlockall", "--total-num-mbufs=16384", "--nb-cores=1", "--burst=32"];
        line.extend(fixed.map(str::to_owned));
        line.push(format!("--forward-mode={}", self.forward.name()));
        line.extend([format!("--rxq={queues}"), format!("--txq={queues}")]);
        line.extend([format!("--rxd={ring}"), format!("--txd={ring}")]);
        line.extend(self.arguments.iter().cloned());
        line
    }
}

/// A running testpmd; dropping it kills it. [`Console`] has its commands.
#[derive(Debug)]
pub struct Testpmd {
    console: Console,
    line: String,
    sandbox: Sandbox,
    _directory: TempDir,
}

impl Testpmd {
    /// Creates a builder of a network function called `name` in messages.
    pub fn builder(name: impl Into<String>) -> Builder {
        Builder {
            name: name.into(),
            ports: Vec::new(),
            queues: 1,
            forward: Forward::Io,
            lcores: Lcores::polling_on(cpu::Plan::detect().guest()),
            pages: Pages::Normal,
            megabytes: SMALL,
            sandbox: None,
            interrupt: None,
            plugin: None,
            arguments: Vec::new(),
        }
    }

    /// Creates a builder of a switch: the peer that Millrace is compared with, and the backend for tests without Millrace.
    pub fn switch() -> Builder {
        let lcores = Lcores::polling_on(cpu::Plan::detect().switch);
        Testpmd::builder("switch").lcores(lcores).sandbox(Sandbox::None)
    }

    /// Returns its command line, as a reader could type it.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Returns its isolation from the host.
    pub fn sandbox(&self) -> Sandbox {
        self.sandbox
    }

    /// Returns the process id of testpmd itself, which runs inside the sandbox, as seen by the host.
    pub fn inner_pid(&mut self) -> Result<u32> {
        let outer = self.daemon().pid();
        let mut all = process::descendants(outer);
        all.push(outer);
        let found = all.into_iter().find(|&pid| process::program(pid).as_deref() == Some(PROGRAM));
        found.ok_or_else(|| Error::malformed(format!("the sandbox {outer}"), format!("no {PROGRAM} runs in it")))
    }

    /// Returns the resource usage of testpmd itself.
    pub fn usage(&mut self) -> Result<Usage> {
        Usage::of(self.inner_pid()?)
    }
}

impl Deref for Testpmd {
    type Target = Console;

    fn deref(&self) -> &Console {
        &self.console
    }
}

impl DerefMut for Testpmd {
    fn deref_mut(&mut self) -> &mut Console {
        &mut self.console
    }
}
