//! The switches of a path, and a guest at each end of it.

use super::fate::Side;
use crate::millrace;
use crate::surroundings::Surroundings;
use engine::stats::Snapshot;
use lab::Result;
use lab::guest::{self, Guest};
use lab::millrace::config::Configuration;
use lab::millrace::{Files, Millrace};
use lab::process::Interrupt;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names of the guests' ports, and of their sockets.
pub const ENDS: [&str; 2] = ["left", "right"];

/// The program, directory and interrupt with which a path is set up.
pub struct Workspace<'p> {
    /// Millrace's program.
    pub program: &'p Path,
    /// Directory for the files of this path alone.
    pub directory: &'p Path,
    /// Ends every wait.
    pub interrupt: &'p Interrupt,
}

impl Workspace<'_> {
    /// Returns the path of a socket.
    pub fn socket(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.sock"))
    }

    /// Starts a switch, and waits until it answers.
    pub fn start(&self, name: &str, configuration: impl Configuration) -> Result<Millrace> {
        let files = Files::named(self.directory, name);
        millrace::start(self.program, files, configuration, Surroundings::default(), self.interrupt)
    }

    /// Connects a guest to each end of the path through these switches, and waits until all ports are up. Frames are of at most
    /// `longest` bytes.
    pub fn connect(&self, switches: Vec<Millrace>, longest: usize) -> Result<Rig> {
        let options = |end: &str| guest::Options::new(self.socket(end)).longest(longest as u32);
        // One ring format each.
        let guests = [options(ENDS[0]).connect()?, options(ENDS[1]).packed().connect()?];
        switches.iter().try_for_each(|switch| switch.wait_all_up(|| self.interrupt.check()))?;
        let mut rig = Rig { guests, switches, dropped_before: BTreeMap::new() };
        rig.dropped_before = rig.counted()?.dropped;
        Ok(rig)
    }
}

/// A path that is set up.
pub struct Rig {
    // They leave before the switches end.
    guests: [Guest; 2],
    switches: Vec<Millrace>,
    /// Frames dropped before the first one was sent.
    dropped_before: BTreeMap<String, u64>,
}

impl Rig {
    /// Returns a guest.
    pub fn guest(&mut self, side: Side) -> &mut Guest {
        &mut self.guests[side]
    }

    /// Fails if a switch has ended, or a signal has arrived.
    pub fn check(&mut self) -> Result<()> {
        self.switches.iter_mut().try_for_each(|switch| switch.daemon.check("the frames"))
    }

    /// Returns the switches' counts since before the first frame.
    pub fn counted(&self) -> Result<Counted> {
        let mut counted = Counted::default();
        for switch in &self.switches {
            let Snapshot { ports, aggregation, .. } = switch.stats()?;
            for (reason, count) in ports.into_iter().flat_map(|port| port.drops) {
                *counted.dropped.entry(reason).or_default() += count;
            }
            for next_hop in aggregation.into_iter().flat_map(|aggregation| aggregation.next_hops) {
                counted.aggregates += next_hop.aggregates;
                counted.joined += next_hop.packets;
            }
        }
        for (reason, before) in &self.dropped_before {
            counted.dropped.entry(reason.clone()).and_modify(|count| *count -= before);
        }
        counted.dropped.retain(|_, count| *count > 0);
        Ok(counted)
    }
}

/// Counters of a path's switches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Frames dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Aggregates sent.
    pub aggregates: u64,
    /// Frames in them.
    pub joined: u64,
}
