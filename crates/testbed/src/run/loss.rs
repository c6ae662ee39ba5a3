//! Packets sent and received, over all flows of a run.

use loadgen::app::AppReport;

/// Packets of all flows, by both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Packets that were due.
    pub due: u64,
    /// Packets that arrived.
    pub received: u64,
    /// Seconds of sending.
    pub seconds: f64,
}

impl Totals {
    /// Adds up the reports of a run.
    pub fn of(reports: &[AppReport]) -> Totals {
        let mut totals = Totals::default();
        for flow in reports.iter().flat_map(|report| &report.flows) {
            if let Some(sent) = &flow.sent {
                totals.due += sent.packets + sent.refused;
                totals.seconds = totals.seconds.max(sent.seconds);
            }
            totals.received += flow.received.map_or(0, |received| received.packets);
        }
        totals
    }

    /// Returns the share of packets that were due and did not arrive.
    pub fn loss(&self) -> f64 {
        if self.due == 0 { 1.0 } else { self.due.saturating_sub(self.received) as f64 / self.due as f64 }
    }

    /// Returns the packets per second that arrived.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.received as f64 / self.seconds } else { 0.0 }
    }

    /// Returns the packets per second that were due.
    pub fn offered(&self) -> f64 {
        if self.seconds > 0.0 { self.due as f64 / self.seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loadgen::app::{FlowReport, Received, Role, Sent};

    #[test]
    fn both_ends_of_all_flows_count() {
        let flow = |sent, received: Option<u64>| FlowReport {
            sent: Some(Sent { packets: sent, bytes: 0, refused: 10, seconds: 2.0 }),
            received: received.map(|packets| Received { packets, ..Received::default() }),
            ..FlowReport::default()
        };
        let report = |flows| AppReport { role: Role::Sender, flows, idle: 0.0, stalled: 0.0 };
        let received =
            FlowReport { received: Some(Received { packets: 50, ..Received::default() }), ..FlowReport::default() };
        let totals = Totals::of(&[report(vec![flow(90, Some(80)), flow(90, None)]), report(vec![received])]);
        assert_eq!(totals, Totals { due: 200, received: 130, seconds: 2.0 });
        assert_eq!((totals.loss(), totals.rate(), totals.offered()), (0.35, 65.0, 100.0));
        assert_eq!(Totals::default().loss(), 1.0);
    }
}
