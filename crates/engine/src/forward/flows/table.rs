//! The flow table as workers read it, and what they count of it.

use super::program::Program;
use crate::counters::Counter;
use openflow::{Classifier, FlowId, Rule};

/// The program of packets without a flow.
pub(super) const MISS: u32 = 0;

/// The table at one time. It never changes; another one takes its place.
pub(crate) struct Flows {
    /// No other table has it: what was cached for another one is void.
    pub(super) serial: u64,
    /// What stands for a flow is the index of its program.
    pub(super) classifier: Classifier<u32>,
    /// What is done: first to packets without a flow, then by flow.
    pub(super) programs: Box<[Program]>,
    /// By program but the first: its flow.
    pub(super) ids: Box<[FlowId]>,
    /// What each worker counts.
    pub(super) lanes: Box<[Lane]>,
}

/// What one worker counts, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Lane {
    /// By program.
    pub(super) cells: Box<[Cell]>,
    /// Packets that were not in the cache.
    pub(super) searched: Counter,
}

/// What one worker counts for one flow.
#[derive(Default)]
pub(super) struct Cell {
    pub(super) packets: Counter,
    pub(super) bytes: Counter,
}

impl Flows {
    /// The table of these rules, for so many workers. Packets without a flow go as through any bridge, or are dropped.
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
