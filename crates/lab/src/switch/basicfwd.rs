//! DPDK's smallest example, which passes frames between paired ports.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::contract::{PortKind, Running, Setup, SwitchKind, Unavailable};
use super::sockets::Sockets;
use crate::process::{self, Daemon, Launch};
use crate::steps::Steps;
use crate::{Error, Result, dpdk, output_of};

/// Its source, where Debian puts it.
const SOURCE: &str = "/usr/share/dpdk/examples/skeleton/basicfwd.c";

/// Time limit for it to set up its ports, on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// DPDK's Basic Forwarding Sample Application, compiled at its first start.
#[derive(Default)]
pub struct BasicForwarding {
    program: Mutex<Option<Program>>,
}

/// The compiled program.
struct Program {
    /// The commands that compiled it.
    steps: Steps,
    path: PathBuf,
    _directory: TempDir,
}

impl SwitchKind for BasicForwarding {
    fn name(&self) -> &'static str {
        "basicfwd"
    }

    fn about(&self) -> &'static str {
        "DPDK's Basic Forwarding Sample Application: passes frames between paired ports, in a few lines of C"
    }

    fn ports(&self) -> &'static [PortKind] {
        &[PortKind::VhostUser]
    }

    fn learns(&self) -> bool {
        false
    }

    fn processors(&self) -> usize {
        1
    }

    fn megabytes(&self) -> u64 {
        dpdk::MEGABYTES
    }

    fn available(&self) -> std::result::Result<String, Unavailable> {
        if !Path::new(SOURCE).is_file() {
            return Err(Unavailable(format!("there is no {SOURCE}: it is in Debian's package dpdk-doc")));
        }
        let missing = |error| {
            Unavailable(format!(
                "it can't be compiled; this needs Debian's packages gcc, pkg-config and libdpdk-dev: {error}"
            ))
        };
        output_of(Command::new("cc").arg("--version")).map_err(missing)?;
        let version = output_of(Command::new("pkg-config").args(["--modversion", "libdpdk"])).map_err(missing)?;
        Ok(format!("DPDK {}", String::from_utf8_lossy(&version).trim()))
    }

    /// Runs it as its guide says (sample applications, "Basic Forwarding Sample Application"): on one processor, with an even
    /// number of ports.
    fn start(&self, setup: &Setup<'_>) -> Result<Box<dyn Running>> {
        let sockets = Sockets::only(setup, self.name())?;
        let (program, mut steps) = self.program()?;
        let mut arguments = vec!["--lcores".to_owned(), format!("0@{}", setup.processors[0])];
        arguments.extend(["--no-pci", "--no-telemetry"].map(str::to_owned));
        arguments.extend(setup.pages.arguments().iter().map(|&argument| argument.to_owned()));
        arguments.extend(["-m".to_owned(), self.megabytes().to_string()]);
        for (number, socket) in sockets.paths().enumerate() {
            arguments.extend(["--vdev".to_owned(), dpdk::VhostPort::new(socket).device(number, 1)]);
        }
        let program = program.display().to_string();
        steps.add(process::line(&program, &arguments));
        let mut command = Command::new("stdbuf");
        command.args(["-oL", &program]).args(&arguments).env("RUNTIME_DIRECTORY", setup.directory);
        // Its other threads run on the processors that it may use, other than the one that it polls on.
        let launch = Launch::measured(self.name(), setup.interrupt).pin(&[setup.processors[0], setup.others]);
        let mut daemon = launch.spawn(command)?;
        daemon.wait_for_line("its start", LIMIT, |line| line.contains("forwarding packets"))?;
        Ok(Box::new(Forwarding { daemon, steps, sockets }))
    }
}

impl BasicForwarding {
    /// Returns the program, with the commands that compiled it.
    fn program(&self) -> Result<(PathBuf, Steps)> {
        let mut program = self.program.lock().unwrap_or_else(PoisonError::into_inner);
        let program = match &mut *program {
            Some(program) => program,
            none => none.insert(Program::compile()?),
        };
        Ok((program.path.clone(), program.steps.clone()))
    }
}

impl Program {
    /// Compiles the source unchanged, with the options that DPDK's Makefile for it has.
    fn compile() -> Result<Program> {
        let directory = tempfile::Builder::new().prefix("basicfwd-").tempdir();
        let directory = directory.map_err(Error::io("creating a temporary directory"))?;
        let path = directory.path().join("basicfwd");
        let options = |kind: &str| -> Result<Vec<String>> {
            let said = output_of(Command::new("pkg-config").args([kind, "libdpdk"]))?;
            Ok(String::from_utf8_lossy(&said).split_ascii_whitespace().map(str::to_owned).collect())
        };
        let program = path.display().to_string();
        output_of(
            Command::new("cc")
                .arg("-O3")
                .args(options("--cflags")?)
                .args([SOURCE, "-o", &program])
                .args(options("--libs")?),
        )?;
        let mut steps = Steps::default();
        steps.add(format!("cc -O3 $(pkg-config --cflags libdpdk) {SOURCE} -o {program} $(pkg-config --libs libdpdk)"));
        Ok(Program { steps, path, _directory: directory })
    }
}

struct Forwarding {
    // Ends before its sockets.
    daemon: Daemon,
    steps: Steps,
    sockets: Sockets,
}

impl Running for Forwarding {
    fn check(&mut self) -> Result<()> {
        self.daemon.check("the end of a measurement")
    }

    /// It says nothing, but DPDK's library does when a guest has set up its rings.
    fn is_up(&mut self) -> Result<bool> {
        let is_ready = |socket: &Path| {
            let socket = format!("({})", socket.display());
            let ready = |line: &str| line.contains(&socket) && line.contains("virtio is now ready");
            self.daemon.log().find(0, ready).is_some()
        };
        Ok(self.sockets.paths().all(is_ready))
    }

    fn processes(&self) -> Vec<u32> {
        vec![self.daemon.pid()]
    }

    fn commands(&self) -> Vec<String> {
        self.steps.lines()
    }
}
