//! testpmd as a vhost-user switch: the peer that Millrace is compared with, and the backend for tests of the harness itself.

use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::function::{Invocation, runtime_directory};
use super::{Console, Forward};
use crate::process::{Launch, Usage};
use crate::{Result, cpu};

/// A vhost-user port of the switch.
#[derive(Debug, Clone)]
pub struct SwitchPort {
    socket: PathBuf,
    client: bool,
}

impl SwitchPort {
    /// Creates a port that creates the socket.
    pub fn new(socket: impl AsRef<Path>) -> Self {
        Self { socket: socket.as_ref().to_owned(), client: false }
    }

    /// Makes the port connect to a socket created by the guest, retrying until it succeeds.
    pub fn client(mut self) -> Self {
        self.client = true;
        self
    }
}

/// A switch to start.
#[derive(Debug, Clone)]
pub struct SwitchBuilder {
    ports: Vec<SwitchPort>,
    queues: u16,
    forward: Forward,
    core: usize,
    arguments: Vec<String>,
}

impl SwitchBuilder {
    /// Adds a port.
    pub fn port(mut self, port: SwitchPort) -> Self {
        self.ports.push(port);
        self
    }

    /// Sets the number of queue pairs of every port; the default is one. testpmd forwards nothing on queues that the guest does
    /// not have.
    pub fn queues(mut self, pairs: u16) -> Self {
        self.queues = pairs;
        self
    }

    /// Sets what it does with packets; the default is [`Forward::Io`].
    pub fn forward(mut self, forward: Forward) -> Self {
        self.forward = forward;
        self
    }

    /// Sets the core of its polling thread; the default is the switch's core in [`cpu::Plan`].
    pub fn core(mut self, core: usize) -> Self {
        self.core = core;
        self
    }

    /// Adds an argument for testpmd itself.
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Starts the switch and waits until its sockets exist. It forwards nothing before [`Console::start`].
    pub fn spawn(self) -> Result<TestpmdSwitch> {
        let runtime = runtime_directory()?;
        let mut testpmd = Invocation::new(Command::new("env"), self.core, runtime.path());
        for (number, port) in self.ports.iter().enumerate() {
            let client = u8::from(port.client);
            let socket = port.socket.display();
            testpmd.device(&format!("net_vhost{number},iface={socket},queues={},client={client}", self.queues));
        }
        let command = testpmd.application(self.queues, 256, self.forward, &self.arguments);
        let daemon = Launch::new("testpmd switch").interactive().spawn(command)?;
        let mut console = Console::new(daemon);
        console.wait_ready(super::READY)?;
        Ok(TestpmdSwitch { console, _runtime: runtime })
    }
}

/// A running switch; dropping it kills it. [`Console`] has its commands.
#[derive(Debug)]
pub struct TestpmdSwitch {
    console: Console,
    _runtime: TempDir,
}

impl TestpmdSwitch {
    /// Creates a builder without ports. Ports 0 and 1 are each other's output, as are 2 and 3.
    pub fn builder() -> SwitchBuilder {
        SwitchBuilder {
            ports: Vec::new(),
            queues: 1,
            forward: Forward::Io,
            core: cpu::Plan::detect().switch,
            arguments: Vec::new(),
        }
    }

    /// Returns the resource usage of the switch.
    pub fn usage(&mut self) -> Result<Usage> {
        self.console.daemon().usage()
    }
}

impl Deref for TestpmdSwitch {
    type Target = Console;

    fn deref(&self) -> &Console {
        &self.console
    }
}

impl DerefMut for TestpmdSwitch {
    fn deref_mut(&mut self) -> &mut Console {
        &mut self.console
    }
}
