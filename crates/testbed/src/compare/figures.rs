//! The figures of a comparison that are kept, a row of the table each.

use super::results::{Outcome, Results, Run};
use crate::record::{Record, rounded};
use crate::ring_format::RingFormat;
use loadgen::load::TouchLevel;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;

/// Conditions and figures of a row: medians over the rounds.
#[derive(Debug, Serialize, Deserialize)]
pub struct Figure {
    /// Ring format of both ports.
    pub ring: RingFormat,
    /// Bytes of a frame.
    pub bytes: u16,
    /// How much of it the load touched.
    pub touched: TouchLevel,
    /// Functions of the load that a frame passed, if there were more than two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<u16>,
    /// Millions of frames per second that came through, both directions together.
    pub mpps: Each<f64>,
    /// Least and greatest of these.
    #[serde(default, skip_serializing_if = "Each::is_empty")]
    pub mpps_range: Each<[f64; 2]>,
    /// The first contestant's frames in relation to the second's, within a round: median, least, greatest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<[f64; 3]>,
    /// Cycles of the switch per frame.
    #[serde(default, skip_serializing_if = "Each::is_empty")]
    pub cycles: Each<f64>,
    /// Share of the load's cycles in which it found nothing to do.
    #[serde(default, skip_serializing_if = "Each::is_empty")]
    pub load_idle_percent: Each<f64>,
    /// Frames lost in a round, of the rounds that lost any.
    #[serde(default, skip_serializing_if = "Each::is_empty")]
    pub lost: Each<f64>,
}

/// A value of each contestant that has one, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Each<T>(pub Vec<(String, T)>);

impl<T> Each<T> {
    /// Returns the value of this contestant.
    pub fn of(&self, contestant: &str) -> Option<&T> {
        self.0.iter().find(|(name, _)| name == contestant).map(|(_, value)| value)
    }

    /// Returns the names of the contestants.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Default for Each<T> {
    fn default() -> Each<T> {
        Each(Vec::new())
    }
}

impl<T: Serialize> Serialize for Each<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// A map type of the standard library would lose the order.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for Each<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Each<T>, D::Error> {
        struct InOrder<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for InOrder<T> {
            type Value = Each<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a figure of each contestant, by name")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Each<T>, M::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(Each(all))
            }
        }

        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

/// Returns the stored part of these results.
pub fn record(results: &Results) -> Record<Figure> {
    let figures = results.outcomes.iter().map(|outcome| figure(results, outcome)).collect();
    let latencies = results.outcomes.iter().flat_map(Outcome::latencies);
    Record::new(&results.rig, &results.notes, figures).with_cores(latencies).with_transfer(results.transfer)
}

fn figure(results: &Results, outcome: &Outcome) -> Figure {
    let spreads = |figure: fn(&Run) -> Option<f64>| {
        let named = results.contestants.iter().map(move |contestant| (contestant, outcome.spread(*contestant, figure)));
        named.filter_map(|(contestant, spread)| Some((contestant.key(), spread?)))
    };
    let medians =
        |figure, places| Each(spreads(figure).map(|(name, spread)| (name, rounded(spread.median, places))).collect());
    let mpps = |run: &Run| Some(run.mpps);
    let range = spreads(mpps).map(|(name, spread)| (name, [spread.min, spread.max].map(|rate| rounded(rate, 2))));
    Figure {
        ring: outcome.scenario.ring,
        bytes: outcome.scenario.size,
        touched: outcome.scenario.touch,
        functions: Some(outcome.scenario.functions).filter(|&functions| functions > 2),
        mpps: medians(mpps, 2),
        mpps_range: Each(range.collect()),
        ratio: outcome.ratio().map(|ratio| [ratio.median, ratio.min, ratio.max].map(|ratio| rounded(ratio, 2))),
        cycles: medians(|run| run.cycles_per_packet, 1),
        load_idle_percent: medians(|run| Some(100.0 * run.load.as_ref()?.idle_cycles), 0),
        lost: medians(|run| run.load.as_ref().map(|load| load.lost as f64).filter(|&lost| lost > 0.0), 0),
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::results::tests::results;
    use super::*;

    /// Returns the record of such results.
    pub fn record_of(rates: &[&[f64]]) -> Record<Figure> {
        record(&results(rates))
    }

    #[test]
    fn medians_are_kept_with_the_contestants_in_order() {
        let record = record_of(&[&[30.004, 10.0, 20.0, 10.0]]);
        let row = serde_json::to_string(&record.figures[0]).unwrap();
        let expected =
            r#"{"ring":"split","bytes":64,"touched":"header","mpps":{"millrace patch":25.0,"testpmd":10.0},"#;
        assert!(row.starts_with(expected), "{row}");
        assert!(row.ends_with(r#""testpmd":[10.0,10.0]},"ratio":[2.5,2.0,3.0]}"#), "{row}");
        assert_eq!(serde_json::from_str::<Figure>(&row).unwrap().mpps, record.figures[0].mpps);
        assert!(record.foot()[0].contains("40..40 ns"), "{:?}", record.foot());
    }

    #[test]
    fn all_published_comparisons_can_be_read() {
        let published = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/results");
        let directories = std::fs::read_dir(published).unwrap().map(|entry| entry.unwrap().path());
        let mut read = 0;
        // Scenarios keep their runs instead.
        for directory in directories.filter(|directory| !directory.join(crate::run::RUNS).exists()) {
            let text = std::fs::read_to_string(directory.join("results.json")).unwrap();
            if text.contains("testbed compare") {
                let record: Record<Figure> = Record::read(&directory).unwrap();
                assert!(record.figures.iter().all(|figure| figure.mpps.0.len() == 2), "{}", directory.display());
                read += 1;
            }
        }
        assert!(read > 0);
    }
}
