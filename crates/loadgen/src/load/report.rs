//! Results of a load.

use super::options::TouchLevel;
use super::pump::Tally;
use super::sequence::Counts;
use crate::cycles::Elapsed;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Conditions of a load.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Bytes of a frame.
    pub size: u16,
    /// Part of each frame that is touched.
    pub touch: TouchLevel,
    /// Negotiated ring format and features, the same for all ports.
    pub features: String,
    /// Kind of pages of the load's memory.
    pub memory: String,
}

/// Counters of a load at one moment.
#[derive(Clone, Debug)]
pub struct Accounts {
    /// Frames, for each port.
    pub counts: Vec<Counts>,
    /// Rounds and cycles.
    pub tally: Tally,
}

/// Results of one load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Negotiated ring format and features, the same for all ports.
    pub features: String,
    /// Kind of pages of the load's memory.
    pub memory: String,
    /// Bytes of a frame.
    pub size: u16,
    /// Part of each frame that was touched.
    pub touch: TouchLevel,
    /// Seconds measured.
    pub seconds: f64,
    /// Frames received by all ports together.
    pub packets: u64,
    /// Millions of them per second.
    pub mpps: f64,
    /// Their bits per second, in units of 10^9, without preamble, checksum and gap.
    pub gbps: f64,
    /// Millions per second received by each port.
    pub port_mpps: Vec<f64>,
    /// The load's own cycles per frame, sending and receiving, in rounds that moved frames.
    pub load_cycles_per_packet: f64,
    /// Share of the load's rounds that found nothing to do. Near zero, the load is the limit.
    pub idle_rounds: f64,
    /// Share of the load's cycles spent in such rounds.
    pub idle_cycles: f64,
    /// Share of one processor that the load had. It polls: with less than all, something else ran there.
    pub cpu_share: f64,
    /// Frequency of the cycle counter, in GHz.
    pub tsc_ghz: f64,
    /// Frames that came back changed.
    pub corrupt: u64,
    /// Frames that did not come back.
    pub lost: u64,
    /// Frames that came twice, or after they were counted as lost.
    pub late: u64,
}

impl Report {
    /// Computes the difference between two moments, `Elapsed` apart.
    pub fn between(
        Conditions { size, touch, features, memory }: Conditions,
        Elapsed { seconds, cycles, processor }: Elapsed,
        Accounts { counts: counts_before, tally: before }: &Accounts,
        Accounts { counts: counts_after, tally: after }: &Accounts,
    ) -> Report {
        let of = |field: fn(&Counts) -> u64| -> Vec<u64> {
            counts_after.iter().zip(counts_before).map(|(a, b)| field(a) - field(b)).collect()
        };
        let received = of(|c| c.received);
        let packets: u64 = received.iter().sum();
        let idle = (after.idle_rounds - before.idle_rounds) as f64;
        let busy = (after.busy_rounds - before.busy_rounds) as f64;
        let idle_cycles = (after.idle_cycles - before.idle_cycles) as f64;
        let busy_cycles = (after.busy_cycles - before.busy_cycles) as f64;
        Report {
            features,
            memory,
            size,
            touch,
            seconds,
            packets,
            mpps: packets as f64 / seconds / 1e6,
            gbps: packets as f64 * f64::from(size) * 8.0 / seconds / 1e9,
            port_mpps: received.iter().map(|&n| n as f64 / seconds / 1e6).collect(),
            load_cycles_per_packet: busy_cycles / packets.max(1) as f64,
            idle_rounds: idle / (idle + busy).max(1.0),
            idle_cycles: idle_cycles / (idle_cycles + busy_cycles).max(1.0),
            cpu_share: processor / seconds,
            tsc_ghz: cycles as f64 / seconds / 1e9,
            corrupt: of(|c| c.corrupt).iter().sum(),
            lost: of(|c| c.lost).iter().sum(),
            late: of(|c| c.late).iter().sum(),
        }
    }

    /// Reports whether frames were lost, changed or repeated.
    pub fn has_errors(&self) -> bool {
        self.corrupt + self.lost + self.late > 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports: Vec<String> = self.port_mpps.iter().map(|m| format!("{m:.2}")).collect();
        writeln!(f, "{} B, touch {}, {}, memory: {}", self.size, self.touch, self.features, self.memory)?;
        writeln!(f, "throughput  {:.2} Mpps = {} by port, {:.2} Gbit/s", self.mpps, ports.join(" + "), self.gbps)?;
        writeln!(
            f,
            "load        {:.1} cycles/packet busy, idle in {:.1} % of rounds and {:.1} % of cycles at {:.2} GHz",
            self.load_cycles_per_packet,
            100.0 * self.idle_rounds,
            100.0 * self.idle_cycles,
            self.tsc_ghz
        )?;
        write!(f, "errors      {} lost, {} corrupt, {} late or twice", self.lost, self.corrupt, self.late)
    }
}
