//! Description of the machine and its software, without which figures mean little.

use loadgen::cycles;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

/// Machine and software of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Processors that this program may use.
    pub cores: usize,
    /// Release of the kernel.
    pub kernel: String,
    /// Frequency of the cycle counter.
    pub tsc_ghz: f64,
    /// Version of DPDK and of the program that uses it, if it took part.
    pub dpdk: Option<String>,
    /// Version of Millrace's sources, if available.
    pub commit: Option<String>,
    /// Date and time, UTC.
    pub date: String,
    /// The other machine, if there are two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<Box<Machine>>,
}

impl Machine {
    /// Detects this machine, now; `millrace` is a program within its sources.
    pub fn detect(millrace: &Path) -> Machine {
        let cpu = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| model(&text));
        Machine {
            cpu: cpu.unwrap_or_else(|| "unknown processor".to_owned()),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            tsc_ghz: cycles::frequency() / 1e9,
            dpdk: None,
            commit: commit_of(millrace),
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            other: None,
        }
    }

    /// Returns the day.
    pub fn day(&self) -> &str {
        self.date.split('T').next().unwrap_or_default()
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} cores, Linux {}, TSC {:.2} GHz", self.cpu, self.cores, self.kernel, self.tsc_ghz)?;
        if let Some(dpdk) = &self.dpdk {
            write!(f, ", {dpdk}")?;
        }
        if let Some(commit) = &self.commit {
            write!(f, ", commit {commit}")?;
        }
        write!(f, ", {}", self.date)
    }
}

fn model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"))?;
    Some(line.trim_start_matches([' ', '\t', ':']).to_owned())
}

/// Returns the version of the sources that a program lies within.
pub fn commit_of(program: &Path) -> Option<String> {
    let directory = program.parent().unwrap_or(Path::new("."));
    let mut git = Command::new("git");
    // Change nothing in the repository, not even the time of its index.
    git.env("GIT_OPTIONAL_LOCKS", "0").args(["describe", "--always", "--dirty", "--exclude=*"]).current_dir(directory);
    let output = git.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_found() {
        let text = "processor\t: 0\nmodel\t\t: 167\nmodel name\t: A Processor @ 2 GHz\nmodel name\t: B\n";
        assert_eq!(model(text).as_deref(), Some("A Processor @ 2 GHz"));
    }
}
