//! DPDK's testpmd, driven through its console: the switch that Millrace is compared with, or a load.

use super::hugepages::Pages;
use super::interrupt::Interrupt;
use super::program::{Program, ProgramError};
use super::ring::Ring;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// Time limit for setting up its ports, and for a command.
const LIMIT: Duration = Duration::from_secs(30);

/// Memory that it uses, in MiB.
pub const MEGABYTES: u64 = 512;

/// Bursts of 32 frames that each port of a load sends at the start; they circulate forever.
const BURSTS: u32 = 8;

/// A running testpmd.
pub struct Testpmd {
    program: Program,
    fences: u32,
    /// Directory of DPDK's files of a process.
    _directory: TempDir,
}

/// Processors of its threads: one forwards, the other reads commands.
#[derive(Clone, Copy, Debug)]
pub struct Lcores {
    /// Polls all the time.
    pub forwarding: usize,
    /// Sleeps nearly all the time.
    pub console: usize,
}

impl Testpmd {
    /// Starts a switch with a vhost-user port on each socket, and waits until it forwards. With a wire, the first port is the
    /// driver of the NIC there, with rings of this format.
    pub fn switch(
        sockets: &[PathBuf; 2],
        wire: Option<Ring>,
        lcores: Lcores,
        pages: Pages,
        interrupt: &Interrupt,
    ) -> Result<Testpmd, ProgramError> {
        let device = |(number, socket): (usize, &PathBuf)| match wire {
            Some(ring) if number == 0 => driver(number, socket, ring),
            _ => format!("net_vhost{number},iface={},queues=1", socket.display()),
        };
        let devices: Vec<String> = sockets.iter().enumerate().map(device).collect();
        let mut testpmd = Testpmd::start("the testpmd switch", &devices, lcores, pages, interrupt)?;
        testpmd.command("start")?;
        Ok(testpmd)
    }

    /// Starts a load with a port on each of the switch's sockets, between which frames of `size` bytes circulate.
    pub fn load(
        sockets: &[PathBuf; 2],
        (ring, size): (Ring, u16),
        lcores: Lcores,
        pages: Pages,
        interrupt: &Interrupt,
    ) -> Result<Testpmd, ProgramError> {
        let device = |(number, socket): (usize, &PathBuf)| driver(number, socket, ring);
        let devices: Vec<String> = sockets.iter().enumerate().map(device).collect();
        let mut testpmd = Testpmd::start("the testpmd load", &devices, lcores, pages, interrupt)?;
        testpmd.command(&format!("set txpkts {size}"))?;
        testpmd.command(&format!("start tx_first {BURSTS}"))?;
        Ok(testpmd)
    }

    fn start(
        name: &str,
        devices: &[String],
        lcores: Lcores,
        pages: Pages,
        interrupt: &Interrupt,
    ) -> Result<Testpmd, ProgramError> {
        let failed =
            |source| ProgramError::System { name: name.into(), action: "making a temporary directory", source };
        let directory = tempfile::Builder::new().prefix("testbed-dpdk-").tempdir().map_err(failed)?;
        // Its output is a pipe; without stdbuf it would arrive in blocks of 4 KiB.
        let mut command = Command::new("stdbuf");
        command
            .args(["-oL", "dpdk-testpmd", "--lcores", &format!("0@{},1@{}", lcores.console, lcores.forwarding)])
            .args(["--no-pci", "--no-telemetry", "-v"])
            .args(pages.arguments())
            .args(["-m", &MEGABYTES.to_string()])
            .env("RUNTIME_DIRECTORY", directory.path());
        for device in devices {
            command.args(["--vdev", device]);
        }
        command.args(["--", "-i", "--no-mlockall", "--total-num-mbufs=16384", "--forward-mode=io"]);
        command.args(["--txd=256", "--rxd=256", "--burst=32", "--record-core-cycles"]);
        let program = Program::start(name, command, interrupt)?;
        let mut testpmd = Testpmd { program, fences: 0, _directory: directory };
        testpmd.fence("its prompt")?;
        Ok(testpmd)
    }

    /// Runs a command to its end; returns the lines printed in between.
    fn command(&mut self, command: &str) -> Result<Vec<String>, ProgramError> {
        let from = self.program.output().len();
        self.program.say(command)?;
        let to = self.fence(command)?;
        Ok(self.program.output()[from..to.max(from)].to_vec())
    }

    /// Sends a comment, which is echoed once everything before it is done; returns the echo's line number. A prompt would do,
    /// but it has no newline.
    fn fence(&mut self, what: &str) -> Result<usize, ProgramError> {
        self.fences += 1;
        let fence = format!("# fence {}.", self.fences);
        self.program.say(&fence)?;
        self.program.wait_for(what, LIMIT, |p| p.output().iter().position(|line| line.contains(&fence)))
    }

    /// Returns the number of frames received so far, all ports together.
    pub fn received(&mut self) -> Result<u64, ProgramError> {
        Ok(received(&self.command("show port stats all")?))
    }

    /// Returns the cycles per frame in rounds that moved frames, since the last call.
    pub fn take_cycles(&mut self) -> Result<Option<f64>, ProgramError> {
        let cycles = cycles(&self.command("show fwd stats all")?);
        self.command("clear fwd stats all")?;
        Ok(cycles)
    }

    /// Returns DPDK's version, as printed at its start.
    pub fn version(&self) -> Option<String> {
        version(&self.program.errors()).or_else(|| version(&self.program.output()))
    }

    /// Returns the process.
    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }
}

/// Returns the arguments of the driver side of a virtio device.
pub fn driver(number: usize, socket: &Path, ring: Ring) -> String {
    let (socket, packed) = (socket.display(), u8::from(ring == Ring::Packed));
    format!("net_virtio_user{number},path={socket},queue_size=256,mrg_rxbuf=1,in_order=1,packed_vq={packed}")
}

fn cycles(lines: &[String]) -> Option<f64> {
    let line = lines.iter().find_map(|line| line.split_once("CPU cycles/packet="))?.1;
    line.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.parse().ok()
}

fn received(lines: &[String]) -> u64 {
    let numbers = lines.iter().filter_map(|line| line.split_once("RX-packets:")?.1.split_ascii_whitespace().next());
    numbers.filter_map(|number| number.parse::<u64>().ok()).sum()
}

fn version(lines: &[String]) -> Option<String> {
    let line = lines.iter().find_map(|line| line.split_once("RTE Version:"))?;
    Some(line.1.trim().trim_matches('\'').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_is_understood() {
        let text = "EAL: RTE Version: 'DPDK 22.11.11'
  ######################## NIC statistics for port 0  ########################
  RX-packets: 11         RX-missed: 12         RX-bytes:  13
  RX-errors: 14
  ######################## NIC statistics for port 1  ########################
  RX-packets: 31         RX-missed: 0          RX-bytes:  0";
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(received(&lines), 42);
        assert_eq!(version(&lines).as_deref(), Some("DPDK 22.11.11"));
        assert_eq!((received(&[]), version(&[])), (0, None));
        let line = "  CPU cycles/packet=52.70 (busy cycles=4576043 / total io packets=86832) at 2000 MHz Clock";
        assert_eq!((cycles(&[line.to_owned()]), cycles(&[])), (Some(52.7), None));
    }
}
