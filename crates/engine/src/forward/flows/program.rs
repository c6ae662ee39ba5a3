//! What flows do, put so that a worker has little to decide.

use openflow::ofp::port;
use openflow::{Action, Rule};

/// What is done to a packet, step by step. Nothing means to drop it.
pub(crate) struct Program {
    pub(super) steps: Box<[Step]>,
    /// It is a flow's, and not that of packets without one.
    pub(super) is_flow: bool,
    /// What controllers are told of the flow.
    pub(super) cookie: u64,
    pub(super) is_miss: bool,
}

/// Some changes, and then an output of the packet as it is by then.
pub(crate) struct Step {
    pub(super) actions: Box<[Action]>,
    pub(super) to: To,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// To the port with this number, unless it came from there.
    Port(u32),
    /// Back to where it came from.
    InPort,
    /// To all ports but the one that it came from.
    Flood,
    /// Where a learning bridge would send it.
    Normal,
    /// To the controllers: nothing of it, or all.
    Controller { whole: bool },
}

impl To {
    /// The output port of this number; none if packets can't go there.
    pub(super) fn of(number: u32, max_len: u16) -> Option<To> {
        Some(match number {
            port::IN_PORT => To::InPort,
            // There is no spanning tree that would tell the two apart.
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
        // What is changed behind the last output, nobody sees.
        Program { steps: steps.into(), is_flow: true, cookie: rule.cookie, is_miss: rule.is_miss }
    }

    /// One output of the packet as it is.
    pub(super) fn single(to: To) -> Program {
        Program { steps: [Step { actions: [].into(), to }].into(), ..Program::none() }
    }

    /// Nothing.
    pub(super) fn none() -> Program {
        Program { steps: [].into(), is_flow: false, cookie: u64::MAX, is_miss: false }
    }

    /// The only thing that is done, if that is an output of the packet as it is.
    #[inline(always)]
    pub(super) fn only(&self) -> Option<To> {
        match &self.steps[..] {
            [step] if step.actions.is_empty() => Some(step.to),
            _ => None,
        }
    }
}
