//! Millrace as a learning switch, in its modes.

use crate::compare::Counted;
use crate::machine::commit_of;
use crate::millrace::{self, Idle};
use crate::surroundings::Surroundings;
use engine::stats::Snapshot;
use lab::millrace::config::{
    self as written, Configuration, RawAggregation, RawBridge, RawFile, RawOpenflow, RawPort, RxSharing, Several,
    VhostUser,
};
use lab::millrace::{Files, Millrace};
use lab::switch::{PortKind, Running, Setup, SwitchKind, SwitchPort, Unavailable};
use lab::{Error, Result};
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
    fn configuration(&self, setup: &Setup<'_>) -> Result<RawFile> {
        let wan = setup.ports.iter().position(|port| matches!(port, SwitchPort::Interface(_)));
        let names: Vec<String> = (0..setup.ports.len()).map(|number| format!("port{number}")).collect();
        let mut ports = Vec::new();
        for (number, (port, name)) in setup.ports.iter().zip(&names).enumerate() {
            let port = match port {
                SwitchPort::VhostUser(path) => {
                    written::port(name, VhostUser { socket: written::socket(path), ..VhostUser::default() })
                }
                SwitchPort::Interface(interface) => written::af_xdp(name, interface),
                SwitchPort::Netmap(name) | SwitchPort::VirtualFunction(name) => {
                    return Err(Error::malformed(format!("the port {name}"), "Millrace has no such ports"));
                }
            };
            ports.push(self.joining(port, Some(number) == wan));
        }
        let (patches, bridge) = match self.mode {
            Mode::Patch => (names.chunks_exact(2).map(|pair| written::patch(&pair[0], &pair[1])).collect(), None),
            Mode::Mapped if names.len() <= 2 => (Vec::new(), None),
            _ => {
                let openflow = (self.mode == Mode::Openflow).into();
                (Vec::new(), Some(RawBridge { openflow, ..written::bridge("br0", &names) }))
            }
        };
        let (mut mapping, mut aggregation, mut openflow) = (None, None, None);
        match (self.mode, wan) {
            (Mode::Mapped, Some(wan)) => {
                let joined = if names.len() > 2 { written::mapping } else { written::pass_through };
                mapping = Some(joined(&names[wan], &names[0]));
            }
            (Mode::Aggregated, Some(_)) => aggregation = Some(joining(setup.host)),
            (Mode::Openflow, _) => {
                let listen = [channel(setup.directory)].into_iter().collect();
                openflow = Some(RawOpenflow { listen, ..RawOpenflow::default() });
            }
            (Mode::Mapped | Mode::Aggregated, None) => {
                return Err(Error::malformed("the ports", format!("{} needs an interface", self.name())));
            }
            _ => {}
        }
        let idle = if self.mode == Mode::Sleep { Idle::Sleep } else { Idle::Poll };
        let workers: Vec<_> = setup.processors.iter().map(|&cpu| idle.worker(cpu)).collect();
        // A mode says what is copied.
        let off = written::Acceleration::Off;
        Ok(written::file((ports, patches, bridge, mapping, aggregation, openflow, workers, off)))
    }

    /// Returns a port with the keys of the mode.
    fn joining(&self, port: RawPort, is_wan: bool) -> RawPort {
        match (self.mode, is_wan) {
            (Mode::Aggregated, true) => {
                RawPort { aggregate: true.into(), trunk: Several::List(vec![i64::from(CHAIN).into()]).into(), ..port }
            }
            (Mode::Aggregated, false) => RawPort { vlan: i64::from(CHAIN).into(), ..port },
            (Mode::Roles, true) => {
                RawPort { rx_sharing: RxSharing::StaticRole.into(), workers: [0, 1].into_iter().collect(), ..port }
            }
            _ => port,
        }
    }
}

/// Returns the address of the socket for controllers.
fn channel(directory: &Path) -> String {
    format!("unix:{}", directory.join(OPENFLOW).display())
}

/// Returns the section by which the switch of this host joins packets to that of the other one, of two.
fn joining(host: u8) -> RawAggregation {
    let [own, other] = [1 + host, 2 - host].map(|host| (format!("02:00:00:00:01:0{host}"), format!("192.0.2.{host}")));
    RawAggregation {
        next_hops: vec![written::next_hop(1, &other.0, &other.1).into()],
        flows: vec![written::flow(CHAIN.into(), 1).into()],
        ..written::aggregation(&own.0, &own.1)
    }
}

impl SwitchKind for Bridge {
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
        let text = self.configuration(setup)?.text();
        let files = Files::named(setup.directory, "millrace");
        let surroundings = Surroundings { namespace: Some(setup.namespace), ..Surroundings::default() };
        let millrace = millrace::start(&self.program, files, &text, surroundings, setup.interrupt)?;
        let openflow = (self.mode == Mode::Openflow).then(|| channel(setup.directory));
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
        self.millrace.stats()
    }
}

impl Running for RunningBridge {
    fn check(&mut self) -> Result<()> {
        self.millrace.daemon.check("the end of the run")
    }

    fn is_up(&mut self) -> Result<bool> {
        Ok(self.snapshot()?.ports.iter().all(|port| port.up))
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.millrace.daemon.pid()]
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
        let interrupt = Interrupt::never();
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
            crate::millrace::assert_takes(Bridge::new(mode, Path::new("millrace")).configuration(&setup).unwrap());
        }
    }
}
