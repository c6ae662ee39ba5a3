//! Millrace as the switch: a process with two vhost-user ports, and a line to its control socket.

use super::interrupt::Interrupt;
use super::program::{Program, ProgramError};
use super::scenario::{Forward, Ring};
use clap::ValueEnum;
use engine::stats::Snapshot;
use millrace::control::{Client, ClientError};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long it may take to start, and to get its ports up once a guest is there.
const LIMIT: Duration = Duration::from_secs(15);

/// What its worker does when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    /// Sleeps until a queue has something.
    Sleep,
    /// Polls ever more rarely.
    Backoff,
    /// Polls on.
    Poll,
}

impl std::fmt::Display for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Idle::Sleep => "sleep",
            Idle::Backoff => "backoff",
            Idle::Poll => "poll",
        })
    }
}

/// Millrace could not be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum MillraceError {
    #[error("there is no program at {}; build it by `cargo build --release -p millrace`, or name another by --millrace", path.display())]
    Missing { path: PathBuf },
    #[error("Millrace's configuration can't be written: {0}")]
    Configuration(std::io::Error),
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error("Millrace's control socket: {0}")]
    Control(#[from] ClientError),
    #[error("its flows can't be set by ovs-ofctl, of the Debian package openvswitch-common: {0}")]
    Flows(std::io::Error),
}

/// The program to run: `given`, or else the one beside this one.
pub fn program(given: Option<&Path>) -> Result<PathBuf, MillraceError> {
    let beside = || std::env::current_exe().map(|own| own.with_file_name("millrace")).unwrap_or_default();
    let path = given.map_or_else(beside, Path::to_owned);
    if path.is_file() { Ok(path) } else { Err(MillraceError::Missing { path }) }
}

/// A running Millrace.
pub struct Millrace {
    program: Program,
    client: Client,
}

impl Millrace {
    /// Starts the program with a port on each socket and one worker on processor `cpu`, and waits until it answers.
    /// Its files go to `directory`. Before a wire, the first port is the driver of the NIC there, with rings of this
    /// format.
    pub fn start(
        path: &Path,
        (directory, sockets): (&Path, &[PathBuf; 2]),
        (forward, wire): (Forward, Option<Ring>),
        (cpu, idle): (usize, Idle),
        interrupt: &Interrupt,
    ) -> Result<Millrace, MillraceError> {
        let (file, control) = (directory.join("millrace.toml"), directory.join("control.sock"));
        std::fs::write(&file, configuration(sockets, &control, (forward, wire), (cpu, idle)))
            .map_err(MillraceError::Configuration)?;
        let mut command = Command::new(path);
        command.args(["run", "--log", "warn", "--config"]).arg(&file);
        let mut program = Program::start("Millrace", command, interrupt)?;
        let client = program.wait_for("its sockets", LIMIT, |_| {
            // A wire makes its own.
            if sockets.iter().all(|socket| socket.exists()) { Client::connect(&control).ok() } else { None }
        })?;
        if forward == Forward::Openflow {
            set_flows(&directory.join(CHANNEL))?;
        }
        Ok(Millrace { program, client })
    }

    /// All that it counts.
    pub fn snapshot(&mut self) -> Result<Snapshot, MillraceError> {
        Ok(self.client.call_as("stats")?)
    }

    /// Waits until both ports can pass frames, as long as `guests` is fine.
    pub fn wait_up(&mut self, mut guests: impl FnMut() -> Result<(), ProgramError>) -> Result<(), MillraceError> {
        let Millrace { program, client } = self;
        program.wait_for("its ports to be up", LIMIT, |_| {
            if let Err(error) = guests() {
                return Some(Err(error.into()));
            }
            match client.call_as::<Snapshot>("stats") {
                Ok(snapshot) => snapshot.ports.iter().all(|port| port.up).then_some(Ok(())),
                Err(error) => Some(Err(error.into())),
            }
        })?
    }

    /// The process.
    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }
}

/// Name of the socket that flows are set over.
const CHANNEL: &str = "openflow.sock";

/// Sends what comes in at one port out of the other.
fn set_flows(channel: &Path) -> Result<(), MillraceError> {
    for flow in ["in_port=1,actions=output:2", "in_port=2,actions=output:1"] {
        let mut ofctl = Command::new("ovs-ofctl");
        ofctl.args(["-O", "OpenFlow13", "add-flow", &format!("unix:{}", channel.display()), flow]);
        let output = ofctl.output().map_err(MillraceError::Flows)?;
        if !output.status.success() {
            return Err(MillraceError::Flows(std::io::Error::other(
                String::from_utf8_lossy(&output.stderr).into_owned(),
            )));
        }
    }
    Ok(())
}

fn configuration(
    sockets: &[PathBuf; 2],
    control: &Path,
    (forward, wire): (Forward, Option<Ring>),
    (cpu, idle): (usize, Idle),
) -> String {
    const BRIDGE: &str = "[[bridge]]\nname = \"br0\"\nports = [\"a\", \"b\"]\n\n";
    let mut text = String::new();
    for (name, socket) in ["a", "b"].iter().zip(sockets) {
        let driver = match wire {
            Some(ring) if *name == "a" => format!("\"virtio-user\"\npacked = {}", ring == Ring::Packed),
            _ => "\"vhost-user\"".to_owned(),
        };
        let socket = socket.display().to_string();
        text += &format!("[[port]]\nname = \"{name}\"\ndriver = {driver}\nsocket = {socket:?}\n\n");
    }
    match forward {
        Forward::Patch => text += "[[patch]]\nports = [\"a\", \"b\"]\n\n",
        Forward::Bridge => text += BRIDGE,
        Forward::Map => text += "[[mapping]]\nfrom = \"a\"\nto = \"b\"\nmode = \"pass-through\"\n\n",
        Forward::Openflow => {
            text += &BRIDGE.replace("ports", "openflow = true\nports");
            text += &format!("[openflow]\nlisten = [\"unix:{CHANNEL}\"]\n\n");
        }
        Forward::BridgeMap => text = text + BRIDGE + "[[mapping]]\nfrom = \"a\"\nto = \"b\"\n\n",
    }
    text += &format!(
        "[[worker]]\ncpu = {cpu}\nidle = \"{idle}\"\n\n[control]\nsocket = {:?}\n",
        control.display().to_string()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn millrace_takes_the_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("m.toml");
        for (forward, idle, wire) in [
            (Forward::Patch, Idle::Poll, None),
            (Forward::Bridge, Idle::Sleep, Some(Ring::Split)),
            (Forward::Map, Idle::Backoff, Some(Ring::Packed)),
            (Forward::BridgeMap, Idle::Poll, Some(Ring::Split)),
            (Forward::Openflow, Idle::Poll, None),
        ] {
            let sockets = ["0.sock", "1.sock"].map(|name| directory.path().join(name));
            let control = directory.path().join("c.sock");
            std::fs::write(&file, configuration(&sockets, &control, (forward, wire), (0, idle))).unwrap();
            let read = millrace::config::Config::load(&file);
            assert!(read.is_ok(), "{read:?}");
        }
    }
}
