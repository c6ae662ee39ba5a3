//! The contestants of a report: their names, and their looks, which are the same in all figures.

use super::read::Set;
use super::run::Contestant;
use std::collections::BTreeSet;

/// All contestants, Millrace first.
#[derive(Debug)]
pub struct Cast(Vec<Contestant>);

/// How a contestant is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Number of its switch: of its colour and its marker. Millrace is 0.
    pub switch: usize,
    /// Number of its technique among those of its switch: of its line's dashes.
    pub technique: usize,
}

impl Cast {
    /// Collects the contestants of all runs.
    pub fn of(sets: &[Set]) -> Cast {
        let runs = sets.iter().flat_map(|set| &set.runs);
        let all: BTreeSet<_> = runs.map(|run| Contestant::of(&run.point)).collect();
        let (millrace, others): (Vec<_>, Vec<_>) = all.into_iter().partition(Contestant::is_millrace);
        Cast([millrace, others].concat())
    }

    /// Returns all contestants in their order.
    pub fn all(&self) -> &[Contestant] {
        &self.0
    }

    /// Returns the name, with the technique if the switch has several.
    pub fn name(&self, contestant: &Contestant) -> String {
        let switch = if contestant.is_bridge() { "Millrace" } else { &contestant.switch };
        let alone = self.0.iter().filter(|other| other.switch == contestant.switch).count() <= 1;
        if alone { switch.to_owned() } else { format!("{switch} ({})", contestant.technique) }
    }

    /// Returns how a contestant is drawn.
    pub fn look(&self, contestant: &Contestant) -> Look {
        // Colour 0 is kept for Millrace.
        let mut switches: Vec<&str> = vec!["millrace"];
        switches.extend(self.0.iter().filter(|other| !other.is_bridge()).map(|other| other.switch.as_str()));
        switches.dedup();
        let of_switch = self.0.iter().filter(|other| other.switch == contestant.switch);
        Look {
            switch: switches.iter().position(|switch| *switch == contestant.switch).unwrap_or_default(),
            technique: of_switch.take_while(|other| *other != contestant).count(),
        }
    }
}
