//! Counters: each is written by one worker at a time and read by anyone.

pub use handover::Counter;

use crate::stats::{BURST_BOUNDS, QueueStats};

/// Counters of one direction of a queue, on separate cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Direction {
    /// Frames.
    pub packets: Counter,
    /// Bytes of these frames.
    pub bytes: Counter,
    bursts: [Counter; BURST_BOUNDS.len()],
    /// Of these frames, those that left work to the switch or to the peer.
    pub offloaded: Counter,
}

impl Direction {
    /// Counts a burst.
    #[inline(always)]
    pub fn burst(&self, packets: usize, bytes: u64) {
        self.packets.add(packets as u64);
        self.bytes.add(bytes);
        // 1, 2, 3..4, 5..8, 9..16, 17..31, 32: the logarithm, with the full burst apart.
        let class = if packets >= 32 { 6 } else { (usize::BITS - (packets.max(1) - 1).leading_zeros()) as usize };
        self.bursts[class].add(1);
    }
}

/// A queue pair's counters.
#[derive(Debug, Default)]
pub struct QueueCounters {
    /// From the port.
    pub received: Direction,
    /// To the port.
    pub sent: Direction,
    /// Frames to the port whose work the switch did.
    pub completed: Counter,
    /// Frames to the port that were merged into messages.
    pub merged: Counter,
    /// These messages.
    pub messages: Counter,
}

impl QueueCounters {
    /// The numbers now.
    pub fn stats(&self) -> QueueStats {
        QueueStats {
            rx_packets: self.received.packets.get(),
            rx_bytes: self.received.bytes.get(),
            tx_packets: self.sent.packets.get(),
            tx_bytes: self.sent.bytes.get(),
            rx_offloaded: self.received.offloaded.get(),
            tx_offloaded: self.sent.offloaded.get(),
            tx_completed: self.completed.get(),
            tx_merged: self.merged.get(),
            tx_messages: self.messages.get(),
            bursts: std::array::from_fn(|i| self.received.bursts[i].get()),
            worker: None,
            sharing: None,
            lanes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_fall_into_their_classes() {
        let d = Direction::default();
        for size in 1..=32 {
            d.burst(size, 0);
        }
        let counts: Vec<_> = d.bursts.iter().map(Counter::get).collect();
        assert_eq!(counts, [1, 1, 2, 4, 8, 15, 1]);
    }
}
