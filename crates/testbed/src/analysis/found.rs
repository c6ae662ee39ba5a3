//! The results of an analysis of parts that have a processor each.

use crate::machine::Machine;
use crate::transfer::Transfer;

/// All results: a figure of each setup.
pub struct Found<F> {
    pub rig: Machine,
    /// Cycles to move a line between the processors.
    pub line_cycles: Transfer,
    pub figures: Vec<F>,
}
