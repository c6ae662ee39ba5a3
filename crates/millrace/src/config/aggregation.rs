//! Validates and builds `[aggregation]`, and checks it against the ports.

use super::check::Check;
use super::ports::BuiltPorts;
use super::raw::{At, RawAggregation, Table};
use settings::aggregation::{self, Aggregation};

/// Builds the section, if there is one.
pub(super) fn build(
    check: &mut Check<'_>,
    raw: Option<&At<Table<RawAggregation>>>,
    ports: &BuiltPorts,
) -> Option<Aggregation> {
    let aggregating = ports.list.iter().filter_map(|built| built.aggregate_span.as_ref());
    let count = aggregating.clone().count();
    let Some(raw) = raw else {
        if !check.is_unread(&(0..0), "aggregation") {
            for span in aggregating {
                check.error(span, "there is nothing to aggregate for", "add an [aggregation] section");
            }
        }
        return None;
    };
    if count == 0 {
        check.warn(&raw.span, "no port aggregates", "add `aggregate = true` to a [[port]] towards the network");
    }
    for at in raw.next_hops.iter().filter_map(|hop| hop.port.as_ref()) {
        if ports.find(check, at, &at.span).is_some_and(|found| !found.spec.aggregate) {
            check.error(
                &at.span,
                format!("port `{}` does not aggregate", at.value),
                "add `aggregate = true` to it, or name a port that does",
            );
        }
    }
    for hop in raw.next_hops.iter().filter(|hop| count > 1 && hop.port.as_ref().is_none()) {
        let message = "several ports aggregate, and packets that leave by any of them are joined for this next hop";
        check.warn(&hop.span, message, "say `port = ` which one it is behind, unless it is behind all of them");
    }
    Some(aggregation::build(check, raw))
}
