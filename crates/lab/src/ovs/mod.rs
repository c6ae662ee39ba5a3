//! Open vSwitch with its datapath in user space, with DPDK or without, as a switch that Millrace is compared with.
//!
//! It shares nothing with the system's Open vSwitch: its database, sockets and files are in a directory of the measurement, and
//! it runs in a namespace of the measurement, with which the taps end that it creates for each bridge.

mod control;
mod limits;
mod output;
mod ports;

pub use limits::MEGABYTES;
pub use ports::{Forwarding, Port};

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dpdk::{Lcores, Pages};
use crate::netns::Namespace;
use crate::process::{self, Daemon, Interrupt, Launch};
use crate::steps::Steps;
use crate::{Error, Result, output_of};
use control::Control;
use limits::LIMIT;

/// Error that keeps Open vSwitch from being used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Unavailable {
    #[error("there is no {program}: it is in Debian's package {package}")]
    Program { program: &'static str, package: &'static str },
    #[error("{0}")]
    Version(Error),
    #[error("Open vSwitch needs {MEGABYTES} MB of free huge pages; as root: sysctl vm.nr_hugepages=1024")]
    HugePages,
}

/// Build of the switch. Both forward in user space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// With DPDK.
    Dpdk,
    /// Without DPDK: it forwards with sockets of the kernel.
    Sockets,
}

impl Build {
    /// Returns its program, which may be in no PATH.
    fn program(self) -> &'static str {
        match self {
            Build::Dpdk => "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
            Build::Sockets => "/usr/lib/openvswitch-switch/ovs-vswitchd",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Build::Dpdk => "openvswitch-switch-dpdk",
            Build::Sockets => "openvswitch-switch",
        }
    }

    /// Checks that its requirements are met; returns its version.
    pub fn available(self, pages: Pages) -> std::result::Result<String, Unavailable> {
        let (program, package) = (self.program(), self.package());
        if !Path::new(program).is_file() {
            return Err(Unavailable::Program { program, package });
        }
        if self == Build::Dpdk && pages == Pages::Normal {
            return Err(Unavailable::HugePages);
        }
        let said = output_of(Command::new(program).arg("--version")).map_err(Unavailable::Version)?;
        let said: Vec<String> = String::from_utf8_lossy(&said).lines().map(str::to_owned).collect();
        Ok(output::version(&said).unwrap_or_else(|| said.join(", ")))
    }
}

/// The conditions under which Open vSwitch starts.
pub struct Options<'o> {
    /// Build of the switch.
    pub build: Build,
    /// Directory for its files, where the sockets of its ports are.
    pub directory: &'o Path,
    /// Namespace that it runs in, where its interfaces are.
    pub namespace: &'o Namespace,
    /// Its ports.
    pub ports: &'o [Port],
    /// Forwarding of frames.
    pub forwarding: Forwarding,
    /// Processors of its threads. Its other threads share the forwarding thread's processor unless this says otherwise; without
    /// DPDK, all threads do.
    pub lcores: Lcores,
    /// Whether guests may leave checksums and segments to it, with DPDK ("Userspace Datapath - TSO" in its manual).
    pub segments: bool,
    /// Flag that ends the measurement.
    pub interrupt: &'o Interrupt,
}

/// A running Open vSwitch.
pub struct Ovs {
    // Ends first, before its database.
    switch: Daemon,
    control: Control,
    database: Daemon,
    programs: Programs,
    ports: usize,
    /// Its bridge's socket for controllers.
    bridge: PathBuf,
}

/// Its programs, which find each other in a directory.
struct Programs {
    /// These set the place of database, schema and sockets.
    environment: Vec<(&'static str, String)>,
    interrupt: Interrupt,
    steps: Steps,
}

impl Programs {
    fn new(directory: &Path, interrupt: &Interrupt) -> Programs {
        let variables = ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR", "RUNTIME_DIRECTORY"];
        let environment: Vec<_> = variables.map(|variable| (variable, directory.display().to_string())).to_vec();
        let mut steps = Steps::default();
        let set: Vec<String> = environment.iter().map(|(variable, value)| format!("{variable}={value}")).collect();
        steps.add(process::line("export", &set));
        Programs { environment, interrupt: interrupt.clone(), steps }
    }

    /// Runs a program to its end.
    fn run(&mut self, program: &str, arguments: &[String]) -> Result<()> {
        let daemon = self.spawn(program, Command::new(program), arguments, &[])?;
        daemon.succeed(LIMIT)
    }

    /// Starts a program by `command` on these processors, or on any.
    fn spawn(&mut self, program: &str, mut command: Command, arguments: &[String], cores: &[usize]) -> Result<Daemon> {
        self.steps.add(process::line(program, arguments));
        command.args(arguments).envs(self.environment.iter().cloned());
        Launch::measured(program, &self.interrupt).pin(cores).spawn(command)
    }
}

impl Ovs {
    /// Starts a switch that forwards between its ports, and waits until it does.
    pub fn start(options: &Options<'_>) -> Result<Ovs> {
        let &Options { build, directory, namespace, ports, forwarding, lcores, segments, interrupt } = options;
        check_sockets(directory, ports)?;
        let with_dpdk = build == Build::Dpdk;
        let mut programs = Programs::new(directory, interrupt);
        programs.run("ovsdb-tool", &["create".to_owned()])?;
        let socket = directory.join("db.sock");
        let arguments = ["--no-chdir".to_owned(), format!("--remote=punix:{}", socket.display())];
        let mut database = programs.spawn("ovsdb-server", Command::new("ovsdb-server"), &arguments, &[])?;
        database.wait_for("its socket", LIMIT, || UnixStream::connect(&socket).ok())?;
        let mut settings = ["--no-wait", "init"].map(str::to_owned).to_vec();
        if with_dpdk {
            settings.extend(["--", "set", "Open_vSwitch", "."].map(str::to_owned));
            settings.extend(ports::dpdk_settings(lcores));
            settings.extend(segments.then(|| "other_config:userspace-tso-enable=true".to_owned()));
        }
        programs.run("ovs-vsctl", &settings)?;

        let socket = directory.join("ovs-vswitchd.ctl");
        let arguments = ["--no-chdir".to_owned(), format!("--unixctl={}", socket.display())];
        // DPDK places its threads itself.
        let cores = if with_dpdk { Vec::new() } else { vec![lcores.forwarding] };
        let program = build.program();
        let mut switch = programs.spawn(program, namespace.command(program), &arguments, &cores)?;
        let versions = [output::DPDK_VERSION, output::OWN_VERSION];
        for part in if with_dpdk { &versions[..] } else { &versions[1..] } {
            switch.wait_for_line("its start", LIMIT, |line| line.contains(part))?;
        }
        // From here on, dropping it ends it with its taps.
        let bridge = directory.join("br0.mgmt");
        let mut ovs = Ovs { switch, control: Control::at(socket), database, programs, ports: ports.len(), bridge };
        ovs.programs.run("ovs-vsctl", &ports::bridge(ports, forwarding, with_dpdk))?;
        if forwarding == Forwarding::Pairs {
            for flow in ports::pairs(ports.len()) {
                ovs.programs.run("ovs-ofctl", &["add-flow".to_owned(), "br0".to_owned(), flow])?;
            }
        }
        Ok(ovs)
    }

    /// Reports whether all ports have links: of a vhost-user port, whether a guest is connected.
    pub fn is_up(&mut self) -> Result<bool> {
        let mut command = Command::new("ovs-ofctl");
        let said = output_of(command.args(["show", "br0"]).envs(self.programs.environment.iter().cloned()))?;
        Ok(output::have_links(&String::from_utf8_lossy(&said), self.ports))
    }

    /// Returns the cycles per frame in rounds that moved frames, since the last call. It does not count without DPDK.
    pub fn take_cycles(&mut self) -> Result<Option<f64>> {
        let call = |method| self.control.call(method, &[]).map_err(Error::io("asking Open vSwitch for its counters"));
        let cycles = output::cycles(&call("dpif-netdev/pmd-stats-show")?);
        call("dpif-netdev/pmd-stats-clear")?;
        Ok(cycles)
    }

    /// Returns a command that runs `ovs-vsctl`: it changes the database, and waits until the switch is as the database says.
    pub fn settings(&self) -> Command {
        let mut command = Command::new("ovs-vsctl");
        command.arg(format!("--timeout={}", LIMIT.as_secs())).envs(self.programs.environment.iter().cloned());
        command
    }

    /// Returns where `ovs-ofctl` finds its bridge.
    pub fn openflow(&self) -> String {
        format!("unix:{}", self.bridge.display())
    }

    /// Returns its own version and DPDK's, as printed at its start.
    pub fn version(&self) -> Option<String> {
        output::version(&self.switch.log().since(0))
    }

    /// Returns the process that forwards.
    pub fn daemon(&mut self) -> &mut Daemon {
        &mut self.switch
    }

    /// Returns the ids of its processes, first that of the one that forwards.
    pub fn processes(&self) -> Vec<u32> {
        vec![self.switch.pid(), self.database.pid()]
    }

    /// Returns the command lines that started it and set it up.
    pub fn commands(&self) -> Vec<String> {
        self.programs.steps.lines()
    }
}

impl Drop for Ovs {
    fn drop(&mut self) {
        // It removes its taps only if it is asked so. If it does not answer, its guard ends it.
        if self.control.call("exit", &["--cleanup"]).is_ok() {
            let _ = self.switch.wait(LIMIT);
        }
    }
}

/// Checks that the sockets are where the switch makes them.
fn check_sockets(directory: &Path, ports: &[Port]) -> Result<()> {
    let elsewhere = ports.iter().filter_map(Port::socket).find(|socket| socket.parent() != Some(directory));
    elsewhere.map_or(Ok(()), |socket| {
        let problem = format!("Open vSwitch makes its sockets in {}", directory.display());
        Err(Error::malformed(format!("the socket {}", socket.display()), problem))
    })
}
