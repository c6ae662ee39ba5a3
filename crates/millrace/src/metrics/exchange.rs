//! Counters of exchanged buffers and pages as OpenMetrics.

use super::family::{Family, count};
use engine::stats::{ExchangePair, ExchangeStats, GroupBuffers};
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

/// Frames of a pair that were copied for a reason.
type Copied<'a> = (&'a ExchangePair, (&'a String, &'a u64));

pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, exchanges: &[ExchangeStats]) -> fmt::Result {
    let pairs = || exchanges.iter().flat_map(|exchange| &exchange.pairs);
    let from = |pair: &ExchangePair| pair.from.clone().unwrap_or_default();
    let labels = |pair: &&ExchangePair| [("from", from(pair)), ("to", pair.to.clone())];
    let exchanged = Family::counter("exchange_exchanged", "Frames that changed hands without a copy");
    exchanged.encode(encoder, pairs(), labels, |pair, sample| count(sample, pair.exchanged))?;
    let reasons = || pairs().flat_map(|pair| pair.copied.iter().map(move |copied| (pair, copied)));
    let labels = |(pair, (reason, _)): &Copied<'_>| {
        [("from", from(pair)), ("to", pair.to.clone()), ("reason", (*reason).clone())]
    };
    let copied = Family::counter("exchange_copied", "Frames within or into an exchange that were copied");
    copied.encode(encoder, reasons(), labels, |(_, (_, frames)), sample| count(sample, **frames))?;
    let free = Family::gauge("exchange_free_buffers", "Buffers of the group that no function has");
    let groups = exchanges.iter().filter_map(|exchange| Some((exchange, exchange.buffers?)));
    let labels = |(exchange, _): &(&ExchangeStats, GroupBuffers)| [("ports", exchange.ports.join(","))];
    free.encode(encoder, groups, labels, |(_, buffers), sample| sample.encode_gauge(&(buffers.free as u64)))
}
