//! Progress of a packet through the tables.

use super::path::Path;
use super::table::Flows;
use crate::drops::Reason;
use openflow::{Action, FORWARDING, FlowId, Rule, SetKey, To};

/// The way of one packet: the flows of its path and, at the end, the actions that they have written.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::forward) struct Walk {
    /// Destination of a packet without a path.
    only: Option<To>,
    path: Path,
    /// The flow of the path that the packet is at, and the next of its steps.
    at: usize,
    step: usize,
    /// Whether the flow's meter has measured the packet.
    is_measured: bool,
    /// The packet's metadata.
    pub(in crate::forward) metadata: u64,
    /// Slots of the flows that have written actions, since they were last cleared.
    writers: [u32; FORWARDING as usize],
    written: usize,
    /// The last action of the set that was run, once the tables are left.
    set: Option<SetKey>,
    /// Whether the packet was sent anywhere.
    is_sent: bool,
    over: bool,
}

/// The next thing to be done with a packet.
pub(in crate::forward) enum Next<'f> {
    /// Change it, and then send it there, if anywhere, for a flow.
    Act { changes: &'f [Action], to: Option<To>, rule: &'f Rule },
    /// Measure it by the meter of this number.
    Measure(u32),
    /// Look it up in this table.
    LookUp(u8),
    /// Nothing any more.
    End,
}

impl Walk {
    /// Begins the way of a packet.
    pub(in crate::forward) fn begin(path: Path) -> Walk {
        Walk { path, ..Walk::default() }
    }

    /// Begins the way of a packet that is only to be sent there.
    pub(in crate::forward) fn sending(to: To) -> Walk {
        Walk { only: Some(to), ..Walk::default() }
    }

    /// Continues along another path.
    pub(in crate::forward) fn go_on(&mut self, path: Path) {
        (self.path, self.at, self.step, self.is_measured) = (path, 0, 0, false);
    }

    /// Returns the reason for which a packet that has ended is dropped; none, if it was sent anywhere.
    pub(in crate::forward) fn drop_reason(&self, flows: &Flows) -> Option<Reason> {
        let missed = self.path.slots().last().is_none_or(|slot| flows.rule(*slot).flow == FlowId::NONE);
        (!self.is_sent).then_some(if missed { Reason::NoFlow } else { Reason::FlowDrop })
    }

    /// Returns the next thing to be done.
    #[inline]
    pub(in crate::forward) fn next<'f>(&mut self, flows: &'f Flows) -> Next<'f> {
        if let Some(to) = self.only.take() {
            return self.send(&[], to, flows.no_flow());
        }
        while !self.over {
            let Some(slot) = self.path.slots().get(self.at).copied() else {
                return match self.path.next {
                    Some(table) => Next::LookUp(table),
                    None => self.next_of_set(flows),
                };
            };
            let rule = flows.rule(slot);
            if let Some(meter) = rule.program.meter
                && !std::mem::replace(&mut self.is_measured, true)
            {
                return Next::Measure(meter);
            }
            if let Some(step) = rule.program.steps.get(self.step) {
                self.step += 1;
                return self.send(&step.actions, step.to, rule);
            }
            self.leave(slot, rule);
            if !rule.program.rest.is_empty() {
                return Next::Act { changes: &rule.program.rest, to: None, rule };
            }
        }
        Next::End
    }

    fn send<'f>(&mut self, changes: &'f [Action], to: To, rule: &'f Rule) -> Next<'f> {
        self.is_sent = true;
        Next::Act { changes, to: Some(to), rule }
    }

    /// Leaves a flow, whose other instructions take effect.
    fn leave(&mut self, slot: u32, rule: &Rule) {
        (self.at, self.step, self.is_measured) = (self.at + 1, 0, false);
        let program = &rule.program;
        if program.clears {
            self.written = 0;
        }
        if !program.written.is_empty()
            && let Some(writer) = self.writers.get_mut(self.written)
        {
            *writer = slot;
            self.written += 1;
        }
        self.metadata = program.metadata_after(self.metadata);
    }

    /// Returns the next action of the set. Of each kind, the one that was written last counts.
    fn next_of_set<'f>(&mut self, flows: &'f Flows) -> Next<'f> {
        let mut next: Option<(SetKey, &'f Action, &'f Rule)> = None;
        for slot in &self.writers[..self.written] {
            let rule = flows.rule(*slot);
            let later = |action: &&Action| self.set.is_none_or(|set| action.set_key() > set);
            let Some(action) = rule.program.written.iter().find(later) else { continue };
            let key = action.set_key();
            if next.is_none_or(|(least, ..)| key <= least) {
                next = Some((key, action, rule));
            }
        }
        let Some((key, action, rule)) = next else {
            self.over = true;
            return Next::End;
        };
        self.set = Some(key);
        // A group has the place of an output (Section 5.10).
        self.over = matches!(action, Action::Group(_) | Action::Output { .. });
        match To::of(action) {
            Some(to) => self.send(&[], to, rule),
            None => Next::Act { changes: std::slice::from_ref(action), to: None, rule },
        }
    }
}
