//! Tables that workers may still use, and what was counted in them; control side only.

use super::program::{Program, To};
use super::table::{Flows, MISS};
use openflow::{Classifier, FlowId, Rule};
use std::sync::Arc;

/// Tables, the last of which is in force.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) rules: Classifier<Rule>,
    workers: usize,
    standalone: bool,
    serial: u64,
    kept: Vec<Kept>,
    pub(super) looked_up: u64,
    pub(super) found: u64,
    pub(super) searched: u64,
}

/// Frames that matched a flow.
#[derive(Clone, Copy, Default)]
struct Matched {
    packets: u64,
    bytes: u64,
}

/// A table, and the part of its counters already reported.
struct Kept {
    flows: Arc<Flows>,
    told: Vec<Matched>,
    searched: u64,
}

impl Ledger {
    /// Sets the number of workers and the fail mode. Reports whether that changes the table.
    pub(super) fn prepare(&mut self, workers: usize, standalone: bool) -> bool {
        let before = (self.workers, self.standalone);
        (self.workers, self.standalone) = (workers, standalone);
        before != (workers, standalone)
    }

    /// Builds the table of the present rules.
    pub(super) fn draw(&mut self) -> Flows {
        self.serial += 1;
        let as_a_bridge = self.standalone && self.rules.is_empty();
        let miss = if as_a_bridge { Program::single(To::Normal) } else { Program::none() };
        Flows::new(self.serial, &self.rules, self.workers, miss)
    }

    /// Keeps a table that is now in force.
    pub(super) fn keep(&mut self, flows: Arc<Flows>) {
        let told = vec![Matched::default(); flows.programs.len()];
        self.kept.push(Kept { flows, told, searched: 0 });
    }

    /// Returns the number of flows in force.
    pub(super) fn flows(&self) -> usize {
        self.kept.last().map_or(0, |kept| kept.flows.ids.len())
    }

    /// Returns the number of tables that workers may still use.
    #[cfg(all(test, not(loom)))]
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Reports what was counted since the last call. Frees tables that no worker uses any more, here and not on the
    /// path of a frame.
    pub(super) fn harvest(&mut self, mut account: impl FnMut(FlowId, u64, u64)) -> (u64, u64) {
        let before = (self.looked_up, self.found);
        let in_force = self.serial;
        let mut kept = std::mem::take(&mut self.kept);
        kept.retain_mut(|kept| {
            // Checked before counters are read, so that nothing is counted afterwards.
            let is_over = kept.flows.serial != in_force && Arc::get_mut(&mut kept.flows).is_some();
            self.read(kept, &mut account);
            !is_over
        });
        self.kept = kept;
        (self.looked_up - before.0, self.found - before.1)
    }

    fn read(&mut self, kept: &mut Kept, account: &mut impl FnMut(FlowId, u64, u64)) {
        let lanes = &kept.flows.lanes;
        for (index, told) in kept.told.iter_mut().enumerate() {
            let mut now = Matched::default();
            for cell in lanes.iter().map(|lane| &lane.cells[index]) {
                now.packets += cell.packets.get();
                now.bytes += cell.bytes.get();
            }
            let (packets, bytes) = (now.packets - told.packets, now.bytes - told.bytes);
            if packets == 0 {
                continue;
            }
            *told = now;
            self.looked_up += packets;
            if index != MISS as usize {
                self.found += packets;
                account(kept.flows.ids[index - 1], packets, bytes);
            }
        }
        let searched = lanes.iter().map(|lane| lane.searched.get()).sum();
        self.searched += searched - kept.searched;
        kept.searched = searched;
    }
}
