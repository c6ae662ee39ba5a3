//! The rules of one port.

use paflow::AggregationRules;
use paflow::plan::Room;
use settings::aggregation::{LoadError, load_for_one_port};
use std::path::Path;

/// The rules of a port.
#[derive(Debug)]
pub struct PortRules {
    pub(crate) rules: AggregationRules,
    /// By next hop of the rules: the room in an aggregate; none if the next hop is behind another port.
    pub(crate) rooms: Vec<Room>,
    mtu: u16,
}

impl PortRules {
    /// Loads the section `[aggregation]` of `file` for the port with this name.
    pub fn load(file: &Path, port: &str) -> Result<PortRules, LoadError> {
        let loaded = load_for_one_port(file)?;
        let rules = AggregationRules::new(&loaded.spec(), std::iter::empty());
        Ok(PortRules { rooms: rules.hops.iter().map(|hop| hop.room(port)).collect(), rules, mtu: loaded.mtu })
    }

    /// Returns the longest payload of an Ethernet frame with an aggregate.
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Returns the number of next hops that packets are joined for at this port.
    pub fn next_hops(&self) -> usize {
        self.rooms.iter().filter(|room| room.bytes > 0).count()
    }
}

/// Describes the error, on a line for each problem.
pub fn explain(error: &LoadError) -> String {
    match error {
        LoadError::Invalid(report) => report.lines().collect::<Vec<_>>().join("\n"),
        LoadError::Read { .. } => error.to_string(),
    }
}
