//! The switch's data path, as controllers use it.

use engine::stats::{AggregationFlow, Snapshot};
use openflow::{Action, Counters, PacketIn, PortConfig, Rules, WantedPackets};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The switch as controlled by controllers. Called from several threads, one at a time.
pub trait Datapath: Send + Sync {
    /// Returns all counters as they are now.
    fn snapshot(&self) -> Snapshot;
    /// Overlays the configured flows with these, replacing all flows set this way before. NFI 0 means no next hop.
    fn lay_flows(&self, flows: Vec<AggregationFlow>);
    /// Puts flows in force.
    fn set_flows(&self, rules: Rules);
    /// Returns the counters of flows, which their rules have slots in.
    fn flow_counters(&self) -> Arc<Counters>;
    /// Returns how many packets matched no flow since the start, by table.
    fn missed(&self) -> Vec<u64>;
    /// Applies `actions` to a packet, as if it had arrived at `in_port`.
    fn packet_out(&self, in_port: u32, actions: &[Action], data: &[u8]);
    /// Sets what controllers forbid at a port.
    fn configure_port(&self, number: u32, config: PortConfig);
    /// Sets the reasons for which any controller wants packets; at first there are none.
    fn want_packets(&self, wanted: WantedPackets);
    /// Passes packets for controllers to `take`, which reports whether they got them.
    fn packet_ins(&self, take: &mut dyn FnMut(&PacketIn<'_>) -> bool);
    /// Passes to `take` the frames in which other switches relay flows.
    fn relayed_flows(&self, take: &mut dyn FnMut(&[u8]));
    /// Returns a descriptor that is readable when there is something for the last two, until [`Self::clear_notifier`].
    fn notifier(&self) -> BorrowedFd<'_>;
    /// Clears the notifier. Call it before those two.
    fn clear_notifier(&self);
}
