//! Measurement of one load on two nodes.

use super::results::{Load, Spent};
use crate::aggregation::rig::{Interval, Node, Packets, Placement, Rig, RigError, TwoNodes, TwoNodesConfig, replay};
use engine::stats::{MappingStats, Snapshot, WorkerStats};
use std::time::{Duration, Instant};

/// Time for a new load to fill the rings and wake up sleepers before measuring.
const SETTLE: Duration = Duration::from_millis(100);

/// Longest measurement while nothing of a load comes through: on a busy machine a node may not have had its processor for
/// longer than a short one.
const LONGEST: Duration = Duration::from_secs(20);

/// A reading of a node's counters.
struct Moment {
    counters: Snapshot,
    /// Its processor time so far.
    cpu_time: Duration,
}

/// Two nodes that carry packets.
pub struct Loaded<'r> {
    rig: &'r Rig,
    nodes: TwoNodes,
    placement: Placement,
    packets: Packets,
}

impl<'r> Loaded<'r> {
    /// Starts the nodes.
    pub fn start(rig: &'r Rig, config: TwoNodesConfig, packets: Packets) -> Result<Loaded<'r>, RigError> {
        let placement = config.placement;
        Ok(Loaded { rig, nodes: TwoNodes::start(rig, config)?, placement, packets })
    }

    /// Returns the version of the program between the nodes, if there is one.
    pub fn version(&mut self) -> Option<String> {
        self.nodes.link().version()
    }

    /// Applies a load of `rate` packets per second, and measures it for `seconds`.
    pub fn load(&mut self, rate: Option<u64>, seconds: f64) -> Result<Load, RigError> {
        // A function that joins reports its counters only at its end, so each load has a new one.
        if self.nodes.function().is_none() {
            self.nodes.start_function(self.rig)?;
        }
        self.nodes.a().replace(replay(self.rig, "near", self.packets, rate)?)?;
        let interrupt = self.rig.interrupt();
        interrupt.sleep(SETTLE)?;
        self.nodes.link().take_cycles()?;
        let (before, began) = (self.look()?, Instant::now());
        let after = loop {
            interrupt.sleep(Duration::from_secs_f64(seconds))?;
            let after = self.look()?;
            let node = Interval { before: &before[1].counters, after: &after[1].counters };
            if node.growth(out) > 0 || began.elapsed() > LONGEST {
                break after;
            }
        };
        let link_cycles = self.nodes.link().take_cycles()?;
        let function = self.nodes.stop_function()?;

        let [a, b] = [0, 1].map(|node| Interval { before: &before[node].counters, after: &after[node].counters });
        let passed = b.after.uptime_seconds - b.before.uptime_seconds;
        let out = b.growth(out);
        // Aggregates sent by the function are counted as frames.
        let packed = if self.placement.in_function() && function.frames > 0 {
            function.packets as f64 / function.frames as f64
        } else {
            1.0
        };
        let through = out as f64 * packed;
        let (sent, frames) = on_the_link(a);
        let millions = |count: f64| count / passed / 1e6;
        let spent = |node: usize| spent(&before[node], &after[node], through);
        Ok(Load {
            rate,
            sent: millions(a.growth(|s| packets(s, "near").0) as f64),
            mpps: millions(through),
            packets_a_frame: if frames > 0 { sent as f64 / frames as f64 } else { 1.0 },
            frames: millions(frames as f64),
            a: spent(0),
            b: spent(1),
            in_place: in_place(b),
            function,
            link_cycles,
            drops: a.drops("a.").into_iter().chain(b.drops("b.")).collect(),
        })
    }

    fn look(&mut self) -> Result<[Moment; 2], RigError> {
        let look = |node: &mut Node| -> Result<Moment, RigError> {
            Ok(Moment { counters: node.look()?, cpu_time: node.cpu_time()? })
        };
        Ok([look(self.nodes.a())?, look(self.nodes.b())?])
    }
}

/// Returns the packets that a node received from a port and sent to it.
fn packets(snapshot: &Snapshot, port: &str) -> (u64, u64) {
    let queues = snapshot.ports.iter().filter(|p| p.name == port).flat_map(|p| &p.queues);
    queues.fold((0, 0), |(rx, tx), queue| (rx + queue.rx_packets, tx + queue.tx_packets))
}

/// Returns the frames that the second node sent after they had passed both.
fn out(snapshot: &Snapshot) -> u64 {
    packets(snapshot, "out").1
}

/// Returns the packets that the first node sent to the second one, and their number of frames.
fn on_the_link(node: Interval<'_>) -> (u64, u64) {
    let joined = |s: &Snapshot| {
        let sent = &s.aggregation.as_ref()?.ports.first()?.sent;
        Some((sent.packets, sent.frames))
    };
    let both = |s: &Snapshot| joined(s).unwrap_or_else(|| (packets(s, "wan").1, packets(s, "wan").1));
    (node.growth(|s| both(s).0), node.growth(|s| both(s).1))
}

/// Returns the share of the frames from the link that a node received into buffers of the function, if it has a mapping. The
/// packets of those that were split were then copied.
fn in_place(node: Interval<'_>) -> Option<f64> {
    node.after.mappings.first()?;
    let sum = |count: fn(&MappingStats) -> u64| node.growth(|s| s.mappings.iter().map(count).sum());
    let (in_place, copied) = (sum(|m| m.in_place - m.split), sum(|m| m.split + m.copied));
    Some(in_place as f64 / (in_place + copied).max(1) as f64)
}

fn spent(before: &Moment, after: &Moment, packets: f64) -> Spent {
    let each = |amount: f64| if packets > 0.0 { amount / packets } else { 0.0 };
    let busy = |s: &Snapshot| s.workers.iter().map(|w: &WorkerStats| w.busy_cycles).sum();
    let node = Interval { before: &before.counters, after: &after.counters };
    let stages = after.counters.workers.first().map(|worker| worker.stage_cycles_per_packet.clone());
    Spent {
        cycles: each(node.growth(busy) as f64),
        nanoseconds: each(after.cpu_time.saturating_sub(before.cpu_time).as_nanos() as f64),
        stages: stages.unwrap_or_default(),
    }
}
