//! A snapshot as OpenMetrics text.

use super::{aggregation, datapath, exchange, learning, ports, queues, workers};
use engine::stats::Snapshot;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// Renders the page for a scrape of `snapshot`.
pub fn render(snapshot: &Snapshot) -> String {
    let mut registry = Registry::with_prefix("millrace");
    registry.register_collector(Box::new(Page(snapshot.clone())));
    let mut text = String::new();
    // Writing to a string cannot fail, and the encoder has no other errors.
    let _ = encode(&mut text, &registry);
    text
}

#[derive(Debug)]
struct Page(Snapshot);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(snapshot) = self;
        build_info(&mut encoder)?;
        let mut uptime = encoder.encode_descriptor(
            "uptime",
            "Time since the switch started",
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        uptime.encode_gauge(&snapshot.uptime_seconds)?;
        let mut frequency = encoder.encode_descriptor(
            "cycle_counter_hertz",
            "Frequency of the counter that all cycles are counted with",
            None,
            MetricType::Gauge,
        )?;
        frequency.encode_gauge(&(snapshot.cycles_hz as f64))?;
        if let Some(stats) = &snapshot.aggregation {
            aggregation::encode(&mut encoder, stats)?;
        }
        exchange::encode(&mut encoder, &snapshot.exchanges)?;
        if let Some(stats) = &snapshot.datapath {
            datapath::encode(&mut encoder, stats)?;
        }
        ports::encode(&mut encoder, &snapshot.ports)?;
        learning::encode(&mut encoder, &snapshot.ports)?;
        queues::encode(&mut encoder, &snapshot.ports)?;
        workers::encode(&mut encoder, &snapshot.workers)
    }
}

fn build_info(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let mut info = encoder.encode_descriptor("build", "Version of the switch", None, MetricType::Info)?;
    info.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
}
