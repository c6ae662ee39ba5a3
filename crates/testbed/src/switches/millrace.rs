//! Millrace as a learning switch, in its modes.

use crate::compare::Counted;
use crate::machine::commit_of;
use crate::millrace::{Files, Idle, Millrace};
use crate::surroundings::Surroundings;
use engine::stats::Snapshot;
use lab::switch::{PortKind, Running, Setup, Switch, SwitchPort, Unavailable};
use lab::{Error, Result};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// How Millrace forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A learning bridge; each frame is copied once.
    Bridge,
    /// Wires between ports 0 and 1, 2 and 3, and so on: no look-up.
    Patch,
    /// A learning bridge whose worker sleeps while there is nothing to do.
    Sleep,
    /// The interface receives into the buffers of the first guest; other guests, if there are any, are on a bridge with both.
    Mapped,
    /// A learning bridge that joins packets which leave for the other host.
    Aggregated,
    /// A learning bridge whose first interface is shared by two workers, with static roles.
    Roles,
    /// A bridge that forwards by flows, and as a learning bridge while there are none.
    Openflow,
}

/// Socket for controllers, in the switch's directory.
const OPENFLOW: &str = "of.sock";

/// VLAN of the packets that are joined: it is their service chain.
const CHAIN: u16 = 100;

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 7] =
        [Mode::Bridge, Mode::Patch, Mode::Sleep, Mode::Mapped, Mode::Aggregated, Mode::Roles, Mode::Openflow];
}

/// Millrace in one of its modes.
pub struct Bridge {
    mode: Mode,
    program: PathBuf,
}

impl Bridge {
    /// Creates the switch of this mode; `program` is Millrace's.
    pub fn new(mode: Mode, program: &Path) -> Bridge {
        Bridge { mode, program: program.to_owned() }
    }

    /// Returns its configuration, without the control socket.
    fn configuration(&self, setup: &Setup<'_>) -> Result<String> {
        let mut text = String::new();
        let mut names = Vec::new();
        let wan = setup.ports.iter().position(|port| matches!(port, SwitchPort::Interface(_)));
        for (number, port) in setup.ports.iter().enumerate() {
            let name = format!("port{number}");
            let driver = match port {
                SwitchPort::VhostUser(socket) => format!("\"vhost-user\"\nsocket = {:?}", socket.display().to_string()),
                SwitchPort::Interface(interface) => format!("\"af_xdp\"\ninterface = {interface:?}"),
                SwitchPort::Netmap(name) | SwitchPort::VirtualFunction(name) => {
                    return Err(Error::malformed(format!("the port {name}"), "Millrace has no such ports"));
                }
            };
            let own = match self.mode {
                Mode::Aggregated if Some(number) == wan => format!("aggregate = true\ntrunk = [{CHAIN}]\n"),
                Mode::Aggregated => format!("vlan = {CHAIN}\n"),
                Mode::Roles if Some(number) == wan => "rx-sharing = \"static-role\"\nworkers = [0, 1]\n".to_owned(),
                _ => String::new(),
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, "[[port]]\nname = {name:?}\ndriver = {driver}\n{own}");
            names.push(name);
        }
        if self.mode == Mode::Patch {
            for pair in names.chunks_exact(2) {
                let _ = writeln!(text, "[[patch]]\nports = {pair:?}\n");
            }
        } else if self.mode != Mode::Mapped || names.len() > 2 {
            let openflow = if self.mode == Mode::Openflow { "openflow = true\n" } else { "" };
            let _ = writeln!(text, "[[bridge]]\nname = \"br0\"\n{openflow}ports = {names:?}\n");
        }
        match (self.mode, wan) {
            (Mode::Mapped, Some(wan)) => {
                let (from, to) = (&names[wan], &names[0]);
                let mode = if names.len() > 2 { "bridge" } else { "pass-through" };
                let _ = writeln!(text, "[[mapping]]\nfrom = {from:?}\nto = {to:?}\nmode = {mode:?}\n");
            }
            (Mode::Aggregated, Some(_)) => text.push_str(&aggregation(setup.host)),
            (Mode::Openflow, _) => {
                let socket = setup.directory.join(OPENFLOW).display().to_string();
                let _ = writeln!(text, "[openflow]\nlisten = [{:?}]\n", format!("unix:{socket}"));
            }
            (Mode::Mapped | Mode::Aggregated, None) => {
                return Err(Error::malformed("the ports", format!("{} needs an interface", self.name())));
            }
            _ => {}
        }
        let idle = if self.mode == Mode::Sleep { Idle::Sleep } else { Idle::Poll };
        for cpu in setup.processors {
            let _ = writeln!(text, "[[worker]]\ncpu = {cpu}\nidle = \"{idle}\"\n");
        }
        Ok(text)
    }
}

/// Returns the section by which the switch of this host joins packets to that of the other one, of two.
fn aggregation(host: u8) -> String {
    let (own, other) = (1 + host, 2 - host);
    format!(
        "[aggregation]\nmac = \"02:00:00:00:01:0{own}\"\naddresses = [\"192.0.2.{own}\"]\n\n\
         [[aggregation.next-hop]]\nnfi = 1\nmac = \"02:00:00:00:01:0{other}\"\nip = \"192.0.2.{other}\"\n\n\
         [[aggregation.flow]]\nsc = {CHAIN}\nnfi = 1\n\n"
    )
}

impl Switch for Bridge {
    fn name(&self) -> &'static str {
        match self.mode {
            Mode::Bridge => "millrace",
            Mode::Patch => "millrace-patch",
            Mode::Sleep => "millrace-sleep",
            Mode::Mapped => "millrace-mapped",
            Mode::Aggregated => "millrace-aggregated",
            Mode::Roles => "millrace-roles",
            Mode::Openflow => "millrace-openflow",
        }
    }

    fn about(&self) -> &'static str {
        match self.mode {
            Mode::Bridge => "Millrace, a learning bridge that copies each frame once",
            Mode::Patch => "Millrace with wires between pairs of ports, without a look-up",
            Mode::Sleep => "Millrace, a learning bridge whose worker sleeps while there is nothing to do",
            Mode::Mapped => "Millrace, whose interface receives into the buffers of the first guest",
            Mode::Aggregated => "Millrace, a learning bridge that joins packets which leave for the other host",
            Mode::Roles => "Millrace, a learning bridge whose first interface is shared by two workers",
            Mode::Openflow => "Millrace, a bridge that forwards by flows of a controller",
        }
    }

    fn ports(&self) -> &'static [PortKind] {
        &[PortKind::VhostUser, PortKind::Interface]
    }

    fn learns(&self) -> bool {
        self.mode != Mode::Patch
    }

    fn only_between_hosts(&self) -> bool {
        matches!(self.mode, Mode::Mapped | Mode::Aggregated)
    }

    fn processors(&self) -> usize {
        if self.mode == Mode::Roles { 2 } else { 1 }
    }

    fn available(&self) -> std::result::Result<String, Unavailable> {
        if !self.program.is_file() {
            let built = "build it by `cargo build --release -p millrace`, or name another by --millrace";
            return Err(Unavailable(format!("there is no program at {}; {built}", self.program.display())));
        }
        Ok(commit_of(&self.program).map_or("Millrace".to_owned(), |commit| format!("Millrace {commit}")))
    }

    fn start(&self, setup: &Setup<'_>) -> Result<Box<dyn Running>> {
        let text = self.configuration(setup)?;
        let files = Files { directory: setup.directory, name: "millrace" };
        let surroundings = Surroundings { namespace: Some(setup.namespace), ..Surroundings::default() };
        let millrace = Millrace::start(&self.program, files, &text, surroundings, setup.interrupt)
            .map_err(Error::other("starting Millrace"))?;
        let openflow =
            (self.mode == Mode::Openflow).then(|| format!("unix:{}", setup.directory.join(OPENFLOW).display()));
        Ok(Box::new(RunningBridge { millrace, text, before: None, openflow }))
    }
}

struct RunningBridge {
    millrace: Millrace,
    text: String,
    before: Option<Snapshot>,
    openflow: Option<String>,
}

impl RunningBridge {
    fn snapshot(&mut self) -> Result<Snapshot> {
        self.millrace.snapshot().map_err(Error::other("asking Millrace for its counters"))
    }
}

impl Running for RunningBridge {
    fn check(&mut self) -> Result<()> {
        self.millrace.daemon().check("the end of the run")
    }

    fn is_up(&mut self) -> Result<bool> {
        Ok(self.snapshot()?.ports.iter().all(|port| port.up))
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.millrace.pid()]
    }

    fn commands(&self) -> Vec<String> {
        vec![format!("millrace run --config millrace.toml, with\n{}", self.text.trim_end())]
    }

    fn openflow(&self) -> Option<String> {
        self.openflow.clone()
    }

    fn take_cycles(&mut self) -> Result<Option<f64>> {
        let now = self.snapshot()?;
        let cycles = self.before.as_ref().map(|before| Counted::between(before, &now).cycles_per_packet);
        self.before = Some(now);
        Ok(cycles.filter(|cycles| *cycles > 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::dpdk::Pages;
    use lab::netns::Namespace;
    use lab::process::Interrupt;

    #[test]
    fn millrace_takes_the_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let namespace = Namespace::create().unwrap_or_else(|error| panic!("as root: {error}"));
        let interrupt = Interrupt::install().unwrap();
        let socket = |number| SwitchPort::VhostUser(directory.path().join(format!("p{number}.sock")));
        let ports = [socket(0), socket(1), SwitchPort::Interface("p2".to_owned()), socket(3)];
        let setup = Setup {
            directory: directory.path(),
            host: 0,
            ports: &ports,
            namespace: &namespace,
            processors: &[0, 1],
            others: 0,
            pages: Pages::Normal,
            interrupt: &interrupt,
        };
        for mode in Mode::ALL {
            let text = Bridge::new(mode, Path::new("millrace")).configuration(&setup).unwrap();
            let file = directory.path().join("m.toml");
            std::fs::write(&file, &text).unwrap();
            let read = ::millrace::config::Config::load(&file);
            assert!(read.is_ok(), "{text}\n{read:?}");
        }
    }
}
