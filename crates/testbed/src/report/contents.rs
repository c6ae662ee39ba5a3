//! The contents of a report, independent of its form.

use super::figures::{self, Figure};
use super::note::Note;
use super::read::Set;
use super::study::Study;
use super::verdict::{self, Finding, Verdict};

/// All that is reported.
pub struct Report {
    /// The measurements.
    pub study: Study,
    /// The comparison of Millrace with the others.
    pub verdict: Verdict,
    /// The figures.
    pub figures: Vec<Figure>,
}

impl Report {
    /// Reports on directories.
    pub fn of(sets: Vec<Set>) -> Report {
        let study = Study::of(sets);
        Report { verdict: verdict::of(&study), figures: figures::all(&study), study }
    }

    /// Returns its title: that of the first scenario.
    pub fn title(&self) -> &str {
        self.study.sets.iter().find_map(|set| set.title.as_deref()).unwrap_or("Virtual switches compared")
    }

    /// Returns a note of a directory that no finding has, if there is one.
    pub fn unused_note<'s>(&self, set: &'s Set) -> Option<&'s Note> {
        let findings = self.verdict.findings.iter().filter(|finding| finding.set == set.name);
        let names: Vec<String> = findings.map(Finding::name).collect();
        set.notes.iter().find(|note| !names.iter().any(|name| note.is_of(name)))
    }
}
