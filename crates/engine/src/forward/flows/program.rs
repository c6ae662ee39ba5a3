//! Actions of flows, prepared so that a worker has little to decide.

use openflow::ofp::port;
use openflow::{Action, Rule};

/// Steps to run for a packet. A packet without steps is dropped.
pub(crate) struct Program {
    pub(in crate::forward) steps: Box<[Step]>,
    /// Whether this is the program of a flow, and not of packets without one.
    pub(in crate::forward) is_flow: bool,
    /// Description of the flow for controllers.
    pub(in crate::forward) cookie: u64,
    pub(in crate::forward) is_miss: bool,
}

/// Some changes, and then an output of the changed packet.
pub(crate) struct Step {
    pub(in crate::forward) actions: Box<[Action]>,
    pub(in crate::forward) to: To,
}

/// Output of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// To the port with this number, unless it came from there.
    Port(u32),
    /// To the port that it came from.
    InPort,
    /// To all ports but the one that it came from.
    Flood,
    /// Where a learning bridge would send it.
    Normal,
    /// To the controllers: none of its bytes, or all.
    Controller { whole: bool },
}

impl To {
    /// Returns the output for this port number; `None` if packets cannot go there.
    pub(super) fn of(number: u32, max_len: u16) -> Option<To> {
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
    pub(super) fn of(rule: &Rule) -> Program {
        let mut steps = Vec::new();
        let mut before = Vec::new();
        for action in &rule.actions[..] {
            match *action {
                Action::Output { port, max_len } => {
                    let actions = std::mem::take(&mut before).into();
                    steps.extend(To::of(port, max_len).map(|to| Step { actions, to }));
                }
                change => before.push(change),
            }
        }
        // Changes after the last output have no effect.
        Program { steps: steps.into(), is_flow: true, cookie: rule.cookie, is_miss: rule.is_miss }
    }

    /// Returns a program with one output of the unchanged packet.
    pub(in crate::forward) fn single(to: To) -> Program {
        Program { steps: [Step { actions: [].into(), to }].into(), ..Program::none() }
    }

    /// Returns an empty program.
    pub(super) fn none() -> Program {
        Program { steps: [].into(), is_flow: false, cookie: u64::MAX, is_miss: false }
    }

    /// Returns the output of a program that only outputs the unchanged packet.
    #[inline(always)]
    pub(in crate::forward) fn only(&self) -> Option<To> {
        match &self.steps[..] {
            [step] if step.actions.is_empty() => Some(step.to),
            _ => None,
        }
    }
}
