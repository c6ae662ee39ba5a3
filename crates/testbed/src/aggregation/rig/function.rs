//! The network function: nf-forward with two ports, and packets joined in one place or another.

use super::node::Rules;
use super::place::Place;
use super::{Rig, RigError};
use crate::millrace::Idle;
use crate::surroundings::Surroundings;
use clap::ValueEnum;
use lab::process::{Daemon, Launch};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Time limit for connecting, and for stopping.
const LIMIT: Duration = Duration::from_secs(15);

/// Size of its queues.
const QUEUE: u16 = 1024;

/// Where packets are split and joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Nowhere: all of them travel alone
    None,
    /// In the switch, for a function that knows nothing of it
    Vhost,
    /// In the function's library
    Nf,
    /// In the function's library, but the function reads aggregates as they are
    Native,
}

impl Placement {
    /// Reports whether the switch splits and joins.
    pub fn in_switch(self) -> bool {
        self == Placement::Vhost
    }

    /// Reports whether the function splits and joins.
    pub fn in_function(self) -> bool {
        matches!(self, Placement::Nf | Placement::Native)
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Placement::None => "none",
            Placement::Vhost => "vhost",
            Placement::Nf => "nf",
            Placement::Native => "native",
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
pub struct Function {
    daemon: Daemon,
}

impl Function {
    /// Starts it between the ports `left` and `right` of a node ([`super::Port::guest`]), and waits until it is connected.
    pub fn start(rig: &Rig, placement: Placement, rules: Rules, place: Place) -> Result<Function, RigError> {
        let surroundings = Surroundings { namespace: None, priority: place.priority };
        let mut command = surroundings.command(Path::new("taskset"));
        command.args(["--cpu-list", &place.cpu.to_string()]).arg(&rig.function);
        command.args([rig.file("left.sock"), rig.file("right.sock")]).args(["--queue-size", &QUEUE.to_string()]);
        if place.idle == Idle::Poll {
            command.arg("--poll");
        }
        if placement.in_function() {
            let file = rig.file("function.toml");
            let failed = |source| RigError::System { action: "the function's rules can't be written", source };
            std::fs::write(&file, rules.section(Some("right"))).map_err(failed)?;
            command.arg("--aggregation").arg(file);
        }
        if placement == Placement::Native {
            command.arg("--native");
        }
        let mut daemon = Launch::measured("nf-forward", rig.interrupt()).spawn(command)?;
        // This is its last line before it runs.
        daemon.wait_for_line("its ports", LIMIT, |line| line.starts_with("memory:"))?;
        Ok(Function { daemon })
    }

    /// Returns the process.
    pub fn daemon(&mut self) -> &mut Daemon {
        &mut self.daemon
    }

    /// Stops it, and returns its counters.
    pub fn stop(self) -> Result<Processed, RigError> {
        let seconds = self.daemon.cpu_time()?.as_secs_f64();
        let lines = self.daemon.last_words(LIMIT)?;
        Ok(Processed { seconds, ..processed(&lines) })
    }
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
    fn its_last_words_are_understood() {
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
