//! What anyone outside the data path may read of it: plain numbers, taken at one moment.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything the switch counts, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Seconds since the switch started.
    pub uptime_seconds: f64,
    /// Frequency of the cycle counter that every `*_cycles` figure is in, in Hz.
    pub cycles_hz: u64,
    /// One entry a port, in configuration order.
    pub ports: Vec<PortStats>,
    /// One entry a worker.
    pub workers: Vec<WorkerStats>,
    /// One entry for each queue of a mapping.
    #[serde(default)]
    pub mappings: Vec<MappingStats>,
    /// What is joined and split, if that is configured.
    #[serde(default)]
    pub aggregation: Option<AggregationStats>,
    /// The bridge that forwards by a controller's flows, if there is one.
    #[serde(default)]
    pub datapath: Option<DatapathStats>,
}

/// A bridge that forwards by a controller's flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatapathStats {
    /// Its name.
    pub bridge: String,
    /// Its ports, with the numbers that flows name them by.
    pub ports: Vec<DatapathPort>,
    /// Flows in force.
    pub flows: usize,
    /// Frames that a flow was looked up for.
    pub lookups: u64,
    /// Of these, frames that a flow was found for.
    pub matched: u64,
    /// Of these, frames that were like none that the worker remembered, so that the table was searched.
    pub searched: u64,
    /// Packets that were taken for controllers.
    pub packet_ins: u64,
    /// Packets that were not, because there was no room left.
    pub packet_ins_lost: u64,
    /// Packets of controllers that were not sent, by reason; only reasons that occurred.
    pub packet_out_drops: BTreeMap<String, u64>,
}

/// A port of such a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatapathPort {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u32,
}

/// Packet aggregation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AggregationStats {
    /// What tells the service chain of a packet: `vlan` or `vni`.
    pub service_chain_id: String,
    /// Longest payload of an Ethernet frame that an aggregate is in.
    pub mtu: u16,
    /// Number of flows in the aggregation table.
    pub flows: usize,
    /// Frames in which other switches relayed flows for it.
    #[serde(default)]
    pub relayed: u64,
    /// One entry a next hop, in configuration order.
    pub next_hops: Vec<NextHopStats>,
    /// One entry for each port that aggregates, in configuration order.
    pub ports: Vec<AggregationPort>,
}

/// A next hop, and what was sent to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NextHopStats {
    /// Its number.
    pub nfi: u16,
    /// Its IP address; none if aggregates to it are in plain Ethernet frames.
    pub ip: Option<String>,
    /// Its MAC address, or its router's.
    pub mac: String,
    /// The only port that it is behind, if that is known.
    pub port: Option<String>,
    /// Service chains whose packets go to it.
    pub chains: usize,
    /// Packets sent to it.
    pub packets: u64,
    /// Frames that they went in.
    pub frames: u64,
    /// Of these, aggregates.
    pub aggregates: u64,
}

/// A port that aggregates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AggregationPort {
    /// Its name.
    pub port: String,
    /// What came from the network.
    pub received: AggregationSide,
    /// What went there.
    pub sent: AggregationSide,
}

/// One direction of a port that aggregates. The port's own counters are of packets; these tell what is on the wire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AggregationSide {
    /// Packets, each by itself.
    pub packets: u64,
    /// Frames on the wire, whether they hold several packets or are one.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, aggregates.
    pub aggregates: u64,
    /// Frames by length; `sizes[i]` counts lengths up to [`SIZE_BOUNDS`]`[i]`.
    pub sizes: [u64; SIZE_BOUNDS.len()],
    /// Frames by number of packets; `held[i]` counts numbers up to [`PACKETS_BOUNDS`]`[i]`.
    pub held: [u64; PACKETS_BOUNDS.len()],
}

/// One entry of the aggregation table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AggregationFlow {
    /// Service chain: a VLAN or a VNI.
    pub sc: u32,
    /// Number of the next hop.
    pub nfi: u16,
}

/// One queue of a mapping.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MappingStats {
    /// The physical queue, as `port.queue`.
    pub from: String,
    /// The guest's queue, as `port.queue`.
    pub to: String,
    /// `bridge` or `pass-through`.
    pub mode: String,
    /// Frames are received into the guest's own buffers.
    pub zero_copy: bool,
    /// Why they are not, if so.
    pub reason: Option<String>,
    /// Buffers of the guest that are out at present.
    pub on_loan: u64,
    /// Longest time that one was out, of those that were timed, in microseconds.
    pub longest_loan_us: u64,
    /// Frames that were received into a buffer of the guest.
    pub in_place: u64,
    /// Of these, frames that were for somebody else, and copied or dropped.
    pub elsewhere: u64,
    /// Frames that were received into buffers of the switch, for want of the guest's or because they were steered there.
    pub copied: u64,
    /// Frames of the guest that were sent from where they lay.
    pub sent_in_place: u64,
    /// Frames that were sent to the physical queue after a copy.
    pub sent_copied: u64,
    /// From so many bytes on frames are sent from where they lie.
    pub copy_break: u32,
}

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortStats {
    /// Name from the configuration.
    pub name: String,
    /// Driver from the configuration, e.g. `vhost-user`.
    pub driver: String,
    /// Frames can pass: a guest is connected and its queues run, or the interface is open.
    pub up: bool,
    /// One line for people: negotiated ring format and features, or why the port is down.
    pub detail: String,
    /// Where the port's frames go, e.g. `patch b` or `bridge br0`.
    pub forwarding: String,
    /// One entry a queue pair.
    pub queues: Vec<QueueStats>,
    /// Frames that ended at this port without being sent, by reason; only reasons that occurred.
    pub drops: BTreeMap<String, u64>,
    /// ARP requests and neighbour solicitations for the switch's addresses that were answered.
    #[serde(default)]
    pub neighbours_answered: u64,
    /// Bursts from the port's guest that ended before all was taken that was there: its frames were long, or in many pieces,
    /// and other queues had their turn first. Nothing is dropped by that.
    #[serde(default)]
    pub cut_short: u64,
    /// What its bridge learns from it, if it is in one.
    #[serde(default)]
    pub learning: Option<LearningStats>,
}

/// What a bridge learns from one of its ports, since it was last changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearningStats {
    /// Addresses that are known to be behind the port; static ones do not count.
    pub learned: u32,
    /// Most that there may be.
    pub limit: u32,
    /// Frames whose source was not learned because there were as many.
    pub over_limit: u64,
    /// Frames whose source was not learned because the table had no room for it.
    pub no_room: u64,
    /// Frames that went to all other ports because nobody knew their destination; those to groups do not count.
    pub flooded: u64,
}

/// One queue pair of a port. Received means: the switch took it from the port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueStats {
    /// Frames the switch took from this queue.
    pub rx_packets: u64,
    /// Their bytes, Ethernet header included, FCS not.
    pub rx_bytes: u64,
    /// Frames the switch put into this queue.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Receive bursts by size; `bursts[i]` counts sizes up to [`BURST_BOUNDS`]`[i]`.
    pub bursts: [u64; BURST_BOUNDS.len()],
    /// CPU index of the worker that polls this queue, if any.
    pub worker: Option<usize>,
}

/// Upper bounds of the classes of frame lengths, in bytes without FCS.
pub const SIZE_BOUNDS: [u32; 7] = [64, 128, 256, 512, 1024, 1518, 65_535];

/// Upper bounds of the classes of packets in a frame.
pub const PACKETS_BOUNDS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Upper bounds of the burst histogram's classes, in frames.
pub const BURST_BOUNDS: [u32; 7] = [1, 2, 4, 8, 16, 31, 32];

/// One worker thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerStats {
    /// Index of the worker.
    pub index: usize,
    /// CPU it is pinned to, if any.
    pub cpu: Option<usize>,
    /// Idle policy: `poll`, `backoff` or `sleep`.
    pub idle: String,
    /// Cycles spent in rounds that moved at least one frame.
    pub busy_cycles: u64,
    /// Cycles spent polling in vain; time asleep does not count.
    pub idle_cycles: u64,
    /// Rounds that moved at least one frame.
    pub busy_rounds: u64,
    /// Times the worker went to sleep.
    pub sleeps: u64,
    /// Frames received by this worker.
    pub packets: u64,
    /// Cycles per frame of each stage (`receive`, `forward`, `transmit`, `recycle`), sampled.
    pub stage_cycles_per_packet: BTreeMap<String, f64>,
    /// Queues it polls, as `port.queue`.
    pub queues: Vec<String>,
    /// Where it is, e.g. `port "a" queue 0 (transmit)` or `asleep`.
    #[serde(default)]
    pub place: String,
    /// How long it has made no round, if it hangs.
    #[serde(default)]
    pub hung_seconds: Option<f64>,
}

/// One entry of a bridge's MAC table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MacEntry {
    /// Bridge name.
    pub bridge: String,
    /// Address, `aa:bb:cc:dd:ee:ff`.
    pub mac: String,
    /// VLAN it was learned in; 0 without VLANs.
    pub vlan: u16,
    /// Port it is behind.
    pub port: String,
    /// Seconds since it was last seen; none for static entries.
    pub age_seconds: Option<u64>,
}
