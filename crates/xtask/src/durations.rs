//! How long steps and test binaries take: kept after each run, and compared with the stored table, which is part of the
//! repository. What takes a third longer than there is named; nothing fails by it, as machines differ.

use crate::command::Context;
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Path of the stored table.
const STORED: &str = "bench/baseline/durations.json";

/// Where the table of the last run is kept, in `target`.
const LAST: &str = "durations.json";

/// Shortest time that is listed, in seconds. Twice that is the shortest that is compared: less is a matter of luck.
const WORTH_A_LINE: f64 = 5.0;

/// Seconds by name of a step or a program.
#[derive(Debug, Default)]
pub struct Durations(BTreeMap<String, f64>);

impl Durations {
    /// Returns the stored table.
    pub fn stored(context: &Context) -> Result<Durations, Failure> {
        let text = fs::read_to_string(context.root.join(STORED)).map_err(|e| format!("{STORED}: {e}"))?;
        let table = serde_json::from_str(&text).map_err(|e| format!("{STORED}: {e}; {UPDATE} writes it"))?;
        Ok(Durations(table))
    }

    /// Adds what a run took.
    pub fn add(&mut self, name: &str, time: Duration) {
        self.0.insert(name.to_owned(), (time.as_secs_f64() * 10.0).round() / 10.0);
    }

    /// Returns how long something took; nothing if it is not in the table.
    pub fn of(&self, name: &str) -> Duration {
        Duration::from_secs_f64(self.0.get(name).copied().unwrap_or(0.0))
    }

    /// Returns the line of the table for something that took `now`, if it is worth one.
    pub fn line(&self, name: &str, now: Duration) -> Option<String> {
        let seconds = now.as_secs_f64();
        if seconds < WORTH_A_LINE {
            return None;
        }
        let before = self.0.get(name).copied();
        let remark = match before {
            Some(before) if seconds > before * 4.0 / 3.0 && seconds > 2.0 * WORTH_A_LINE => {
                format!("  LONGER than the stored {}", clock(Duration::from_secs_f64(before)))
            }
            None if seconds > 2.0 * WORTH_A_LINE => "  not stored".into(),
            _ => String::new(),
        };
        Some(format!("{:>6}  {name}{remark}", clock(now)))
    }

    /// Keeps the table of this run, for [`store`], and what earlier runs of other steps took.
    pub fn keep(&self, context: &Context) -> Result<(), Failure> {
        let path = context.target(LAST);
        let mut all = last(context).unwrap_or_default();
        all.extend(self.0.clone());
        fs::write(&path, json(&all)).map_err(|e| format!("{}: {e}", path.display()).into())
    }

    #[cfg(test)]
    pub fn of_last<const N: usize>(entries: [(&str, f64); N]) -> Durations {
        Durations(entries.map(|(name, seconds)| (name.to_owned(), seconds)).into())
    }
}

const UPDATE: &str = "`cargo xtask baseline durations`";

fn last(context: &Context) -> Option<BTreeMap<String, f64>> {
    serde_json::from_str(&fs::read_to_string(context.target(LAST)).ok()?).ok()
}

fn json(table: &BTreeMap<String, f64>) -> String {
    format!("{:#}\n", serde_json::json!(table))
}

/// Stores what the last runs took, of at least a line.
pub fn store(context: &Context) -> Result<(), Failure> {
    let mut table = last(context).ok_or("nothing has run yet in this clone: `cargo xtask test` first")?;
    table.retain(|_, seconds| *seconds >= WORTH_A_LINE);
    context.write(STORED, &json(&table))
}

/// Formats minutes and seconds.
pub fn clock(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_growth_by_a_third_is_named() {
        let stored = Durations::of_last([("clippy", 60.0), ("fmt", 5.0)]);
        let line = |name, seconds| stored.line(name, Duration::from_secs_f64(seconds));
        assert_eq!(line("clippy", 79.0).unwrap(), "  1:19  clippy");
        assert_eq!(line("clippy", 81.0).unwrap(), "  1:21  clippy  LONGER than the stored 1:00");
        assert_eq!(line("fmt", 9.0).unwrap(), "  0:09  fmt");
        assert_eq!(line("doc", 11.0).unwrap(), "  0:11  doc  not stored");
        assert_eq!(line("fmt", 4.0), None);
    }
}
