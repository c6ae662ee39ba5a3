//! The flows that apply to a packet, from table to table.

use openflow::{Action, Rule, To};

/// Flows of a path at most; a longer way is several paths.
const LONGEST: usize = 6;

/// The flows of packets with one key, in their order. A packet whose headers change on the way needs another key from there on,
/// and has another path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::forward) struct Path {
    slots: [u32; LONGEST],
    len: u8,
    /// The table where the next path begins.
    pub(in crate::forward) next: Option<u8>,
    /// The only output, if packets go there unchanged.
    pub(in crate::forward) only: Option<To>,
}

impl Path {
    pub(super) fn push(&mut self, slot: u32) {
        self.slots[usize::from(self.len)] = slot;
        self.len += 1;
    }

    pub(super) fn is_full(&self) -> bool {
        usize::from(self.len) == LONGEST
    }

    #[inline(always)]
    pub(in crate::forward) fn slots(&self) -> &[u32] {
        &self.slots[..usize::from(self.len).min(LONGEST)]
    }

    /// Notes the only output, if there is one.
    pub(super) fn settle<'r>(&mut self, rule: impl Fn(u32) -> &'r Rule) {
        if self.next.is_some() {
            return;
        }
        let mut outputs = 0;
        let mut only = None;
        let mut set: &[Action] = &[];
        for slot in self.slots() {
            let program = &rule(*slot).program;
            if !program.keeps() {
                return;
            }
            for step in &program.steps {
                outputs += 1;
                only = Some(step.to);
            }
            if program.clears {
                set = &[];
            }
            if !program.written.is_empty() {
                if !set.is_empty() {
                    return;
                }
                set = &program.written;
            }
        }
        match *set {
            [] => {}
            [action] => {
                outputs += 1;
                only = To::of(&action);
            }
            _ => return,
        }
        self.only = only.filter(|_| outputs == 1);
    }
}
