//! Programs: the changes and outputs that the data path applies to the packets of a flow.

use crate::action::Action;
use crate::ofp::port;

/// The actions of a flow, up to each output: a packet may change between two outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The steps; without any, packets are dropped.
    pub steps: Box<[Step]>,
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
    /// Where a learning bridge sends it.
    Normal,
    /// All controllers.
    Controller {
        /// Whether they get its bytes, too.
        whole: bool,
    },
}

impl To {
    /// Returns what an output action to this number means; `None` if it is no output of a flow.
    pub fn of(number: u32, max_len: u16) -> Option<To> {
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
    /// Returns the program of a list of actions. Changes after the last output have no effect.
    pub fn of(actions: &[Action]) -> Program {
        let mut steps = Vec::new();
        let mut before = Vec::new();
        for action in actions {
            match *action {
                Action::Output { port, max_len } => {
                    let actions = std::mem::take(&mut before).into();
                    steps.extend(To::of(port, max_len).map(|to| Step { actions, to }));
                }
                change => before.push(change),
            }
        }
        Program { steps: steps.into() }
    }

    /// Returns the program that drops packets.
    pub fn drop() -> Program {
        Program { steps: [].into() }
    }

    /// Returns the program that sends packets there, unchanged.
    pub fn single(to: To) -> Program {
        Program { steps: [Step { actions: [].into(), to }].into() }
    }

    /// Returns the only output, if packets go there unchanged.
    #[inline(always)]
    pub fn only(&self) -> Option<To> {
        match &self.steps[..] {
            [step] if step.actions.is_empty() => Some(step.to),
            _ => None,
        }
    }
}
