//! Statistics of the data path for readers outside it: plain numbers, taken at one moment.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All counters of the switch, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Snapshot {
    /// Seconds since the switch started.
    pub uptime_seconds: f64,
    /// Frequency of the cycle counter that every `*_cycles` figure is in, in Hz.
    pub cycles_hz: u64,
    /// One entry per port, in configuration order.
    pub ports: Vec<PortStats>,
    /// One entry per worker.
    pub workers: Vec<WorkerStats>,
    /// One entry per queue of a mapping.
    #[serde(default)]
    pub mappings: Vec<MappingStats>,
    /// One entry per exchange.
    #[serde(default)]
    pub exchanges: Vec<ExchangeStats>,
    /// Packet aggregation, if it is configured.
    #[serde(default)]
    pub aggregation: Option<AggregationStats>,
    /// The bridge that forwards by a controller's flows, if there is one.
    #[serde(default)]
    pub datapath: Option<DatapathStats>,
}

/// Ports whose functions exchange buffers or pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExchangeStats {
    /// Names of its ports.
    pub ports: Vec<String>,
    /// Mode: `group` or `zcopy`.
    pub mode: String,
    /// Who chose it: `file`, or `auto` for the switch.
    #[serde(default)]
    pub chosen_by: String,
    /// Length in bytes from which frames are exchanged: the configured one, or else the measured one once a function has joined.
    pub threshold: Option<u32>,
    /// Whether that is measured, and not configured.
    pub measured: bool,
    /// The buffers, if the functions share them.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub buffers: Option<GroupBuffers>,
    /// Number of functions that have joined.
    pub functions: usize,
    /// Reason why no function can join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Pairs of ports that had frames for each other.
    pub pairs: Vec<ExchangePair>,
}

/// The buffers of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupBuffers {
    /// Length in bytes of the longest frame that fits into a buffer.
    pub buffer_size: u32,
    /// Number of buffers.
    pub buffers: u16,
    /// Of these, buffers that no function has.
    pub free: usize,
}

/// Frames from one port of an exchange to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExchangePair {
    /// Name of the port that they came from; `None` for all ports outside, and functions that have not joined.
    pub from: Option<String>,
    /// Name of the port that they went to.
    pub to: String,
    /// Frames exchanged.
    pub exchanged: u64,
    /// Frames copied, by reason; only reasons that occurred.
    pub copied: BTreeMap<String, u64>,
}

/// A bridge that forwards by a controller's flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatapathStats {
    /// Its name.
    pub bridge: String,
    /// Its ports, with the numbers that flows use for them.
    pub ports: Vec<DatapathPort>,
    /// Number of flows installed.
    pub flows: usize,
    /// Frames looked up in the flow table.
    pub lookups: u64,
    /// Of these, frames that matched a flow.
    pub matched: u64,
    /// Of these, frames unlike any that the worker remembered, for which it searched the table.
    pub searched: u64,
    /// Packets queued for controllers.
    pub packet_ins: u64,
    /// Packets that controllers did not get: there was no room, or one does not read.
    pub packet_ins_lost: u64,
    /// Packets from controllers that were not sent, by reason; only reasons that occurred.
    pub packet_out_drops: BTreeMap<String, u64>,
}

/// A port of such a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatapathPort {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u32,
    /// Flags that controllers have set at the port: `PORT_DOWN`, `NO_RECV`, `NO_FWD` and `NO_PACKET_IN`.
    #[serde(default)]
    pub config: Vec<String>,
}

/// Packet aggregation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AggregationStats {
    /// Field that identifies a packet's service chain: `vlan` or `vni`.
    pub service_chain_id: String,
    /// Maximum payload of an Ethernet frame that holds an aggregate.
    pub mtu: u16,
    /// Number of flows in the aggregation table.
    pub flows: usize,
    /// Frames in which other switches relayed flows to this one.
    #[serde(default)]
    pub relayed: u64,
    /// One entry per next hop, in configuration order.
    pub next_hops: Vec<NextHopStats>,
    /// One entry per port that aggregates, in configuration order.
    pub ports: Vec<AggregationPort>,
}

/// A next hop, and the aggregates sent to it. Packets that travel alone are only counted by port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NextHopStats {
    /// Its number.
    pub nfi: u16,
    /// Its IP address; none if its aggregates are sent in plain Ethernet frames.
    pub ip: Option<String>,
    /// Its MAC address, or its router's.
    pub mac: String,
    /// The only port that leads to it, if that is known.
    pub port: Option<String>,
    /// Service chains whose packets go to it.
    pub chains: usize,
    /// Aggregates sent to it.
    pub aggregates: u64,
    /// Packets in them.
    pub packets: u64,
}

/// A port that aggregates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AggregationPort {
    /// Its name.
    pub port: String,
    /// Traffic from the network.
    pub received: AggregationSide,
    /// Traffic to the network.
    pub sent: AggregationSide,
}

/// One direction of a port that aggregates. The port's own counters count packets; these count frames on the wire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AggregationSide {
    /// Packets, joined or not.
    pub packets: u64,
    /// Frames on the wire, each with one packet or several.
    pub frames: u64,
    /// Bytes of these frames.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AggregationFlow {
    /// Service chain: a VLAN or a VNI.
    pub sc: u32,
    /// Number of the next hop.
    pub nfi: u16,
}

/// One queue of a mapping.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MappingStats {
    /// The physical queue, as `port.queue`.
    pub from: String,
    /// The guest's queue, as `port.queue`.
    pub to: String,
    /// `bridge` or `pass-through`.
    pub mode: String,
    /// Who chose it: `file`, or `auto` for the switch.
    #[serde(default)]
    pub chosen_by: String,
    /// Whether frames are received into the guest's own buffers.
    pub zero_copy: bool,
    /// Reason if they are not.
    pub reason: Option<String>,
    /// Buffers of the guest on loan now.
    pub on_loan: u64,
    /// Longest loan among those timed, in microseconds.
    pub longest_loan_us: u64,
    /// Frames received into a buffer of the guest.
    pub in_place: u64,
    /// Of these, frames for another destination, which were copied, and frames that were dropped.
    pub elsewhere: u64,
    /// Of these, aggregates, whose packets were copied to other buffers of the guest.
    #[serde(default)]
    pub split: u64,
    /// Frames received into buffers of the switch, because the guest's ran out or because they were steered there.
    pub copied: u64,
    /// Frames of the guest sent without a copy.
    pub sent_in_place: u64,
    /// Frames sent to the physical queue after a copy.
    pub sent_copied: u64,
    /// Mean length of the last bursts, in bytes, from which frames are received into the guest's buffers.
    #[serde(default)]
    pub in_place_from: u32,
    /// Length in bytes from which frames are sent without a copy.
    #[serde(default)]
    pub sent_in_place_from: u32,
    /// Whether these lengths were measured, not configured.
    #[serde(default)]
    pub measured: bool,
}

/// State of one port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PortState {
    /// Whether frames can pass.
    pub up: bool,
    /// Whether frames can pass, a peer is connected, or peers can connect to its socket.
    pub open: bool,
    /// State in one line of text.
    pub detail: String,
}

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PortStats {
    /// Name from the configuration.
    pub name: String,
    /// Driver from the configuration, e.g. `vhost-user`.
    pub driver: String,
    /// Whether frames can pass: a guest is connected and its queues run, or the interface is open.
    pub up: bool,
    /// One line for display: negotiated ring format and features, or why the port is down.
    pub detail: String,
    /// The interface of the kernel, of a port that has one, since it was up for the first time.
    #[serde(default)]
    pub interface: Option<InterfaceStats>,
    /// The work on frames that its peer may leave to the switch and takes over, if the driver knows any, and frames with such work.
    #[serde(default)]
    pub offloads: Option<OffloadStats>,
    /// Forwarding of the port's frames, e.g. `patch b` or `bridge br0`; `mirror of a` for a port that gets copies.
    pub forwarding: String,
    /// One entry per queue pair.
    pub queues: Vec<QueueStats>,
    /// Frames dropped at this port, by reason; only reasons that occurred.
    pub drops: BTreeMap<String, u64>,
    /// The same frames by stage, and by reason there. Beside the stages there are `queue`, the port's own queues, and
    /// `forward`.
    #[serde(default)]
    pub stage_drops: BTreeMap<String, BTreeMap<String, u64>>,
    /// ARP requests and neighbour solicitations for the switch's addresses that were answered.
    #[serde(default)]
    pub neighbours_answered: u64,
    /// Bursts from the guest that ended before the ring was empty, to give other queues their turn: frames were long or
    /// in many pieces. This drops nothing.
    #[serde(default)]
    pub cut_short: u64,
    /// Address learning of its bridge on this port, if it is in one.
    #[serde(default)]
    pub learning: Option<LearningStats>,
    /// Capture files that frames of the port are recorded to: its own if it is a `pcap` port, and the one of `record-to`.
    #[serde(default)]
    pub recordings: Vec<RecordingStats>,
}

/// A capture file that frames are recorded to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RecordingStats {
    /// Its path.
    pub file: String,
    /// Whether it takes frames.
    pub records: bool,
    /// `records`, or the reason why it does not.
    pub state: String,
    /// Frames in the file.
    pub written: u64,
    /// Frames that wait to be written: for a second at most, or for room.
    pub waiting: u64,
    /// Frames that are missing in the file, by reason; only reasons that occurred.
    pub lost: BTreeMap<String, u64>,
}

/// The work on frames that the peer of a port may leave to the switch, and takes over from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OffloadStats {
    /// Kinds of work that the port offers: `checksum`, and `tcp4`, `tcp6`, `ecn` and `udp` for segments of these.
    pub offered: Vec<String>,
    /// Reason for offering these and no others.
    pub why: String,
    /// Frames from the port on which its peer left work.
    #[serde(default)]
    pub received: u64,
    /// Frames to the port whose work was left to its peer.
    #[serde(default)]
    pub passed_on: u64,
    /// Frames to the port whose work the switch did.
    #[serde(default)]
    pub completed: u64,
    /// Frames to the port that were merged into messages.
    #[serde(default)]
    pub merged: u64,
    /// These messages.
    #[serde(default)]
    pub messages: u64,
}

/// An interface of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceStats {
    /// Its MAC address.
    pub mac: String,
    /// Its speed in megabits per second, if its driver tells it.
    pub speed: Option<u32>,
}

/// Address learning on one port of a bridge, since the bridge last changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LearningStats {
    /// Addresses known behind the port, without static ones.
    pub learned: u32,
    /// Maximum number of such addresses.
    pub limit: u32,
    /// Frames whose source was not learned because the port had reached its limit.
    pub over_limit: u64,
    /// Frames whose source was not learned because the table had no room.
    pub no_room: u64,
    /// Frames flooded because their destination was unknown; frames to groups do not count.
    pub flooded: u64,
}

/// One queue pair of a port. "Received" means that the switch took a frame from the port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueStats {
    /// Frames the switch took from this queue.
    pub rx_packets: u64,
    /// Their bytes, with the Ethernet header and without the FCS.
    pub rx_bytes: u64,
    /// Frames the switch put into this queue.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Of the frames taken, those whose sender left work on them to others.
    #[serde(default)]
    pub rx_offloaded: u64,
    /// Of the frames put in, those whose work was left to the peer.
    #[serde(default)]
    pub tx_offloaded: u64,
    /// Frames whose work the switch did before it put them in, each of which may have become several.
    #[serde(default)]
    pub tx_completed: u64,
    /// Of the frames put in, those that were merged into messages.
    #[serde(default)]
    pub tx_merged: u64,
    /// These messages.
    #[serde(default)]
    pub tx_messages: u64,
    /// Receive bursts by size; `bursts[i]` counts sizes up to [`BURST_BOUNDS`]`[i]`.
    pub bursts: [u64; BURST_BOUNDS.len()],
    /// Index of the worker that polls this queue, if any: alone, as its parent, or in turns with others.
    pub worker: Option<usize>,
    /// Kind of sharing, `static-role` or `locked`, if several workers share the queue.
    #[serde(default)]
    pub sharing: Option<String>,
    /// The workers that share it.
    #[serde(default)]
    pub lanes: Vec<LaneStats>,
}

/// A worker's part of a shared queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LaneStats {
    /// Index of the worker.
    pub worker: usize,
    /// Frames that it processed.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
}

/// Upper bounds of the classes of frame lengths, in bytes without FCS.
pub const SIZE_BOUNDS: [u32; 7] = [64, 128, 256, 512, 1024, 1518, 65_535];

/// Upper bounds of the classes of packets in a frame.
pub const PACKETS_BOUNDS: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Upper bounds of the burst histogram's classes, in frames.
pub const BURST_BOUNDS: [u32; 7] = [1, 2, 4, 8, 16, 31, 32];

/// One worker thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerStats {
    /// Index of the worker.
    pub index: usize,
    /// CPU it is pinned to, if any.
    pub cpu: Option<usize>,
    /// Idle policy: `poll`, `backoff` or `sleep`.
    pub idle: String,
    /// Cycles spent in rounds that moved at least one frame.
    pub busy_cycles: u64,
    /// Cycles spent polling without finding frames; time asleep does not count.
    pub idle_cycles: u64,
    /// Rounds that moved at least one frame.
    pub busy_rounds: u64,
    /// Times the worker went to sleep.
    pub sleeps: u64,
    /// Frames received by this worker.
    pub packets: u64,
    /// Cycles per received frame, sampled: of the steps `receive`, `forward` (with transmission) and `recycle`, and of
    /// each stage that ran.
    pub stage_cycles_per_packet: BTreeMap<String, f64>,
    /// Frames in the bursts that were sampled for it, so that a reader of two snapshots can compute their difference.
    #[serde(default)]
    pub sampled_packets: u64,
    /// Cycles per frame that it gets back from other workers, sampled: of the steps `publish` (with reception) and `release`
    /// (with transmission), if it is the parent of a shared queue.
    #[serde(default)]
    pub parent_cycles_per_packet: BTreeMap<String, f64>,
    /// Frames that were sampled for it.
    #[serde(default)]
    pub parent_sampled_packets: u64,
    /// Queues it polls, as `port.queue`. Of queues that it shares with others: `port.queue:parent`, and `port.queue:lane` with the
    /// number of its lane.
    pub queues: Vec<String>,
    /// Its current position, e.g. `port "a" queue 0 (transmit)` or `asleep`.
    #[serde(default)]
    pub place: String,
    /// Seconds since its last round, if it hangs.
    #[serde(default)]
    pub hung_seconds: Option<f64>,
}

/// One entry of a bridge's MAC table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MacEntry {
    /// Bridge name.
    pub bridge: String,
    /// Address, `aa:bb:cc:dd:ee:ff`.
    pub mac: String,
    /// VLAN it was learned in; 0 without VLANs.
    pub vlan: u16,
    /// Port that leads to it.
    pub port: String,
    /// Seconds since it was last seen; none for static entries.
    pub age_seconds: Option<u64>,
}
