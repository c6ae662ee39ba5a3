//! Wrong aggregates, and right ones that come in several buffers.

use super::echo::{Echo, SMALL_BUFFERS};
use e2e::aggregate::{by_hand, malformed};
use e2e::stream::{aggregation, packet};
use lab::Result;
use std::collections::BTreeMap;

/// Returns packets short enough for an aggregate.
fn short_packets() -> Vec<Vec<u8>> {
    (0..12).map(|number| packet(0, number, &[100])).filter(|bytes| bytes.len() < 200).collect()
}

#[test]
fn a_wrong_aggregate_loses_only_itself_and_is_counted_by_reason() -> Result<()> {
    let mut echo = Echo::start(aggregation(0, &[]), &[])?;
    let packets = short_packets();
    let good = by_hand(&packets);
    let all: Vec<_> = packets.iter().chain([&packets[0]]).chain(&packets).collect();
    let mut wanted = BTreeMap::new();
    for _ in 0..5 {
        for (reason, bad) in &malformed(&good) {
            echo.returns(&[&good, bad, &packets[0], &good], &all)?;
            *wanted.entry((*reason).to_owned()).or_insert(0) += 1;
        }
    }
    let errors: u64 = wanted.values().sum();
    assert_eq!(echo.testpmd.stats()?[0].rx_errors, errors);
    assert_eq!(echo.dropped()?, wanted);
    Ok(())
}

/// Aggregates come in three buffers, and a packet that does not fit into one is dropped.
#[test]
fn an_aggregate_in_several_buffers_is_split() -> Result<()> {
    let mut echo = Echo::start(aggregation(0, &[]), &SMALL_BUFFERS)?;
    let packets = short_packets();
    let mut long = packets[0].clone();
    long.resize(600, 0);
    let with_a_long_one: Vec<_> = packets[..2].iter().chain([&long]).chain(&packets[2..5]).cloned().collect();
    let [first, second] = [by_hand(&packets), by_hand(&with_a_long_one)];
    assert!(first.len() > 512 && second.len() > 1024, "{} {}", first.len(), second.len());
    // Alone, a long one needs no buffer but those that it came in.
    let all: Vec<_> = packets.iter().chain(&packets[..5]).chain([&long]).collect();
    for _ in 0..50 {
        echo.returns(&[&first, &second, &long], &all)?;
    }
    assert_eq!(echo.dropped()?, BTreeMap::from([("too-long".to_owned(), 50)]));
    Ok(())
}
