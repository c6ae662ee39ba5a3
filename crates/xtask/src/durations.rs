//! Durations of steps and tests, and the processors that they keep busy: kept after each run, and compared with the stored
//! table, which is part of the repository. Those that take a third longer than there are named; nothing fails by it, as machines
//! differ.

use crate::command::Context;
use crate::cost::{Cost, clock};
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Path of the stored table.
const STORED: &str = "bench/baseline/durations.json";

/// Path of the table of the last run, in `target`.
const LAST: &str = "durations.json";

/// Shortest time that is listed. Twice that is the shortest that is compared: less is a matter of luck.
const WORTH_A_LINE: Duration = Duration::from_secs(5);

/// Shortest time that is stored.
const WORTH_STORING: Duration = Duration::from_secs(2);

/// Processors that something keeps busy which is not in the table: short tests wait half of the time.
const UNKNOWN_PROCESSORS: f64 = 0.5;

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
        self.0.get(name).map_or((Duration::ZERO, UNKNOWN_PROCESSORS), |cost| (cost.time(), cost.processors()))
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

    /// Keeps the table of this run, for [`store`], and the durations of other steps in earlier runs.
    pub fn keep(&self, context: &Context) -> Result<(), Failure> {
        let path = context.target(LAST);
        let mut all = last(context).unwrap_or_default();
        all.extend(self.0.clone());
        fs::write(&path, json(&all)).map_err(|e| format!("{}: {e}", path.display()).into())
    }

    #[cfg(test)]
    pub fn of_last<const N: usize>(entries: [(&str, f64, f64); N]) -> Durations {
        Durations(entries.map(|(name, seconds, processors)| (name.to_owned(), cost(seconds, processors))).into())
    }
}

const UPDATE: &str = "`cargo xtask baseline durations`";

fn last(context: &Context) -> Option<BTreeMap<String, Cost>> {
    serde_json::from_str(&fs::read_to_string(context.target(LAST)).ok()?).ok()
}

fn json(table: &BTreeMap<String, Cost>) -> String {
    format!("{:#}\n", serde_json::json!(table))
}

/// Stores the durations of the last runs, without the shortest.
pub fn store(context: &Context) -> Result<(), Failure> {
    let mut table = last(context).ok_or("nothing has run yet in this clone: `cargo xtask test` first")?;
    let Durations(before) = Durations::stored(context)?;
    table.retain(|_, cost| cost.time() >= WORTH_STORING);
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
}
