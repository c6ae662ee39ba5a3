//! The simulator: it is built from `sim/` when it is needed, as it needs ns-3, and run once for each case and way.

use super::case::Case;
use super::counts::Counts;
use super::error::SimulateError;
use super::topology::Network;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program.
pub struct Program(PathBuf);

impl Program {
    /// Builds the program from these sources, unless it is up to date.
    pub fn build(sources: &Path) -> Result<Program, SimulateError> {
        let makefile = sources.join("Makefile");
        let lock = File::open(&makefile).map_err(|_| SimulateError::Sources(makefile))?;
        // Two builds at once would write the same files.
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| SimulateError::Lock(error.into()))?;
        for (program, package) in [("g++", "g++"), ("pkg-config", "pkg-config"), ("make", "make")] {
            let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
            found.map_err(|source| SimulateError::Tool { program, package, source })?;
        }
        let ns3 =
            Command::new("pkg-config").args(["--exists", "ns3-core", "ns3-network", "ns3-point-to-point"]).status();
        if !ns3.is_ok_and(|status| status.success()) {
            return Err(SimulateError::Ns3);
        }
        eprintln!("make -C {}", sources.display());
        let make = Command::new("make").args(["--silent", "--jobs=2", "--directory"]).arg(sources).output();
        let output = make.map_err(SimulateError::Run)?;
        if !output.status.success() {
            return Err(SimulateError::Build(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        Ok(Program(sources.join("build/simulate")))
    }

    /// Simulates a case, and checks that no packet disappeared.
    pub fn run(&self, case: &Case, network: &Network, aggregate: bool) -> Result<Counts, SimulateError> {
        let mut child = Command::new(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(SimulateError::Run)?;
        // It reads all before it writes anything; its message about a wrong scenario matters more than the fact that it
        // stopped reading.
        let mut input = child.stdin.take().expect("it is piped");
        let _ = input.write_all(case.scenario(network, aggregate).as_bytes());
        drop(input);
        let output = child.wait_with_output().map_err(SimulateError::Run)?;
        if !output.status.success() {
            let said = format!("{}, {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
            return Err(SimulateError::Failed { case: case.to_string(), said });
        }
        let counts: Counts = serde_json::from_slice(&output.stdout).map_err(SimulateError::Counts)?;
        let Counts { sent, delivered, lost, .. } = counts;
        if sent != delivered + lost {
            return Err(SimulateError::Conservation { case: case.to_string(), sent, delivered, lost });
        }
        Ok(counts)
    }
}
