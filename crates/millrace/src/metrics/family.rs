//! Metric families of OpenMetrics: a name, a help text, and a sample for each item.

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use std::fmt;

/// A metric family.
pub(super) struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
}

/// A family of counters, and how to read the counter of an item.
pub(super) struct Counter<T> {
    pub(super) family: Family,
    pub(super) read: fn(&T) -> u64,
}

impl Family {
    pub(super) const fn counter(name: &'static str, help: &'static str) -> Family {
        Family { name, help, kind: MetricType::Counter }
    }

    pub(super) const fn gauge(name: &'static str, help: &'static str) -> Family {
        Family { name, help, kind: MetricType::Gauge }
    }

    pub(super) const fn histogram(name: &'static str, help: &'static str) -> Family {
        Family { name, help, kind: MetricType::Histogram }
    }

    /// Encodes the family, with a sample for each item.
    pub(super) fn encode<Item, Labels: EncodeLabelSet>(
        self,
        encoder: &mut DescriptorEncoder<'_>,
        items: impl IntoIterator<Item = Item>,
        labels: impl Fn(&Item) -> Labels,
        sample: impl Fn(&Item, &mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(self.name, self.help, None, self.kind)?;
        for item in items {
            sample(&item, &mut family.encode_family(&labels(&item))?)?;
        }
        Ok(())
    }
}

impl<T> Counter<T> {
    pub(super) const fn new(name: &'static str, help: &'static str, read: fn(&T) -> u64) -> Counter<T> {
        Counter { family: Family::counter(name, help), read }
    }
}

/// Encodes the sample of a counter.
pub(super) fn count(encoder: &mut MetricEncoder<'_>, number: u64) -> fmt::Result {
    encoder.encode_counter::<NoLabelSet, _, u64>(&number, None)
}

/// Returns the classes of a histogram with their bounds, and the unbounded class that the format requires.
pub(super) fn buckets(bounds: &[u32], counts: &[u64]) -> Vec<(f64, u64)> {
    let classes = bounds.iter().map(|&bound| f64::from(bound)).zip(counts.iter().copied());
    classes.chain([(f64::INFINITY, 0)]).collect()
}
