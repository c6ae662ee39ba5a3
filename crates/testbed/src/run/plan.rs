//! The order of a scenario's runs: each switch has its turn in every round of every case, so that changes of the machine
//! affect all of them.

use super::network::kind;
use crate::scenario::{Location, Point, Scenario, Test, Timing};
use crate::switches;
use lab::switch::{PortKind, SwitchKind};
use std::collections::BTreeMap;
use std::path::Path;

/// A run to be made.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The point.
    pub point: Point,
    /// Number of the round.
    pub round: u32,
    /// Durations.
    pub timing: Timing,
}

/// A switch that takes part.
pub struct Contestant {
    /// The switch.
    pub switch: Box<dyn SwitchKind>,
    /// Its version.
    pub version: String,
}

/// All runs of a scenario, and the switches in them.
pub struct Plan {
    turns: Vec<Turn>,
    contestants: BTreeMap<String, Contestant>,
    missing: Vec<String>,
}

impl Plan {
    /// Plans the runs with those of the `wanted` switches that are available here; all are wanted if none is named.
    pub fn new(scenario: &Scenario, wanted: &[String], millrace: &Path) -> Result<Plan, String> {
        let mut plan = Plan { turns: Vec::new(), contestants: BTreeMap::new(), missing: Vec::new() };
        let is_wanted = |name: &String| wanted.is_empty() || wanted.contains(name);
        for name in scenario.tests.iter().flat_map(|test| test.switches(scenario)).filter(|name| is_wanted(name)) {
            plan.admit(name, millrace)?;
        }
        for test in &scenario.tests {
            plan.add(test, scenario);
        }
        plan.check().map(|()| plan)
    }

    /// Lets a switch take part if it is available.
    fn admit(&mut self, name: &str, millrace: &Path) -> Result<(), String> {
        if self.contestants.contains_key(name) {
            return Ok(());
        }
        let switch = switches::named(name, millrace)?;
        match switch.available() {
            Ok(version) => drop(self.contestants.insert(name.to_owned(), Contestant { switch, version })),
            Err(reason) => self.miss(format!("{name}: {reason}")),
        }
        Ok(())
    }

    fn miss(&mut self, missing: String) {
        if !self.missing.contains(&missing) {
            self.missing.push(missing);
        }
    }

    fn add(&mut self, test: &Test, scenario: &Scenario) {
        let timing = test.timing(scenario);
        let names: Vec<String> = test.switches(scenario).to_vec();
        // By switch, in the same order of cases.
        let mut points = Vec::new();
        for name in names.iter().filter(|name| self.contestants.contains_key(*name)) {
            points.push(test.points(name));
        }
        let cases = points.first().map_or(0, Vec::len);
        for case in 0..cases {
            for round in 0..timing.rounds {
                for point in points.iter().map(|points| &points[case]) {
                    let known = |turn: &Turn| turn.round == round && turn.point == *point;
                    match self.obstacle(point) {
                        Some(obstacle) => self.miss(obstacle),
                        None if self.turns.iter().any(known) => {}
                        None => self.turns.push(Turn { point: point.clone(), round, timing }),
                    }
                }
            }
        }
    }

    /// Returns the reason why a switch can't take part in a point, if there is one.
    fn obstacle(&self, point: &Point) -> Option<String> {
        let Point { switch: name, technique, .. } = point;
        let switch = &self.contestants[name].switch;
        if let Err(reason) = crate::list::available(*technique) {
            return Some(format!("{technique}: {reason}"));
        }
        if kind(*technique, switch.ports()).is_none() {
            return Some(format!("{name} with {technique}: it has no such ports"));
        }
        let remote = point.location == Location::Remote;
        if !remote && switch.only_between_hosts() {
            return Some(format!("{name} on one host: it is for two hosts"));
        }
        if remote && !switch.ports().contains(&PortKind::Interface) {
            return Some(format!("{name} between two hosts: it has no port for an interface"));
        }
        let needs_addresses = remote && point.pairs > 1;
        (needs_addresses && !switch.learns())
            .then(|| format!("{name} with several pairs on two hosts: it does not learn addresses"))
    }

    /// Leaves out points in which the other machine can't take part. It can in these points, and lacks what `missing` says.
    pub fn restrict(&mut self, possible: &[Point], missing: &[String]) -> Result<(), String> {
        let is_possible = |turn: &Turn| turn.point.location == Location::Local || possible.contains(&turn.point);
        let before = self.turns.len();
        self.turns.retain(is_possible);
        if self.turns.len() < before {
            missing.iter().for_each(|missing| self.miss(format!("on the other machine, {missing}")));
        }
        self.check()
    }

    fn check(&self) -> Result<(), String> {
        let why = || format!("no run of this scenario is possible here: {}", self.missing.join("; "));
        if self.turns.is_empty() { Err(why()) } else { Ok(()) }
    }

    /// Returns all runs, in their order.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// Returns a switch that takes part.
    pub fn contestant(&self, name: &str) -> &Contestant {
        &self.contestants[name]
    }

    /// Returns all switches that take part.
    pub fn contestants(&self) -> impl Iterator<Item = &Contestant> {
        self.contestants.values()
    }

    /// Returns the points that can't be run here, with reasons.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str, wanted: &[&str]) -> Result<Plan, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.toml");
        std::fs::write(&path, format!("title = \"t\"\n{text}")).unwrap();
        let (scenario, _) = Scenario::load(&path).unwrap();
        let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
        // Any file stands for Millrace's program.
        Plan::new(&scenario, &wanted, &path)
    }

    const TWO: &str = "switches = [\"millrace\", \"millrace-patch\"]\n[timing]\nrounds = 2\n";
    const TEST: &str = "[[test]]\ndimension = \"throughput\"\ntechniques = [\"virtio-user\"]\n";

    #[test]
    fn switches_take_turns_in_every_round() {
        let plan = plan(&format!("{TWO}{TEST}sizes = [\"64\", \"128\"]\n{TEST}"), &[]).unwrap();
        let turns: Vec<_> = plan
            .turns()
            .iter()
            .map(|turn| (turn.point.switch.as_str(), turn.point.size.to_string(), turn.round))
            .collect();
        let of = |size: &str| {
            [("millrace", 0), ("millrace-patch", 0), ("millrace", 1), ("millrace-patch", 1)]
                .map(|(name, round)| (name, size.to_owned(), round))
        };
        assert_eq!(turns, [of("64"), of("128")].concat());
    }

    #[test]
    fn impossible_points_are_left_out_with_their_reason() {
        let remote = TEST.replace("[[test]]\n", "[[test]]\nlocation = \"remote\"\npairs = [1, 2]\n");
        let plan = plan(&format!("{TWO}{remote}"), &[]).unwrap();
        assert_eq!(plan.turns().len(), 6);
        assert!(plan.missing()[0].contains("does not learn"), "{:?}", plan.missing());
    }

    #[test]
    fn the_other_machine_must_be_able_to_take_part() {
        let remote = TEST.replace("[[test]]\n", "[[test]]\nlocation = \"remote\"\nsizes = [\"64\", \"128\"]\n");
        let mut plan = plan(&format!("{TWO}{TEST}{remote}"), &[]).unwrap();
        assert_eq!(plan.turns().len(), 4 + 8);
        let possible = [plan.turns()[4].point.clone()];
        plan.restrict(&possible, &["millrace-patch: too old".to_owned()]).unwrap();
        assert_eq!(plan.turns().len(), 4 + 2);
        assert_eq!(plan.missing(), ["on the other machine, millrace-patch: too old"]);
    }

    #[test]
    fn only_wanted_switches_take_part() {
        let plan = plan(&format!("{TWO}{TEST}"), &["millrace-patch"]).unwrap();
        assert!(plan.turns().iter().all(|turn| turn.point.switch == "millrace-patch"));
        assert_eq!(plan.turns().len(), 2);
    }

    #[test]
    fn an_unknown_switch_is_an_error_with_the_known_ones() {
        let error = plan(&format!("switches = [\"other\"]\n{TEST}"), &[]).map(drop).unwrap_err();
        assert!(error.contains("\"other\"") && error.contains("millrace-patch"), "{error}");
    }
}
