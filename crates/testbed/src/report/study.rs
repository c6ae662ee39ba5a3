//! All that was measured.

use super::cast::Cast;
use super::read::Set;

/// All that was measured.
#[derive(Debug)]
pub struct Study {
    /// The runs of each directory.
    pub sets: Vec<Set>,
    /// All contestants.
    pub cast: Cast,
}

impl Study {
    /// Puts directories together.
    pub fn of(sets: Vec<Set>) -> Study {
        Study { cast: Cast::of(&sets), sets }
    }
}
