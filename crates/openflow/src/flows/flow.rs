//! A flow: its match, its instructions, its counters and its end; and filters of flows.

use super::instruction::Instructions;
use super::matching::Match;
use crate::time::Millis;
use crate::wire::ofp::port;

/// A flow, with its counters and times.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The packets that it applies to.
    pub matches: Match,
    /// Its priority: of several flows that match, the highest one applies.
    pub priority: u16,
    /// The controller's own mark.
    pub cookie: u64,
    /// Flags of the FLOW_MOD that added it.
    pub flags: u16,
    /// Seconds without a packet after which it expires; 0 for never.
    pub idle_timeout: u16,
    /// Seconds after which it expires; 0 for never.
    pub hard_timeout: u16,
    /// Its instructions.
    pub instructions: Instructions,
    /// Time at which it was added.
    pub created: Millis,
    /// Time of its last packet; before the first one, the time at which it was added.
    pub used: Millis,
    /// Number of packets that it was applied to.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
}

/// The flows that a request selects (Section 6.4).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    pub matches: Match,
    /// Priority, if only the flow of this priority and exactly this match is selected.
    pub strict: Option<u16>,
    pub cookie: u64,
    pub cookie_mask: u64,
    pub out_port: u32,
    pub out_group: u32,
}

impl Filter {
    pub fn means(&self, flow: &Flow) -> bool {
        let matches = match self.strict {
            Some(priority) => flow.priority == priority && flow.matches == self.matches,
            None => flow.matches.is_within(&self.matches),
        };
        matches
            && (flow.cookie ^ self.cookie) & self.cookie_mask == 0
            && (self.out_port == port::ANY || flow.instructions.sends_to(self.out_port))
            && (self.out_group == port::ANY || flow.instructions.groups().any(|group| group == self.out_group))
    }
}

/// A flow that was removed.
pub(crate) struct Removed {
    /// Its table.
    pub table: u8,
    pub flow: Flow,
    pub reason: Removal,
}

/// The reason why a flow was removed (Section 7.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The names say it.
pub enum Removal {
    IdleTimeout = 0,
    HardTimeout = 1,
    Delete = 2,
    GroupDelete = 3,
}
