//! One run, with the figures that the report shows.

use super::conditions::Conditions;
use crate::latency::Distance;
use crate::run::{AppPlacement, CpuUse, RunRecord, SwitchUse};
use crate::scenario::Point;
use crate::statistics::fairness;
use loadgen::app::{AppReport, Latency, Received, Sent};
use loadgen::endpoint::Technique;
use std::collections::BTreeMap;
use std::fmt;

/// A switch, and how packets reached it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Contestant {
    /// Name of the switch, as in scenarios.
    pub switch: String,
    /// Technique that the applications sent and received with.
    pub technique: Technique,
}

/// A run with results.
#[derive(Debug)]
pub struct Run {
    /// Its point.
    pub point: Point,
    /// Number of its round.
    pub round: u32,
    /// Placement of the applications.
    pub placement: AppPlacement,
    /// Distance of the processors, unless it changed during the run.
    pub distance: Option<Distance>,
    /// The switch.
    pub switch: SwitchUse,
    /// Its figures.
    pub figures: Figures,
}

/// A run without results.
#[derive(Debug)]
pub struct Failed {
    /// Its point.
    pub point: Point,
    /// Number of its round.
    pub round: u32,
    /// Intended placement of the applications.
    pub placement: AppPlacement,
    /// Why there are no results.
    pub reason: String,
}

/// Figures of a run; those of a search are of all pairs together, too.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Packets that were received, per second, of all pairs.
    pub packets: Option<f64>,
    /// Bits of these packets per second.
    pub bits: Option<f64>,
    /// Jain's index of the pairs' rates, if there are several pairs.
    pub fairness: Option<f64>,
    /// Times in nanoseconds. Of several pairs, each is the greatest.
    pub latency: Option<Latency>,
    /// Processors in use, if they were measured.
    pub processors: Option<f64>,
    /// Share of time in which the busiest application had nothing to do.
    pub idle: Option<f64>,
    /// The greatest rate without loss that was found.
    pub ndr: Option<f64>,
    /// The greatest rate with at most 0.5 % of loss that was found.
    pub pdr: Option<f64>,
    /// Packets that were changed, duplicated, or received out of order.
    pub wrong: Wrong,
}

/// Packets that were not received as they were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wrong {
    /// Not as they were sent.
    pub changed: u64,
    /// Received again.
    pub duplicates: u64,
    /// After one that was sent later.
    pub reordered: u64,
}

impl Contestant {
    /// Returns the one of a point.
    pub fn of(point: &Point) -> Contestant {
        Contestant { switch: point.switch.clone(), technique: point.technique }
    }

    /// Reports whether it is Millrace, in any of its modes.
    pub fn is_millrace(&self) -> bool {
        self.is_bridge() || self.switch.starts_with("millrace-")
    }

    /// Reports whether it is Millrace as a learning bridge, which is meant if no mode is named.
    pub fn is_bridge(&self) -> bool {
        self.switch == "millrace"
    }

    /// Reports whether it is Millrace with wires between pairs of ports.
    pub fn is_patch(&self) -> bool {
        self.switch == "millrace-patch"
    }
}

impl Run {
    /// Takes the figures out of a record.
    pub fn of(record: RunRecord) -> Result<Run, Failed> {
        let RunRecord { point, round, distance, placement, reports, cpu, switch, search, error, .. } = record;
        if let Some(reason) = error {
            return Err(Failed { point, round, placement, reason });
        }
        let mut figures = of_reports(&reports, &cpu);
        // A search that every rate lost packets in has found no rate.
        let all = |rate: f64| Some(rate * f64::from(point.pairs)).filter(|rate| *rate > 0.0);
        figures.ndr = search.as_ref().and_then(|search| all(search.ndr[0]));
        figures.pdr = search.as_ref().and_then(|search| all(search.pdr[0]));
        let [before, after] = distance.map(|latency| latency.distance);
        Ok(Run { point, round, placement, distance: (before == after).then_some(before), switch, figures })
    }

    /// Returns its conditions.
    pub fn conditions(&self) -> Conditions {
        Conditions::of(&self.point, self.placement)
    }
}

impl Failed {
    /// Returns its conditions.
    pub fn conditions(&self) -> Conditions {
        Conditions::of(&self.point, self.placement)
    }
}

/// The two ends of a flow, which may be in two reports.
#[derive(Default)]
struct Flow {
    sent: Option<Sent>,
    received: Option<Received>,
    latency: Option<Latency>,
}

fn of_reports(reports: &[AppReport], cpu: &[CpuUse]) -> Figures {
    let mut flows: BTreeMap<u8, Flow> = BTreeMap::new();
    for report in reports.iter().flat_map(|report| &report.flows) {
        let flow = flows.entry(report.flow).or_default();
        flow.sent = report.sent.or(flow.sent);
        flow.received = report.received.or(flow.received);
        flow.latency = report.latency.or(flow.latency);
    }
    let rate = |count: fn(&Received) -> u64| -> Vec<f64> {
        let both = flows.values().filter_map(|flow| flow.sent.zip(flow.received));
        both.filter(|(sent, _)| sent.seconds > 0.0)
            .map(|(sent, received)| count(&received) as f64 / sent.seconds)
            .collect()
    };
    let packets = rate(|received| received.packets);
    let bytes = rate(|received| received.bytes);
    let sum = |rates: &[f64]| (!rates.is_empty()).then(|| rates.iter().sum());
    let wrong = |count: fn(&Received) -> u64| flows.values().filter_map(|flow| flow.received.as_ref()).map(count).sum();
    Figures {
        fairness: if packets.len() > 1 { fairness(&packets) } else { None },
        packets: sum(&packets),
        bits: sum(&bytes).map(|bytes: f64| bytes * 8.0),
        latency: flows.values().filter_map(|flow| flow.latency).reduce(greatest),
        processors: (!cpu.is_empty()).then(|| cpu.iter().map(|used| used.share).sum()),
        idle: reports.iter().map(|report| report.idle).reduce(f64::min),
        wrong: Wrong {
            changed: wrong(|received| received.changed),
            duplicates: wrong(|received| received.duplicates),
            reordered: wrong(|received| received.reordered),
        },
        ..Figures::default()
    }
}

fn greatest(a: Latency, b: Latency) -> Latency {
    Latency {
        min: a.min.max(b.min),
        mean: a.mean.max(b.mean),
        p50: a.p50.max(b.p50),
        p90: a.p90.max(b.p90),
        p99: a.p99.max(b.p99),
        p99_9: a.p99_9.max(b.p99_9),
        p99_99: a.p99_99.max(b.p99_99),
        max: a.max.max(b.max),
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wrong { changed, duplicates, reordered } = self;
        write!(f, "{changed} packets changed, {duplicates} received twice, {reordered} out of order")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loadgen::app::{FlowReport, Role};

    fn report(role: Role, flows: Vec<FlowReport>, idle: f64) -> AppReport {
        AppReport { role, flows, idle, stalled: 0.0 }
    }

    #[test]
    fn a_flow_is_joined_from_the_reports_of_its_ends() {
        let sent = |flow| FlowReport {
            flow,
            sent: Some(Sent { packets: 100, seconds: 2.0, ..Sent::default() }),
            ..FlowReport::default()
        };
        let received = |flow, packets, p50| FlowReport {
            flow,
            received: Some(Received { packets, bytes: packets * 64, changed: 1, ..Received::default() }),
            latency: Some(Latency { p50, ..Latency::default() }),
            ..FlowReport::default()
        };
        let reports = [
            report(Role::Sender, vec![sent(0)], 0.5),
            report(Role::Receiver, vec![received(0, 90, 5.0)], 0.2),
            report(Role::Sender, vec![sent(2)], 0.4),
            report(Role::Receiver, vec![received(2, 30, 7.0)], 0.3),
        ];
        let cpu = [0.5, 1.0].map(|share| CpuUse { name: "switch".to_owned(), share });
        let figures = of_reports(&reports, &cpu);
        assert_eq!((figures.packets, figures.bits, figures.processors), (Some(60.0), Some(60.0 * 512.0), Some(1.5)));
        assert_eq!((figures.idle, figures.latency.unwrap().p50, figures.wrong.changed), (Some(0.2), 7.0, 2));
        assert_eq!(figures.fairness, Some(3600.0 / (2.0 * (45.0 * 45.0 + 15.0 * 15.0))));
        assert_eq!(of_reports(&[], &[]), Figures::default());
    }
}
