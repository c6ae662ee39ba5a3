//! Durations of steps and tests, and the processors that they keep busy: kept after each run, and compared with the stored
//! table, which is part of the repository. Those that take a third longer than there are named; nothing fails by it, as machines
//! differ. Tests run in the order that the table gives.

use crate::command::Context;
use crate::cost::{Cost, clock};
use crate::failure::Failure;
use crate::tier::Tier;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Path of the stored table.
const STORED: &str = "bench/baseline/durations.json";

/// Shortest time that is listed. Twice that is the shortest that is compared: less is a matter of luck.
const WORTH_A_LINE: Duration = Duration::from_secs(5);

/// What something counts for that is not in the table. A long test that began last would keep all others waiting.
const UNKNOWN: (Duration, f64) = (Duration::MAX, 0.5);

/// Costs by name of a step or a program.
#[derive(Debug, Default)]
pub struct Durations(BTreeMap<String, Cost>);

impl Durations {
    /// Returns the stored table.
    pub fn stored(context: &Context) -> Result<Durations, Failure> {
        let text = fs::read_to_string(context.root.join(STORED)).map_err(|e| format!("{STORED}: {e}"))?;
        let table = serde_json::from_str(&text).map_err(|e| format!("{STORED}: {e}; {UPDATE} writes it"))?;
        Ok(Durations(table))
    }

    /// Adds the duration of a run.
    pub fn add(&mut self, name: &str, cost: Cost) {
        self.0.insert(name.to_owned(), cost);
    }

    /// Returns how long something takes, and how many processors it keeps busy, by the table.
    pub fn of(&self, name: &str) -> (Duration, f64) {
        self.0.get(name).map_or(UNKNOWN, |cost| (cost.time(), cost.processors()))
    }

    /// Returns the line of the table for something that took `now`, if it is worth one.
    pub fn line(&self, name: &str, now: Cost) -> Option<String> {
        let time = now.time();
        if time < WORTH_A_LINE {
            return None;
        }
        let is_compared = time > WORTH_A_LINE * 2;
        let remark = match self.0.get(name).map(|cost| cost.time()) {
            Some(before) if is_compared && time * 3 > before * 4 => {
                format!("  LONGER than the stored {}", clock(before))
            }
            None if is_compared => "  not stored".into(),
            _ => String::new(),
        };
        Some(format!("{now}  {name}{remark}"))
    }

    /// Keeps the table of this run of a tier, for [`store`]. That of a whole one has no names of earlier runs.
    pub fn keep(&self, context: &Context, tier: Tier, is_whole: bool) -> Result<(), Failure> {
        let earlier = if is_whole { None } else { last(context, tier) };
        let mut all = earlier.unwrap_or_default();
        all.extend(self.0.clone());
        let path = path_of_last(context, tier);
        fs::write(&path, json(&all)).map_err(|e| format!("{}: {e}", path.display()).into())
    }

    #[cfg(test)]
    pub fn of_last<const N: usize>(entries: [(&str, f64, f64); N]) -> Durations {
        Durations(entries.map(|(name, seconds, processors)| (name.to_owned(), cost(seconds, processors))).into())
    }
}

const UPDATE: &str = "`cargo xtask baseline durations`";

/// Returns the path of the table of the last runs of a tier.
fn path_of_last(context: &Context, tier: Tier) -> PathBuf {
    context.target(&format!("durations-{}.json", tier.name()))
}

fn last(context: &Context, tier: Tier) -> Option<BTreeMap<String, Cost>> {
    serde_json::from_str(&fs::read_to_string(path_of_last(context, tier)).ok()?).ok()
}

/// Formats a table: a line for each name.
fn json(table: &BTreeMap<String, Cost>) -> String {
    let text = |part: serde_json::Result<String>| part.expect("text and numbers");
    let line = |name: &String, cost: &Cost| {
        format!("  {}: {}", text(serde_json::to_string(name)), text(serde_json::to_string(cost)))
    };
    let lines: Vec<_> = table.iter().map(|(name, cost)| line(name, cost)).collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

/// Stores the durations of the last runs.
pub fn store(context: &Context) -> Result<(), Failure> {
    let mut table = last(context, Tier::Test).ok_or("no test has run yet in this clone: `cargo xtask test` first")?;
    table.extend(last(context, Tier::Verify).unwrap_or_default());
    let Durations(before) = Durations::stored(context)?;
    table.iter_mut().for_each(|(name, cost)| *cost = before.get(name).map_or(*cost, |earlier| cost.after(*earlier)));
    context.write(STORED, &json(&table))
}

#[cfg(test)]
fn cost(seconds: f64, processors: f64) -> Cost {
    Cost::new(Duration::from_secs_f64(seconds), Duration::from_secs_f64(seconds * processors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_growth_by_a_third_is_named() {
        let stored = Durations::of_last([("clippy", 60.0, 2.0), ("fmt", 5.0, 1.0)]);
        let line = |name, seconds| stored.line(name, cost(seconds, 0.5));
        assert_eq!(line("clippy", 79.0).unwrap(), "  1:19   0.5  clippy");
        assert_eq!(line("clippy", 81.0).unwrap(), "  1:21   0.5  clippy  LONGER than the stored 1:00");
        assert_eq!(line("fmt", 9.0).unwrap(), "  0:09   0.5  fmt");
        assert_eq!(line("doc", 11.0).unwrap(), "  0:11   0.5  doc  not stored");
        assert_eq!(line("fmt", 4.0), None);
    }

    #[test]
    fn a_table_has_a_line_for_each_name() {
        let Durations(table) = Durations::of_last([("clippy", 60.0, 2.0), ("fmt", 5.0, 1.0)]);
        let text = json(&table);
        assert!(text.starts_with("{\n  \"clippy\": {\"seconds\":60.0,\"processors\":2.0},\n"), "{text}");
        assert_eq!(serde_json::from_str::<BTreeMap<String, Cost>>(&text).unwrap(), table);
    }
}
