//! The switches that are measured.

use super::error::PortsError;
use super::options::Ports;
use crate::millrace::Idle;
use api::request::{PortAdd, PortDel};
use client::{Client, keys};
use lab::dpdk::{Lcores, Pages, VhostPort};
use lab::guest::{Guest, Options};
use lab::millrace::config::{self, Configuration, Generator, bridge, file, port, sink, stationed, vhost_user};
use lab::millrace::{Files, Millrace, Start};
use lab::netns::Namespace;
use lab::ovs::{self, Ovs};
use lab::process::{Interrupt, Launch};
use lab::{Error, Result, output_of};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// The bridge of all ports.
const BRIDGE: &str = "br0";

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// A program that is measured.
#[derive(Clone, Debug)]
pub enum Program {
    /// Millrace, with its name in the results.
    Millrace(&'static str, PathBuf),
    /// Open vSwitch with DPDK.
    Ovs,
}

impl Program {
    /// Returns its name in the results.
    pub fn name(&self) -> &'static str {
        match self {
            Program::Millrace(name, _) => name,
            Program::Ovs => "Open vSwitch",
        }
    }

    /// Returns the programs to measure, and those that cannot be measured here, with reasons.
    pub fn all(options: &Ports) -> std::result::Result<(Vec<Program>, Option<String>), PortsError> {
        let mut programs = vec![Program::Millrace("Millrace", crate::millrace::program(options.millrace.as_deref())?)];
        if let Some(against) = &options.against {
            programs.push(Program::Millrace("against", crate::millrace::program(Some(against))?));
        }
        let missing = match ovs::Build::Dpdk.available(Pages::for_dpdk(ovs::MEGABYTES)) {
            Ok(_) => None,
            Err(why) => Some(format!("Open vSwitch was left out: {why}")),
        };
        if missing.is_none() {
            programs.push(Program::Ovs);
        }
        Ok((programs, missing))
    }
}

/// A running switch with one bridge.
pub struct Subject {
    running: Running,
    directory: TempDir,
}

enum Running {
    Millrace(Millrace),
    Ovs(Ovs),
}

/// Who makes the calls.
pub enum Caller {
    /// A client that stays connected to Millrace.
    Client(Client),
    /// A process for each call: the program of the switch.
    Process,
}

impl Subject {
    /// Starts a switch with these ports of guests in its bridge. Its files are on a disk: what calls keep is written there.
    pub fn start(program: &Program, names: &[String], options: &Ports, interrupt: &Interrupt) -> StartResult {
        Subject::start_with(program, names, options, interrupt, false)
    }

    /// Does the same; Millrace's worker has frames to forward in each round.
    pub fn start_busy(program: &Program, names: &[String], options: &Ports, interrupt: &Interrupt) -> StartResult {
        Subject::start_with(program, names, options, interrupt, true)
    }

    fn start_with(
        program: &Program,
        names: &[String],
        options: &Ports,
        interrupt: &Interrupt,
        busy: bool,
    ) -> StartResult {
        let directory = tempfile::Builder::new().prefix("testbed-").tempdir().map_err(PortsError::Directory)?;
        let running = match program {
            Program::Millrace(_, path) => {
                Running::Millrace(start_millrace(path, directory.path(), names, options, interrupt, busy)?)
            }
            Program::Ovs => Running::Ovs(start_ovs(directory.path(), names, options, interrupt)?),
        };
        Ok(Subject { running, directory })
    }

    /// Returns the callers to measure, by their names.
    pub fn callers(program: &Program) -> Vec<(String, bool)> {
        match program {
            Program::Millrace(name, _) => {
                vec![(format!("{name}, a client"), true), (format!("{name}, `millrace ctl`"), false)]
            }
            Program::Ovs => vec![("Open vSwitch, `ovs-vsctl`".to_owned(), false)],
        }
    }

    /// Returns a caller that stays connected, or one that starts a process for each call.
    pub fn caller(&self, stays: bool) -> Result<Caller> {
        match &self.running {
            Running::Millrace(switch) if stays => Ok(Caller::Client(connect(switch)?)),
            _ => Ok(Caller::Process),
        }
    }

    /// Adds a port to the bridge.
    pub fn add(&mut self, caller: &mut Caller, name: &str) -> Result<()> {
        let socket = format!("{name}.sock");
        match (&mut self.running, caller) {
            (_, Caller::Client(client)) => {
                let keys = keys([("name", name), ("driver", "vhost-user"), ("socket", &socket), ("bridge", BRIDGE)]);
                client.call(&PortAdd { keys }).map(drop).map_err(Error::other("adding a port"))
            }
            (Running::Millrace(switch), Caller::Process) => {
                let arguments = ["port", "add", name, "--vhost-user", &socket, "--bridge", BRIDGE];
                output_of(&mut switch.control(&arguments)).map(drop)
            }
            (Running::Ovs(switch), Caller::Process) => {
                let path = format!("options:vhost-server-path={}", self.directory.path().join(&socket).display());
                let arguments = ["add-port", BRIDGE, name, "--", "set", "Interface", name, "type=dpdkvhostuserclient"];
                output_of(switch.settings().args(arguments).arg(path)).map(drop)
            }
        }
    }

    /// Removes a port from the bridge.
    pub fn remove(&mut self, caller: &mut Caller, name: &str) -> Result<()> {
        match (&mut self.running, caller) {
            (_, Caller::Client(client)) => {
                client.call(&PortDel { name: name.into() }).map(drop).map_err(Error::other("removing a port"))
            }
            (Running::Millrace(switch), Caller::Process) => {
                output_of(&mut switch.control(&["port", "del", name])).map(drop)
            }
            (Running::Ovs(switch), Caller::Process) => {
                output_of(switch.settings().args(["del-port", BRIDGE, name])).map(drop)
            }
        }
    }

    /// Connects a guest with small memory to a port that was there at the start.
    pub fn connect(&self, name: &str) -> Result<Guest> {
        let socket = self.directory.path().join(format!("{name}.sock"));
        Options::new(socket).queue_size(64).longest(1514).connect()
    }

    /// Waits until guests are connected to all ports that were there at the start.
    pub fn wait_up(&mut self, names: &[String], interrupt: &Interrupt) -> Result<()> {
        match &mut self.running {
            Running::Millrace(switch) => switch.wait_up(&names.iter().map(String::as_str).collect::<Vec<_>>()),
            Running::Ovs(switch) => {
                while !switch.is_up()? {
                    interrupt.sleep(LOOK)?;
                }
                Ok(())
            }
        }
    }

    /// Returns the ids of its processes.
    pub fn processes(&self) -> Vec<u32> {
        match &self.running {
            Running::Millrace(switch) => vec![switch.daemon.pid()],
            Running::Ovs(switch) => switch.processes(),
        }
    }

    /// Returns the nanoseconds of a round of the thread that forwards, over this time: of Millrace a round with frames, which a switch
    /// started as busy makes only, and of Open vSwitch an iteration without.
    pub fn round(&mut self, time: Duration, tsc_ghz: f64, interrupt: &Interrupt) -> Result<f64> {
        match &mut self.running {
            Running::Millrace(switch) => {
                let counted = || {
                    let worker = switch.stats()?.workers.swap_remove(0);
                    Ok::<_, Error>((worker.busy_cycles, worker.busy_rounds))
                };
                let before = counted()?;
                interrupt.sleep(time)?;
                let after = counted()?;
                Ok((after.0 - before.0) as f64 / (after.1 - before.1) as f64 / tsc_ghz)
            }
            Running::Ovs(_) => {
                Err(Error::malformed("Open vSwitch", "its thread makes no rounds as long as there is no port"))
            }
        }
    }
}

/// A switch, or why it did not start.
type StartResult = std::result::Result<Subject, PortsError>;

fn start_millrace(
    program: &Path,
    directory: &Path,
    names: &[String],
    options: &Ports,
    interrupt: &Interrupt,
    busy: bool,
) -> Result<Millrace> {
    let files = Files::named(directory, "millrace");
    let kept = directory.join("ports.d");
    std::fs::create_dir(&kept).map_err(Error::io("making a directory for ports"))?;
    files.configure_keeping(configuration(names, options, busy), &kept)?;
    // The worker pins itself to its own processor.
    let mut command = std::process::Command::new("taskset");
    command.args(["--cpu-list", &options.control_cpu.to_string()]).arg(program);
    let start = Start::new(program).by(command).arguments(&["--log", "error"]);
    start.launch(Launch::measured("Millrace", interrupt)).start(files)
}

fn configuration(names: &[String], options: &Ports, busy: bool) -> impl Configuration {
    let mut ports: Vec<_> = names.iter().map(|name| vhost_user(name)).collect();
    let mut members = names.to_vec();
    let mut known = vec![];
    if busy {
        ports.extend([port("source", Generator::default()), sink("sink")]);
        members.extend(["source", "sink"].map(str::to_owned));
        // The address that generated frames go to.
        known.push(stationed("02:00:00:00:00:02", "sink"));
    }
    let bridge = config::RawBridge { statics: known.into_iter().map(Into::into).collect(), ..bridge(BRIDGE, members) };
    file((ports, bridge, Idle::Poll.worker(options.worker_cpu)))
}

fn start_ovs(directory: &Path, names: &[String], options: &Ports, interrupt: &Interrupt) -> Result<Ovs> {
    let socket = |name: &String| VhostPort::new(directory.join(format!("{name}.sock")));
    Ovs::start(&ovs::Options {
        build: ovs::Build::Dpdk,
        directory,
        // The switch stays in it, and it ends with the switch.
        namespace: &Namespace::create()?,
        ports: &names.iter().map(|name| ovs::Port::Dpdk(socket(name).into())).collect::<Vec<_>>(),
        forwarding: ovs::Forwarding::Learning,
        lcores: Lcores { forwarding: options.worker_cpu, others: Some(options.control_cpu) },
        segments: false,
        interrupt,
    })
}

fn connect(switch: &Millrace) -> Result<Client> {
    Client::connect(&switch.files().control).map_err(Error::other("connecting to Millrace"))
}
