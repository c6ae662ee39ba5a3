//! Control of forwarding by flows, and its statistics.

use super::Switch;
use super::topology::Topology;
use crate::drops::Reason;
use crate::forward::flows::{Datapath, Emission};
use crate::stats::DatapathStats;
use openflow::{Action, Counters, PacketIn, PacketInReason, PortConfig, Rules, WantedPackets};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

impl Switch {
    /// Puts flows in force for the bridge that forwards by them; they stay when the specification changes. Bursts
    /// received after this go by them.
    pub fn set_flows(&self, rules: Rules) {
        self.inner.datapath.set(rules);
    }

    /// Sets what controllers forbid at a port of the bridge that forwards by flows.
    pub fn configure_port(&self, number: u32, config: PortConfig) {
        self.inner.datapath.configure(number, config);
    }

    /// Sets the reasons for which any controller wants packets. There are none at first; packets sent for others are dropped and counted.
    pub fn want_packets(&self, wanted: WantedPackets) {
        self.inner.datapath.want(wanted);
    }

    /// Returns the counters of flows: rules have slots in them.
    pub fn flow_counters(&self) -> Arc<Counters> {
        self.inner.datapath.counters()
    }

    /// Returns how many packets matched no flow, by table. Call this a few times in a second: it frees
    /// what no worker uses any more.
    pub fn missed(&self) -> Vec<u64> {
        self.inner.datapath.missed()
    }

    /// Applies `actions` to a packet that a controller sends, as if `in_port` had received it. The packet is sent soon, after
    /// earlier ones, or dropped and counted: a worker takes some in each round, and the number that may wait is limited.
    pub fn packet_out(&self, in_port: u32, actions: &[Action], data: &[u8]) {
        let emissions = Emission::all(in_port, actions, data);
        if emissions.is_empty() {
            self.inner.datapath.drops.add(Reason::FlowDrop, 1);
        }
        emissions.into_iter().for_each(|emission| self.inner.fabric.emit(emission));
    }

    /// Returns a descriptor that is readable when workers have packets or relayed flows, until [`Self::answer`].
    pub fn notifier(&self) -> BorrowedFd<'_> {
        self.inner.notifier.fd().as_fd()
    }

    /// Clears the notifier. Call this before [`Self::packet_ins`] and [`Self::relayed_flows`].
    pub fn answer(&self) {
        self.inner.notifier.clear();
    }

    /// Passes frames to `take` in which other switches relay flows for the aggregation table.
    pub fn relayed_flows(&self, mut take: impl FnMut(&[u8])) {
        let topology = self.inner.topology();
        topology.layout.ports.iter().filter_map(|port| port.member()).for_each(|member| member.relay.drain(&mut take));
    }

    /// Passes packets for controllers to `take`, which reports whether they got them.
    pub fn packet_ins(&self, mut take: impl FnMut(&PacketIn<'_>) -> bool) {
        self.inner.datapath.punted(|punt, data| {
            let packet = |reason| PacketIn {
                reason,
                cookie: punt.cookie,
                in_port: punt.in_port,
                table: punt.table,
                metadata: punt.metadata,
                tunnel_id: 0,
                data,
                total_len: punt.total as usize,
            };
            PacketInReason::of(punt.reason).is_some_and(|reason| take(&packet(reason)))
        });
    }
}

impl Topology {
    pub(super) fn datapath_stats(&self, datapath: &Datapath) -> Option<DatapathStats> {
        let (spec, numbered) = self.bridges().find_map(|(spec, bridge, _)| Some((spec, bridge.flows.as_ref()?)))?;
        Some(datapath.stats(&spec.name, &spec.ports, numbered))
    }
}
