//! Reasons for dropping frames. Each reason has one name, used in counters, metrics and documentation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)*) => {
        /// A reason for which a frame was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Reason {
            $($(#[doc = $doc])+ $variant,)*
        }

        /// All reasons: name and meaning.
        pub const REASONS: &[(&str, &str)] = &[$(($name, concat!($($doc),+)),)*];
    };
}

reasons! {
    /// The guest behind the destination had posted too few receive buffers: it is slower than the traffic to it.
    NoBuffers = "no-buffers",
    /// The guest's receive buffers are in so many small pieces that one burst has no time to fill them.
    Budget = "budget",
    /// The frame is longer than the destination takes: its buffers without mergeable buffers, its MTU, or its slots.
    TooLong = "too-long",
    /// The destination is down: no guest connected, its queue not enabled, or the interface down.
    Down = "down",
    /// The destination's queue was full: the kernel's, the ring of a loopback port, or a pipe that frames are recorded to.
    Busy = "busy",
    /// A worker of a shared queue held the frame for longer than `stalled-after`: later frames have left before it.
    WorkerStalled = "worker-stalled",
    /// Another worker that sends to the destination hangs there.
    Stuck = "stuck",
    /// The kernel, or the device of a dpdk port, refused the frame at the destination.
    Refused = "refused",
    /// The capture file can't be opened, or it is a pipe without a reader.
    NoFile = "no-file",
    /// The file system of the capture file has no room, or a limit of the file's length is reached.
    NoRoom = "no-room",
    /// The guest offered a descriptor chain with a buffer outside its memory, or a receive buffer that is not to be written to.
    BadBuffer = "bad-buffer",
    /// The guest offered a chain that is too short to hold a frame, or a receive buffer too short for a header.
    Runt = "runt",
    /// The frame leaves work to others that its sender must not leave, or that is not work on such a frame: a checksum outside of it, or
    /// segments of another protocol.
    BadOffload = "bad-offload",
    /// The bridge knows the destination to be behind the port that the frame came from.
    Hairpin = "hairpin",
    /// The frame is for an address that bridges keep to themselves, and the bridge has no `forward-reserved`.
    Reserved = "reserved",
    /// The frame's VLAN is not one that the port carries.
    Vlan = "vlan",
    /// There is no other port in the bridge to send it to, or none that carries its VLAN.
    NoPort = "no-port",
    /// A flow takes one from the frame's time to live, and none is left.
    TimeToLive = "ttl",
    /// A flow changes a field or an address of the frame, and the transport header, whose checksum covers it, is not within the first 256
    /// bytes.
    TooDeep = "too-deep",
    /// A controller has forbidden to receive at the port that the frame came from.
    NoReceive = "no-receive",
    /// A controller has forbidden to send to the destination.
    NoSend = "no-send",
    /// The frame is beyond the rate of a meter that a flow sends it through.
    Meter = "meter",
    /// A table of the bridge has no flow that matches the frame.
    NoFlow = "no-flow",
    /// The flows that match the frame send it nowhere.
    FlowDrop = "flow-drop",
    /// Flows send the frame to more than 256 outputs, and it has not gone to the others.
    Outputs = "outputs",
    /// A flow sends the frame to a port that the bridge does not have.
    UnknownPort = "unknown-port",
    /// A controller has forbidden to show it frames of the port that match no flow but the table-miss flow.
    NoPacketIn = "no-packet-in",
    /// A flow sends the frame to controllers, and none is connected that wants such frames.
    Unwanted = "unwanted",
    /// Controllers take packets more slowly than flows send them from this port.
    ControllerBusy = "controller-busy",
    /// Controllers send packets faster than a worker sends them on in addition to serving its queues.
    ControllerFlood = "controller-flood",
    /// The port is in no patch and no bridge.
    Unconnected = "unconnected",
    /// The packet's service chain is in no flow, and the configuration says that such packets are dropped.
    UnknownChain = "unknown-chain",
    /// An aggregate is of a version of the format that is not known here.
    UnknownVersion = "unknown-version",
    /// The packets in an aggregate are of a type that is not known here.
    UnknownType = "unknown-type",
    /// An aggregate says that it holds nothing.
    Empty = "empty",
    /// An aggregate holds more packets than are taken.
    TooMany = "too-many",
    /// An aggregate, or a frame in a tunnel, ends before a header or a packet in it does.
    Truncated = "truncated",
    /// A packet in an aggregate, or a tunnel's inner frame, is shorter than an Ethernet header.
    EmbeddedRunt = "embedded-runt",
    /// A padding byte of an aggregate is not zero.
    BadPadding = "bad-padding",
    /// Lengths in an aggregate or in a tunnel's headers contradict each other, or those around them.
    LengthMismatch = "length-mismatch",
    /// An aggregate, or a frame in a tunnel, was fragmented on its way.
    Fragmented = "fragmented",
    /// The IPv4 header around an aggregate, or of a tunnel, has a wrong checksum.
    BadIpChecksum = "bad-ip-checksum",
    /// An aggregate, or a frame in a tunnel, has a wrong UDP checksum.
    BadUdpChecksum = "bad-udp-checksum",
    /// An aggregate over IPv6 has no UDP checksum, and the configuration asks for one.
    NoUdpChecksum = "no-udp-checksum",
    /// The VXLAN header around an aggregate, or of a tunnel, has no valid VNI.
    BadVxlanFlags = "bad-vxlan-flags",
    /// The port is the end of a tunnel, and the frame is not VXLAN from its other end to this one.
    NotTunnel = "not-tunnel",
    /// The frame is of another VXLAN network than the port's.
    OtherVni = "other-vni",
    /// The network marked an aggregate as having experienced congestion (CE), and the sender of this packet would not
    /// understand the mark.
    Congested = "congested",
    /// More neighbours ask for the switch's addresses than are answered at a time.
    NeighbourFlood = "neighbour-flood",
    /// A packet in a replayed file is not an Ethernet frame: it is shorter than 14 bytes, or longer than 65,557.
    NotFrame = "not-a-frame",
    /// Dropped on purpose by fault injection.
    Injected = "injected",
    /// More frames are to be delayed by fault injection than it holds.
    DelayFull = "delay-full",
    /// The kernel lost frames before the switch could take them, or they are longer than the buffers it has for them.
    KernelLoss = "kernel-loss",
    /// The device of a dpdk port lost frames before the switch could take them.
    DeviceLoss = "device-loss",
}

/// Reports whether drops for this reason are counted at the destination port; all others are counted at the source.
pub fn is_at_destination(name: &str) -> bool {
    use Reason::{Busy, Down, NoBuffers, NoFile, NoRoom, NoSend, Refused, Stuck, TooLong, UnknownChain};
    [NoBuffers, TooLong, Down, Busy, NoFile, NoRoom, NoSend, Stuck, Refused, UnknownChain]
        .into_iter()
        .any(|reason| REASONS[reason as usize].0 == name)
}

impl From<paflow::Reject> for Reason {
    fn from(reject: paflow::Reject) -> Reason {
        use paflow::Reject;
        match reject {
            Reject::UnknownVersion(_) => Reason::UnknownVersion,
            Reject::UnknownType(_) => Reason::UnknownType,
            Reject::Empty => Reason::Empty,
            Reject::TooMany { .. } => Reason::TooMany,
            Reject::Truncated { .. } => Reason::Truncated,
            Reject::Runt(_) => Reason::EmbeddedRunt,
            Reject::BadPadding(_) => Reason::BadPadding,
            Reject::LengthMismatch { .. } => Reason::LengthMismatch,
            Reject::Fragmented => Reason::Fragmented,
            Reject::BadIpChecksum => Reason::BadIpChecksum,
            Reject::BadUdpChecksum => Reason::BadUdpChecksum,
            Reject::NoUdpChecksum => Reason::NoUdpChecksum,
            Reject::BadVxlanFlags(_) => Reason::BadVxlanFlags,
        }
    }
}

/// Frames dropped at one place, by reason. Several workers may count here, but none does on the path of a frame that is
/// delivered.
#[derive(Debug)]
pub struct Drops {
    frames: [AtomicU64; REASONS.len()],
    cut_short: AtomicU64,
}

impl Default for Drops {
    fn default() -> Self {
        Drops { frames: [const { AtomicU64::new(0) }; REASONS.len()], cut_short: AtomicU64::new(0) }
    }
}

impl Drops {
    /// Counts `frames` dropped for `reason`.
    #[cold]
    pub fn add(&self, reason: Reason, frames: u64) {
        self.frames[reason as usize].fetch_add(frames, Ordering::Relaxed);
    }

    /// Counts bursts that ended at their budget before the ring was empty. This drops nothing.
    #[cold]
    pub fn add_cut_short(&self, bursts: u64) {
        self.cut_short.fetch_add(bursts, Ordering::Relaxed);
    }

    /// Returns the number of bursts that were cut short.
    pub fn cut_short(&self) -> u64 {
        self.cut_short.load(Ordering::Relaxed)
    }

    /// Returns the reasons that occurred, with their counts.
    pub fn named(&self) -> BTreeMap<String, u64> {
        let counts = self.frames.iter().map(|c| c.load(Ordering::Relaxed));
        REASONS.iter().zip(counts).filter(|(_, n)| *n > 0).map(|((name, _), n)| ((*name).to_owned(), n)).collect()
    }
}

/// Frames dropped at one port, by stage. Most reasons do not say which stage it was: a frame can be too long for the
/// queue, for the tunnel, and for a flow's rewriting. So each stage has counters of its own.
#[derive(Debug)]
pub(crate) struct PortDrops {
    /// Counters of the port's own queues, in either direction.
    pub(crate) queue: Arc<Drops>,
    /// Counters of forwarding: of patches, bridges and flows, for frames that came from the port.
    pub(crate) forward: Arc<Drops>,
    stages: BTreeMap<&'static str, Arc<Drops>>,
}

impl PortDrops {
    /// Returns counters for a port that may have `stages`. Stages of one name share theirs.
    pub(crate) fn new(stages: impl Iterator<Item = &'static str>) -> PortDrops {
        PortDrops {
            queue: Arc::default(),
            forward: Arc::default(),
            stages: stages.map(|name| (name, Arc::default())).collect(),
        }
    }

    pub(crate) fn stage(&self, name: &str) -> &Arc<Drops> {
        &self.stages[name]
    }

    /// Returns the stages and the reasons that occurred, with their counts.
    pub(crate) fn named(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        let beside = [("queue", &self.queue), ("forward", &self.forward)];
        let all = beside.into_iter().chain(self.stages.iter().map(|(name, drops)| (*name, drops)));
        all.map(|(name, drops)| (name.to_owned(), drops.named())).filter(|(_, reasons)| !reasons.is_empty()).collect()
    }
}

/// Adds up the drops of all stages, by reason.
pub(crate) fn by_reason(stages: &BTreeMap<String, BTreeMap<String, u64>>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (reason, frames) in stages.values().flatten() {
        *sums.entry(reason.clone()).or_default() += frames;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_counted_by_stage_and_summed_by_reason() {
        let port = PortDrops::new(["mirror", "join", "mirror"].into_iter());
        assert!(port.named().is_empty());
        port.queue.add(Reason::TooLong, 1);
        port.forward.add(Reason::TooLong, 2);
        port.stage("join").add(Reason::TooLong, 4);
        port.stage("join").add(Reason::Down, 8);
        let told = port.named();
        assert_eq!(told.keys().collect::<Vec<_>>(), ["forward", "join", "queue"]);
        assert_eq!(told["join"], [("down".to_owned(), 8), ("too-long".to_owned(), 4)].into());
        assert_eq!(by_reason(&told), [("down".to_owned(), 8), ("too-long".to_owned(), 7)].into());
    }
}
