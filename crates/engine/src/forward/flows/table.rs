//! The flow table, as workers read it, and their counters.

use super::program::Program;
use crate::counters::Counter;
use openflow::{Classifier, FlowId, Rule};

/// Index of the program for packets without a flow.
pub(in crate::forward) const MISS: u32 = 0;

/// One version of the table. It never changes; another one replaces it.
pub(crate) struct Flows {
    /// Unique number of this version; cached results of other versions are void.
    pub(in crate::forward) serial: u64,
    /// Maps a packet to the index of its flow's program.
    pub(in crate::forward) classifier: Classifier<u32>,
    /// Programs: first for packets without a flow, then for each flow.
    pub(in crate::forward) programs: Box<[Program]>,
    /// Flow of each program but the first.
    pub(super) ids: Box<[FlowId]>,
    /// Counters of each worker.
    pub(in crate::forward) lanes: Box<[Lane]>,
}

/// Counters of one worker, on separate cache lines.
#[derive(Default)]
#[repr(align(128))]
pub(in crate::forward) struct Lane {
    /// By program.
    pub(in crate::forward) cells: Box<[Cell]>,
    /// Packets not found in the cache.
    pub(in crate::forward) searched: Counter,
}

/// Counters of one worker for one flow.
#[derive(Default)]
pub(in crate::forward) struct Cell {
    pub(in crate::forward) packets: Counter,
    pub(in crate::forward) bytes: Counter,
}

impl Flows {
    /// Returns the table of these rules for `workers` workers. Packets without a flow go by `miss`.
    pub(super) fn new(serial: u64, rules: &Classifier<Rule>, workers: usize, miss: Program) -> Flows {
        let (mut programs, mut ids) = (vec![miss], Vec::new());
        let classifier = rules.map(|rule| {
            programs.push(Program::of(rule));
            ids.push(rule.flow);
            ids.len() as u32
        });
        let lane = |_| Lane { cells: programs.iter().map(|_| Cell::default()).collect(), ..Lane::default() };
        let lanes = (0..workers).map(lane).collect();
        Flows { serial, classifier, programs: programs.into(), ids: ids.into(), lanes }
    }
}
