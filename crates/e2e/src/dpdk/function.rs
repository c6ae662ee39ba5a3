//! testpmd as a network function: virtio_user ports connected to the switch under test.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{Console, Sandbox};
use crate::process::{self, Launch, Usage};
use crate::{Error, Result, cpu};

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
    /// Sends packets of many flows and drops what it receives.
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

/// A virtio_user port.
#[derive(Debug, Clone)]
pub struct Port {
    socket: PathBuf,
    mac: Option<String>,
    server: bool,
    packed: bool,
    mergeable: bool,
    in_order: bool,
    queue_size: u16,
}

impl Port {
    /// Creates a port that connects to the backend's socket, with split rings of 256 and mergeable buffers.
    pub fn new(socket: impl AsRef<Path>) -> Self {
        Self {
            socket: socket.as_ref().to_owned(),
            mac: None,
            server: false,
            packed: false,
            mergeable: true,
            in_order: false,
            queue_size: 256,
        }
    }

    /// Sets its MAC address; the default is random.
    pub fn mac(mut self, mac: impl Into<String>) -> Self {
        self.mac = Some(mac.into());
        self
    }

    /// Makes the port create the socket and wait for the backend.
    pub fn server(mut self) -> Self {
        self.server = true;
        self
    }

    /// Requests packed rings.
    pub fn packed(mut self) -> Self {
        self.packed = true;
        self
    }

    /// Requests mergeable receive buffers, or not.
    pub fn mergeable(mut self, mergeable: bool) -> Self {
        self.mergeable = mergeable;
        self
    }

    /// Requests in-order use of descriptors.
    pub fn in_order(mut self) -> Self {
        self.in_order = true;
        self
    }

    /// Sets the size of its rings.
    pub fn queue_size(mut self, size: u16) -> Self {
        self.queue_size = size;
        self
    }

    fn device(&self, number: usize, socket: &Path, queues: u16) -> String {
        let flag = u8::from;
        let mut device = format!(
            "net_virtio_user{number},path={},queues={queues},queue_size={},packed_vq={},mrg_rxbuf={},in_order={}",
            socket.display(),
            self.queue_size,
            flag(self.packed),
            flag(self.mergeable),
            flag(self.in_order)
        );
        if self.server {
            device.push_str(",server=1");
        }
        if let Some(mac) = &self.mac {
            device.push_str(&format!(",mac={mac}"));
        }
        device
    }
}

/// A network function to start.
#[derive(Debug, Clone)]
pub struct Builder {
    name: String,
    ports: Vec<Port>,
    queues: u16,
    forward: Forward,
    core: usize,
    sandbox: Option<Sandbox>,
    arguments: Vec<String>,
}

impl Builder {
    /// Adds a port.
    pub fn port(mut self, port: Port) -> Self {
        self.ports.push(port);
        self
    }

    /// Sets the number of queue pairs of every port; the default is one.
    pub fn queues(mut self, pairs: u16) -> Self {
        self.queues = pairs;
        self
    }

    /// Sets what it does with packets; the default is [`Forward::Io`].
    pub fn forward(mut self, forward: Forward) -> Self {
        self.forward = forward;
        self
    }

    /// Sets the core of its polling thread; the default is the guests' core in [`cpu::Plan`].
    pub fn core(mut self, core: usize) -> Self {
        self.core = core;
        self
    }

    /// Sets the sandbox; the default is the best that the host permits.
    pub fn sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = Some(sandbox);
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
        let sockets: Vec<&Path> = self.ports.iter().map(|port| port.socket.as_path()).collect();
        let (command, sockets) = sandbox.enter(&sockets)?;
        let runtime = runtime_directory()?;
        let mut testpmd = Invocation::new(command, self.core, sandbox.scratch(runtime.path()));
        for (number, (port, socket)) in self.ports.iter().zip(&sockets).enumerate() {
            testpmd.device(&port.device(number, socket, self.queues));
        }
        let ring = self.ports.iter().map(|port| port.queue_size).max().unwrap_or(256);
        let command = testpmd.application(self.queues, ring, self.forward, &self.arguments);
        let daemon = Launch::new(format!("testpmd {}", self.name)).interactive().spawn(command)?;
        Ok(Testpmd { console: Console::new(daemon), sandbox, _runtime: runtime })
    }
}

/// testpmd's command line, built in its fixed order: options of the environment, the devices, options of the application.
pub(super) struct Invocation(Command);

impl Invocation {
    /// Starts a command line with `wrapper`, a program that runs its arguments.
    pub(super) fn new(mut wrapper: Command, core: usize, runtime: &Path) -> Self {
        // Thread 0 reads commands and otherwise sleeps: keep it away from pollers, so anywhere but on our core.
        let others: Vec<String> =
            cpu::available().into_iter().filter(|&other| other != core).map(|other| other.to_string()).collect();
        let main = if others.is_empty() { core.to_string() } else { format!("({})", others.join(",")) };
        wrapper
            .args(["stdbuf", "-oL", "dpdk-testpmd", "--lcores", &format!("0@{main},1@{core}")])
            // Memory is a memfd, which needs neither hugepages nor files on the host.
            .args(["--no-pci", "--no-huge", "-m", "128", "--no-telemetry"])
            .env("RUNTIME_DIRECTORY", runtime);
        Self(wrapper)
    }

    pub(super) fn device(&mut self, device: &str) {
        self.0.args(["--vdev", device]);
    }

    pub(super) fn application(mut self, queues: u16, ring: u16, forward: Forward, more: &[String]) -> Command {
        self.0
            .args(["--", "-i", "--no-mlockall", "--total-num-mbufs=16384", "--nb-cores=1", "--burst=32"])
            .arg(format!("--forward-mode={}", forward.name()))
            .args([format!("--rxq={queues}"), format!("--txq={queues}")])
            .args([format!("--rxd={ring}"), format!("--txd={ring}")])
            .args(more);
        self.0
    }
}

/// Creates a directory for DPDK's runtime files, so that none of them stay on the host.
pub(super) fn runtime_directory() -> Result<TempDir> {
    let directory = tempfile::Builder::new().prefix("e2e-dpdk-").tempdir();
    directory.map_err(Error::io("creating a temporary directory"))
}

/// A running network function; dropping it kills it. [`Console`] has its commands.
#[derive(Debug)]
pub struct Testpmd {
    console: Console,
    sandbox: Sandbox,
    _runtime: TempDir,
}

impl Testpmd {
    /// Creates a builder of a network function called `name` in messages.
    pub fn builder(name: impl Into<String>) -> Builder {
        Builder {
            name: name.into(),
            ports: Vec::new(),
            queues: 1,
            forward: Forward::Io,
            core: cpu::Plan::detect().guest(),
            sandbox: None,
            arguments: Vec::new(),
        }
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
        let found = all.into_iter().find(|&pid| process::program(pid).as_deref() == Some("dpdk-testpmd"));
        found.ok_or_else(|| Error::malformed(format!("the sandbox {outer}"), "no dpdk-testpmd runs in it"))
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
