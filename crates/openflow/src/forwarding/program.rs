//! Programs: the changes and outputs that the data path applies to the packets of a flow.

use crate::flows::{Action, Instructions};
use crate::wire::ofp::port;

/// A flow's instructions for the data path, which does them in the order of these fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The meter that measures packets first, and may drop them.
    pub meter: Option<u32>,
    /// The actions that are applied at once, up to each output: a packet may change between two outputs.
    pub steps: Box<[Step]>,
    /// The changes after the last output, which matter if the packet goes on.
    pub rest: Box<[Action]>,
    /// Whether the action set is cleared first.
    pub clears: bool,
    /// Actions that are written to the packet's action set, in its order.
    pub written: Box<[Action]>,
    /// Value and mask that are written to the packet's metadata.
    pub metadata: Option<(u64, u64)>,
    /// The next table; at the last one, the action set is run.
    pub next: Option<u8>,
}

/// Changes of a packet, and where it goes then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The changes, in their order.
    pub actions: Box<[Action]>,
    /// The output.
    pub to: To,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// The port of this number.
    Port(u32),
    /// The port that the packet came from.
    InPort,
    /// All ports but that one.
    Flood,
    /// The group of this number.
    Group(u32),
    /// Where a learning bridge sends it.
    Normal,
    /// All controllers.
    Controller {
        /// Whether they also get its bytes.
        whole: bool,
    },
}

impl To {
    /// Returns where an action of a flow sends packets; `None` if it changes them.
    pub fn of(action: &Action) -> Option<To> {
        let (number, max_len) = match *action {
            Action::Output { port, max_len } => (port, max_len),
            Action::Group(id) => return Some(To::Group(id)),
            _ => return None,
        };
        Some(match number {
            port::IN_PORT => To::InPort,
            // Without a spanning tree the two are the same.
            port::FLOOD | port::ALL => To::Flood,
            port::NORMAL => To::Normal,
            port::CONTROLLER => To::Controller { whole: max_len != 0 },
            1..=port::MAX => To::Port(number),
            _ => return None,
        })
    }
}

impl Program {
    /// Returns the program of a list of actions.
    pub fn of(actions: &[Action]) -> Program {
        let mut steps = Vec::new();
        let mut before = Vec::new();
        for action in actions {
            match To::of(action) {
                Some(to) => steps.push(Step { actions: std::mem::take(&mut before).into(), to }),
                None => before.push(*action),
            }
        }
        Program { steps: steps.into(), rest: before.into(), ..Program::default() }
    }

    /// Returns the program of a flow's instructions.
    pub fn from(instructions: &Instructions) -> Program {
        Program {
            meter: instructions.meter,
            clears: instructions.clears,
            written: instructions.written[..].into(),
            metadata: instructions.metadata,
            next: instructions.next,
            ..Program::of(&instructions.applied)
        }
    }

    /// Returns the program that drops packets: it also clears their action sets.
    pub fn drop() -> Program {
        Program { clears: true, ..Program::default() }
    }

    /// Returns the program that sends packets there, unchanged.
    pub fn single(to: To) -> Program {
        Program { steps: [Step { actions: [].into(), to }].into(), ..Program::default() }
    }

    /// Estimates the bytes of its actions.
    pub fn bytes(&self) -> usize {
        let actions =
            self.steps.iter().map(|step| step.actions.len()).sum::<usize>() + self.rest.len() + self.written.len();
        actions * size_of::<Action>() + self.steps.len() * size_of::<Step>()
    }

    /// Reports whether it leaves all packets as they are, and drops none by a meter.
    pub fn keeps(&self) -> bool {
        self.meter.is_none() && self.rest.is_empty() && self.steps.iter().all(|step| step.actions.is_empty())
    }

    /// Returns the metadata after it.
    #[inline(always)]
    pub fn metadata_after(&self, before: u64) -> u64 {
        self.metadata.map_or(before, |(value, mask)| before & !mask | value & mask)
    }
}
