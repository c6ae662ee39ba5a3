//! The network function, with two ports, and packets joined in one place or another: nf-forward, or testpmd.

use super::node::NodeNumbers;
use super::scheduling::Scheduling;
use super::{Rig, RigError};
use crate::millrace::Idle;
use crate::surroundings::Surroundings;
use clap::ValueEnum;
use lab::dpdk::{self, Lcores, Sandbox, Testpmd};
use lab::millrace::config::Configuration;
use lab::process::{Daemon, Launch};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Time limit for connecting, and for stopping.
const LIMIT: Duration = Duration::from_secs(15);

/// Size of its queues.
const QUEUE: u16 = 1024;

/// Name of its rules among the rig's files.
const RULES: &str = "function.toml";

/// A program that passes packets on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// That of the nf library
    #[default]
    NfForward,
    /// DPDK's, unmodified
    Testpmd,
}

impl Program {
    /// Returns the huge pages that it needs, in MiB.
    pub fn megabytes(self) -> u64 {
        match self {
            Program::NfForward => 0,
            Program::Testpmd => dpdk::MEGABYTES,
        }
    }

    /// Reports whether packets can be split and joined there for it.
    pub fn takes(self, placement: Placement) -> bool {
        match placement {
            Placement::None | Placement::Vhost => true,
            Placement::Nf | Placement::Native => self == Program::NfForward,
            Placement::Ethdev => self == Program::Testpmd,
        }
    }
}

/// Where packets are split and joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Nowhere: all of them travel alone
    None,
    /// In the switch, for a function that does not know of aggregates
    Vhost,
    /// In the function's library
    Nf,
    /// In the function's library, but the function reads aggregates as they are
    Native,
    /// In the driver net_paflow below an unmodified DPDK application
    Ethdev,
}

impl Placement {
    /// Reports whether the switch splits and joins.
    pub fn in_switch(self) -> bool {
        self == Placement::Vhost
    }

    /// Reports whether the function splits and joins.
    pub fn in_function(self) -> bool {
        matches!(self, Placement::Nf | Placement::Native | Placement::Ethdev)
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Placement::None => "none",
            Placement::Vhost => "vhost",
            Placement::Nf => "nf",
            Placement::Native => "native",
            Placement::Ethdev => "ethdev",
        })
    }
}

/// Counters of the function from its start to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Processed {
    /// Packets sent on its second port.
    pub packets: u64,
    /// Frames that they were in.
    pub frames: u64,
    /// Packets received on its first port.
    pub received: u64,
    /// Packets dropped because the queue was full.
    pub full: u64,
    /// Processor time in seconds.
    pub seconds: f64,
}

/// The running function.
pub enum Function {
    /// nf-forward.
    NfForward(Daemon),
    /// testpmd.
    Testpmd(Box<Testpmd>),
}

impl Function {
    /// Starts it between the ports `left` and `right` of a node ([`super::guest`]), and waits until it is connected.
    pub fn start(
        rig: &Rig,
        program: Program,
        placement: Placement,
        numbers: NodeNumbers,
        scheduling: Scheduling,
    ) -> Result<Function, RigError> {
        if placement.in_function() {
            let failed = |source| RigError::System { action: "the function's rules can't be written", source };
            std::fs::write(rig.file(RULES), numbers.behind(Some("right")).text()).map_err(failed)?;
        }
        match program {
            Program::NfForward => nf_forward(rig, placement, scheduling).map(Function::NfForward),
            Program::Testpmd => testpmd(rig, placement, scheduling).map(|testpmd| Function::Testpmd(Box::new(testpmd))),
        }
    }

    /// Returns the process.
    pub fn daemon(&mut self) -> &mut Daemon {
        match self {
            Function::NfForward(daemon) => daemon,
            Function::Testpmd(testpmd) => testpmd.daemon(),
        }
    }

    /// Stops it, and returns its counters.
    pub fn stop(self) -> Result<Processed, RigError> {
        match self {
            Function::NfForward(daemon) => {
                let seconds = daemon.cpu_time()?.as_secs_f64();
                Ok(Processed { seconds, ..processed(&daemon.last_words(LIMIT)?) })
            }
            Function::Testpmd(mut testpmd) => {
                let seconds = testpmd.daemon().cpu_time()?.as_secs_f64();
                let full = dropped(&testpmd.stop()?);
                let (stats, named) = (testpmd.stats()?, testpmd.named_stats()?);
                testpmd.quit(LIMIT)?;
                let [left, right] = stats[..] else {
                    return Err(lab::Error::malformed("testpmd's statistics", format!("{} ports", stats.len())).into());
                };
                let packets = right.tx_packets;
                // Only the driver that joins counts frames.
                let frames = named.get(1).and_then(|named| named.get("tx_frames")).copied().unwrap_or(packets);
                Ok(Processed { packets, frames, received: left.rx_packets, full, seconds })
            }
        }
    }
}

fn nf_forward(rig: &Rig, placement: Placement, scheduling: Scheduling) -> Result<Daemon, RigError> {
    let surroundings = Surroundings { namespace: None, priority: scheduling.priority };
    let mut command = surroundings.command(Path::new("taskset"));
    command.args(["--cpu-list", &scheduling.cpu.to_string()]).arg(&rig.function);
    command.args([rig.file("left.sock"), rig.file("right.sock")]).args(["--queue-size", &QUEUE.to_string()]);
    if scheduling.idle == Idle::Poll {
        command.arg("--poll");
    } else if scheduling.priority.is_some() {
        // Programs of lower priority wait for it to sleep.
        command.arg("--sleep=at-once");
    }
    if placement.in_function() {
        command.arg("--aggregation").arg(rig.file(RULES));
    }
    if placement == Placement::Native {
        command.arg("--native");
    }
    let mut daemon = Launch::measured("nf-forward", rig.interrupt()).spawn(command)?;
    // This is its last line before it runs.
    daemon.wait_for_line("its ports", LIMIT, |line| line.starts_with("memory:"))?;
    Ok(daemon)
}

fn testpmd(rig: &Rig, placement: Placement, scheduling: Scheduling) -> Result<Testpmd, RigError> {
    let port = |name: &str| {
        let port = dpdk::Port::new(rig.file(&format!("{name}.sock"))).in_order().queue_size(QUEUE);
        if placement == Placement::Ethdev { port.aggregating(RULES, name) } else { port }
    };
    // It always polls, so it has no priority: programs that share its processor run first, and sleep.
    let lcores = Lcores { forwarding: scheduling.cpu, others: Some(scheduling.cpu) };
    let mut builder = Testpmd::builder("function").port(port("left")).port(port("right")).lcores(lcores);
    builder = builder.memory(rig.pages, dpdk::MEGABYTES).sandbox(Sandbox::None).measured(rig.interrupt());
    if placement == Placement::Ethdev {
        builder = builder.plugin(&rig.plugin()?);
    }
    let mut testpmd = builder.spawn_ready()?;
    testpmd.start()?;
    Ok(testpmd)
}

/// Parses testpmd's summary: the packets that it dropped because a queue was full.
fn dropped(lines: &[String]) -> u64 {
    let all = lines.iter().skip_while(|line| !line.contains("Accumulated forward statistics"));
    let number = |line: &String| line.split_once("TX-dropped:")?.1.split_whitespace().next()?.parse().ok();
    all.filter_map(number).next().unwrap_or(0)
}

/// Parses the last lines of nf-forward.
fn processed(lines: &[String]) -> Processed {
    let mut found = Processed::default();
    let mut port = "";
    for line in lines {
        let before = |word: &str| -> Option<u64> { line.split_once(word)?.0.rsplit([' ', ',']).next()?.parse().ok() };
        let socket = |name: &str| line.contains(&format!("{name}.sock: "));
        if socket("left") || socket("right") {
            port = if socket("left") { "left" } else { "right" };
        }
        match (port, before(" received"), before(" sent"), before(" frames sent")) {
            ("left", Some(received), ..) => found.received = received,
            ("right", _, Some(packets), _) => {
                found.packets = packets;
                found.frames = packets;
                found.full = before(" dropped as").unwrap_or(0);
            }
            ("right", .., Some(frames)) => found.frames = frames,
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn testpmd_reports_its_drops() {
        let summary = "  TX-packets: 5   TX-dropped: 1  TX-total: 6\n  +++ Accumulated forward statistics for all ports +++\n\
                       RX-packets: 9\n  TX-packets: 5             TX-dropped: 4             TX-total: 9";
        let lines: Vec<String> = summary.lines().map(str::to_owned).collect();
        assert_eq!((dropped(&lines), dropped(&[])), (4, 0));
    }

    #[test]
    fn its_final_lines_are_parsed() {
        let lines = "/t/left.sock: split rings, features 0x123
memory: 4 MB
/t/left.sock: 220 received, 0 sent, 0 dropped as the queue was full, 0 malformed
  10 frames received, 0 frames sent
/t/right.sock: 0 received, 216 sent, 4 dropped as the queue was full, 0 malformed
  0 frames received, 12 frames sent
  dropped, x: 3";
        let lines: Vec<String> = lines.lines().map(str::to_owned).collect();
        let expected = Processed { packets: 216, frames: 12, received: 220, full: 4, seconds: 0.0 };
        assert_eq!(processed(&lines), expected);
        let plain: Vec<String> = lines.into_iter().filter(|line| !line.contains("frames")).collect();
        assert_eq!(processed(&plain), Processed { frames: 216, ..expected });
    }
}
