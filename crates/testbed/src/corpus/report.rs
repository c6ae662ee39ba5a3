//! The report of a run.

use super::files::{Corpus, File};
use super::path::Path;
use super::rig::Counted;
use super::tally::{Difference, Kind, Outcome, Tallied};
use serde::Serialize;
use std::collections::BTreeMap;

/// All that a run found out.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The folder.
    pub folder: String,
    /// Its files, by path.
    pub files: Vec<File>,
    /// Number of frames in all files.
    pub frames: u64,
    /// Of these, frames that differ from all others: each is sent once along each path.
    pub distinct: u64,
    /// The paths, in the order in which they were taken.
    pub paths: Vec<PathReport>,
    /// Whether everything came out as it went in, or was dropped for a reason that it gives.
    pub equal: bool,
}

/// A path.
#[derive(Debug, Serialize)]
pub struct PathReport {
    /// Its name.
    pub path: Path,
    /// Outcomes of the frames.
    #[serde(flatten)]
    pub sum: Sum,
    /// The same of each file that frames were sent of.
    pub files: BTreeMap<String, Sum>,
    /// Frames that travelled in aggregates, and the number of these.
    pub joined: u64,
    pub aggregates: u64,
    /// Differences, by kind.
    pub kinds: BTreeMap<Kind, u64>,
    /// The first of them.
    pub differences: Vec<Difference>,
    /// Reasons for which the switches have counted more or fewer drops than frames are missing that give them.
    pub miscounted: BTreeMap<String, Miscount>,
    /// Why the path ended before all frames were sent.
    pub failure: Option<String>,
}

/// Frames, by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// Frames that were sent.
    pub sent: u64,
    /// Of these, frames that came out once, in order, and byte for byte.
    pub equal: u64,
    /// Of these, frames that the path can't carry, by the reason for which it drops them.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Of these, all others.
    pub different: u64,
    /// Frames that were not sent, as too much was lost before.
    pub not_sent: u64,
}

/// Drops for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Miscount {
    /// As the switches have counted them.
    pub counted: u64,
    /// Frames that give this reason, and have not come out.
    pub missing: u64,
}

impl Sum {
    fn add(&mut self, outcome: Outcome) {
        self.sent += u64::from(outcome != Outcome::NotSent);
        match outcome {
            Outcome::NotSent => self.not_sent += 1,
            Outcome::Equal => self.equal += 1,
            Outcome::Dropped(reason) => *self.dropped.entry(reason).or_default() += 1,
            Outcome::Different | Outcome::Waiting(_) => self.different += 1,
        }
    }
}

impl PathReport {
    /// Builds the report of a path from the end of its comparison, and the counters of its switches.
    pub fn new(path: Path, corpus: &Corpus, tallied: Tallied, counted: &Counted) -> PathReport {
        let Tallied { outcomes, differences, counts } = tallied;
        let (mut sum, mut files) = (Sum::default(), BTreeMap::<String, Sum>::new());
        for (frame, outcome) in corpus.frames.iter().zip(outcomes) {
            sum.add(outcome);
            files.entry(corpus.files[frame.file].path.clone()).or_default().add(outcome);
        }
        let miscounted = miscounts(&sum.dropped, &counted.dropped);
        let &Counted { joined, aggregates, .. } = counted;
        PathReport { path, sum, files, joined, aggregates, kinds: counts, differences, miscounted, failure: None }
    }

    /// Builds the report of a path that failed, so that the counters of its switches are not known.
    pub fn failed(path: Path, corpus: &Corpus, tallied: Tallied, failure: String) -> PathReport {
        let report = PathReport::new(path, corpus, tallied, &Counted::default());
        PathReport { miscounted: BTreeMap::new(), failure: Some(failure), ..report }
    }

    /// Reports whether there is no difference.
    pub fn is_equal(&self) -> bool {
        self.kinds.is_empty() && self.miscounted.is_empty() && self.failure.is_none() && self.sum.not_sent == 0
    }
}

/// Returns the reasons whose counts differ.
fn miscounts(missing: &BTreeMap<&'static str, u64>, counted: &BTreeMap<String, u64>) -> BTreeMap<String, Miscount> {
    let reasons = missing.keys().copied().chain(counted.keys().map(String::as_str));
    let count = |reason: &str| Miscount {
        counted: counted.get(reason).copied().unwrap_or(0),
        missing: missing.get(reason).copied().unwrap_or(0),
    };
    let all = reasons.map(|reason| (reason.to_owned(), count(reason)));
    all.filter(|(_, count)| count.counted != count.missing).collect()
}

impl Report {
    /// Begins the report of a folder.
    pub fn new(folder: &std::path::Path, corpus: &Corpus) -> Report {
        let sum = |of: fn(&File) -> u64| corpus.files.iter().map(of).sum();
        Report {
            folder: folder.display().to_string(),
            frames: sum(|file| file.frames),
            distinct: sum(|file| file.distinct),
            files: corpus.files.clone(),
            paths: Vec::new(),
            equal: true,
        }
    }

    /// Adds a path.
    pub fn add(&mut self, path: PathReport) {
        self.equal &= path.is_equal();
        self.paths.push(path);
    }
}
