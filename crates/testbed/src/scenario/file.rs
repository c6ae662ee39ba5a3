//! The file of a scenario.

use super::machines::{Containers, OtherMachine};
use super::tuple::{Dimension, Location, OfferedRate, Point};
use lab::cpu;
use loadgen::app::{Arrivals, Size, Touch};
use loadgen::endpoint::Technique;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A scenario: tests, and how long each takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// Title of the report, which reads it from the file that is kept with the results.
    #[expect(dead_code)]
    title: String,
    /// Switches of the tests that name none.
    #[serde(default)]
    pub switches: Vec<String>,
    /// Processors to use; by default all that the program may run on. The switch polls on the first ones.
    #[serde(default = "cpu::available")]
    pub processors: Vec<usize>,
    /// Kind of the applications' containers.
    #[serde(default)]
    pub containers: Containers,
    /// The machine of the second host, if it is another one.
    #[serde(default)]
    pub other_machine: Option<OtherMachine>,
    /// Duration of runs.
    #[serde(default)]
    pub timing: Timing,
    /// The tests.
    #[serde(rename = "test")]
    pub tests: Vec<Test>,
}

/// Duration of runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Timing {
    /// Seconds that are measured.
    pub seconds: f64,
    /// Seconds before them.
    pub warm_up: f64,
    /// Seconds after them.
    pub cool_down: f64,
    /// Turns of each switch.
    pub rounds: u32,
    /// Seconds of the long trials of a search, which decide.
    pub trial: f64,
    /// Trials after which a search ends with the bounds found so far.
    pub trials: usize,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing { seconds: 2.0, warm_up: 0.3, cool_down: 0.2, rounds: 5, trial: 1.0, trials: 60 }
    }
}

/// Tests: all combinations of these values.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Test {
    /// The measured quantity (D).
    pub dimension: Dimension,
    /// Where the ends are (L).
    #[serde(default = "local")]
    pub location: Location,
    /// Numbers of pairs (S).
    #[serde(default = "one_pair")]
    pub pairs: Vec<u8>,
    /// Switches (V); by default those of the scenario.
    #[serde(default)]
    pub switches: Vec<String>,
    /// Techniques.
    pub techniques: Vec<Technique>,
    /// Sizes of frames (P).
    #[serde(default = "smallest")]
    pub sizes: Vec<Size>,
    /// Rates of each sender (R).
    #[serde(default = "greatest")]
    pub rates: Vec<OfferedRate>,
    /// Sizes of bursts (B).
    #[serde(default = "usual_burst")]
    pub bursts: Vec<u16>,
    /// Times at which packets are due.
    #[serde(default = "constant")]
    pub arrivals: Vec<Arrivals>,
    /// Part of every packet that is written and read.
    #[serde(default = "all_bytes")]
    pub touch: Touch,
    /// Number of rounds, if it is not the scenario's.
    #[serde(default)]
    pub rounds: Option<u32>,
    /// Seconds that are measured, if they are not the scenario's.
    #[serde(default)]
    pub seconds: Option<f64>,
}

fn local() -> Location {
    Location::Local
}

fn one_pair() -> Vec<u8> {
    vec![1]
}

fn smallest() -> Vec<Size> {
    vec![Size::Bytes(64)]
}

fn greatest() -> Vec<OfferedRate> {
    vec![OfferedRate::Max]
}

fn usual_burst() -> Vec<u16> {
    vec![32]
}

fn constant() -> Vec<Arrivals> {
    vec![Arrivals::Constant]
}

fn all_bytes() -> Touch {
    Touch::Full
}

/// Error of a scenario's file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum ScenarioError {
    #[error("the scenario {} can't be read: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the scenario {}: {source}", path.display())]
    Form { path: PathBuf, source: Box<toml::de::Error> },
    #[error("the scenario {}, test {number}: {reason}", path.display())]
    Test { path: PathBuf, number: usize, reason: String },
    #[error("the scenario {}: {reason}", path.display())]
    Whole { path: PathBuf, reason: &'static str },
    #[error("the scenario {}, other-machine: {reason}", path.display())]
    OtherMachine { path: PathBuf, reason: &'static str },
}

impl Scenario {
    /// Reads and checks the file; returns it with its text.
    pub fn load(path: &Path) -> Result<(Scenario, String), ScenarioError> {
        let read = |source| ScenarioError::Read { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(read)?;
        Ok((Scenario::parse(&text, path)?, text))
    }

    /// Reads and checks the text of a file.
    pub fn parse(text: &str, path: &Path) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario = toml::from_str(text)
            .map_err(|source| ScenarioError::Form { path: path.to_owned(), source: Box::new(source) })?;
        let whole = |reason| ScenarioError::Whole { path: path.to_owned(), reason };
        if scenario.tests.is_empty() {
            return Err(whole("there is no [[test]]"));
        }
        if scenario.processors.is_empty() {
            return Err(whole("processors: give at least one"));
        }
        if !scenario.timing.is_possible() {
            return Err(whole("timing: give seconds above 0, and 1 to 1000 rounds"));
        }
        if let Some(reason) = scenario.other_machine.as_ref().and_then(OtherMachine::problem) {
            return Err(ScenarioError::OtherMachine { path: path.to_owned(), reason });
        }
        for (index, test) in scenario.tests.iter().enumerate() {
            test.check(&scenario).map_err(|reason| ScenarioError::Test {
                path: path.to_owned(),
                number: index + 1,
                reason,
            })?;
        }
        Ok(scenario)
    }
}

impl Timing {
    fn is_possible(&self) -> bool {
        let Timing { seconds, warm_up, cool_down, rounds, trial, trials } = *self;
        let positive = trials > 0 && [seconds, trial].iter().all(|value| value.is_finite() && *value > 0.0);
        positive && [warm_up, cool_down].iter().all(|value| *value >= 0.0) && (1..=1000).contains(&rounds)
    }
}

impl Test {
    fn check(&self, scenario: &Scenario) -> Result<(), String> {
        if self.switches(scenario).is_empty() {
            return Err("no switch is named, neither here nor for the scenario".to_owned());
        }
        let lists = [
            ("pairs", self.pairs.len()),
            ("techniques", self.techniques.len()),
            ("sizes", self.sizes.len()),
            ("rates", self.rates.len()),
            ("bursts", self.bursts.len()),
            ("arrivals", self.arrivals.len()),
        ];
        if let Some((name, _)) = lists.iter().find(|(_, len)| *len == 0) {
            return Err(format!("{name} is empty"));
        }
        if !self.pairs.iter().all(|pairs| (1..=64).contains(pairs)) {
            return Err("pairs: 1 to 64 are possible".to_owned());
        }
        if !self.bursts.iter().all(|burst| (1..=256).contains(burst)) {
            return Err("bursts: 1 to 256 packets are possible".to_owned());
        }
        let of_ndr = |rate: &OfferedRate| matches!(rate, OfferedRate::OfNdr(_));
        if self.rates.iter().any(of_ndr) && !self.rates.contains(&OfferedRate::Search) {
            return Err("rates: a share of ndr needs \"search\" among the rates".to_owned());
        }
        let timing = self.timing(scenario);
        if timing.is_possible() { Ok(()) } else { Err("give seconds above 0, and 1 to 1000 rounds".to_owned()) }
    }

    /// Returns its switches.
    pub fn switches<'s>(&'s self, scenario: &'s Scenario) -> &'s [String] {
        if self.switches.is_empty() { &scenario.switches } else { &self.switches }
    }

    /// Returns the duration of its runs.
    pub fn timing(&self, scenario: &Scenario) -> Timing {
        let timing = scenario.timing;
        Timing {
            rounds: self.rounds.unwrap_or(timing.rounds),
            seconds: self.seconds.unwrap_or(timing.seconds),
            ..timing
        }
    }

    /// Returns all points with this switch, those with a search before those with a share of its result.
    pub fn points(&self, switch: &str) -> Vec<Point> {
        let mut rates = self.rates.clone();
        rates.sort_by_key(|rate| *rate != OfferedRate::Search);
        let mut points = Vec::new();
        for &technique in &self.techniques {
            for &pairs in &self.pairs {
                for &size in &self.sizes {
                    for &burst in &self.bursts {
                        for &arrivals in &self.arrivals {
                            points.extend(rates.iter().map(|&rate| Point {
                                dimension: self.dimension,
                                location: self.location,
                                pairs,
                                switch: switch.to_owned(),
                                technique,
                                size,
                                rate,
                                burst,
                                arrivals,
                                touch: self.touch,
                            }));
                        }
                    }
                }
            }
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Scenario, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.toml");
        std::fs::write(&path, text).unwrap();
        Scenario::load(&path).map(|(scenario, _)| scenario).map_err(|error| error.to_string())
    }

    const SHORT: &str = "title = \"t\"\nswitches = [\"a\", \"b\"]\n[[test]]\ndimension = \"throughput\"\n\
                         techniques = [\"virtio-user\"]\n";

    #[test]
    fn a_short_file_has_the_usual_values() {
        let scenario = load(SHORT).unwrap();
        assert_eq!(scenario.timing, Timing::default());
        assert!(!scenario.processors.is_empty());
        let points = scenario.tests[0].points("a");
        assert_eq!(points.len(), 1);
        assert_eq!(points[0].to_string(), "throughput local 1vs1 a virtio-user 64 B rate max burst 32");
        assert_eq!(scenario.tests[0].switches(&scenario), ["a", "b"]);
    }

    #[test]
    fn all_combinations_are_tested_and_searches_come_first() {
        let text =
            format!("{SHORT}sizes = [\"64\", \"imix\"]\nbursts = [1, 32]\nrates = [\"50% of ndr\", \"search\"]\n");
        let points = load(&text).unwrap().tests[0].points("b");
        assert_eq!(points.len(), 8);
        assert_eq!(points[0].rate, OfferedRate::Search);
        assert_eq!(points[1].rate, OfferedRate::OfNdr(50));
        assert_eq!(points[7].size, Size::Imix);
    }

    #[test]
    fn the_stored_scenarios_are_valid() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let files = std::fs::read_dir(root.join("bench/scenarios")).unwrap();
        let read: Vec<Scenario> = files.map(|file| Scenario::load(&file.unwrap().path()).unwrap().0).collect();
        assert!(!read.is_empty());
        let page = std::fs::read_to_string(root.join("docs/testbed.md")).unwrap();
        let mut examples = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        assert_eq!(load(examples.next().unwrap()).unwrap().timing, Timing::default());
        let other = load(&format!("{SHORT}{}", examples.next().unwrap())).unwrap().other_machine.unwrap();
        assert_eq!(other.processors, Some(vec![0, 1, 2, 3]));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let wrong = [
            ("title = \"t\"\n", "missing field `test`"),
            ("title = \"t\"\ntest = []\n", "there is no [[test]]"),
            (&SHORT.replace("\"a\", \"b\"", ""), "test 1: no switch is named"),
            (&format!("{SHORT}pairs = []\n"), "test 1: pairs is empty"),
            (&format!("{SHORT}pairs = [65]\n"), "1 to 64"),
            (&format!("{SHORT}bursts = [0]\n"), "1 to 256"),
            (&format!("{SHORT}rates = [\"50% of ndr\"]\n"), "needs \"search\""),
            (&format!("{SHORT}rates = [\"quick\"]\n"), "is not a rate"),
            (&format!("{SHORT}sizes = [\"63\"]\n"), "64 to 1518"),
            (&format!("{SHORT}seconds = 0.0\n"), "seconds above 0"),
            (&format!("{SHORT}colour = 1\n"), "unknown field `colour`"),
            (&format!("{SHORT}[other-machine]\ncommand = []\ncards = [\"a\", \"b\"]\n"), "other-machine: command"),
        ];
        for (text, reason) in wrong {
            let error = load(text).unwrap_err();
            assert!(error.contains(reason), "{text}\n{error}");
        }
        assert!(load(&format!("{SHORT}techniques = []\n")).unwrap_err().contains("line 6"));
    }
}
