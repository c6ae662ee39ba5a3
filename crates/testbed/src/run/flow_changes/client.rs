//! The controller: `ovs-ofctl`, which sends each flow with a barrier and waits for its answer.

use lab::{Error, Result, output_of};
use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Changes of flows, a line each.
pub struct Flows(String);

/// A controller of one switch.
pub struct Client {
    address: String,
    file: PathBuf,
}

impl Flows {
    /// Returns the flow that lets all packets pass as through a learning bridge.
    pub fn normal() -> Flows {
        Flows("priority=1,actions=NORMAL\n".to_owned())
    }

    /// Returns the addition of flows that no packet of the load matches. They have two masks.
    pub fn added(numbers: Range<u32>) -> Flows {
        Flows::of(numbers, "add", ",actions=drop")
    }

    /// Returns the removal of these flows.
    pub fn deleted(numbers: Range<u32>) -> Flows {
        Flows::of(numbers, "delete_strict", "")
    }

    fn of(numbers: Range<u32>, command: &str, actions: &str) -> Flows {
        let mut text = String::new();
        for number in numbers {
            let [_, b, c, d] = number.to_be_bytes();
            let mask = if number % 2 == 0 { "" } else { ",tp_src=53" };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{command} priority=10,udp,nw_dst=172.{b}.{c}.{d}{mask}{actions}");
        }
        Flows(text)
    }
}

impl Client {
    /// Creates a controller of the switch at this address, with its files in `directory`.
    pub fn new(address: &str, directory: &Path) -> Client {
        Client { address: address.to_owned(), file: directory.join("flows.txt") }
    }

    /// Makes changes, and returns how long they took.
    pub fn change(&self, flows: &Flows) -> Result<Duration> {
        std::fs::write(&self.file, &flows.0).map_err(Error::io("writing flows"))?;
        let mut command = Command::new("ovs-ofctl");
        command.args(["-O", "OpenFlow13", "-t", "600", "add-flows", &self.address]).arg(&self.file);
        let began = Instant::now();
        output_of(&mut command)?;
        Ok(began.elapsed())
    }
}
