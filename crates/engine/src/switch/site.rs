//! The place of a port in the switch: connects an open port to its shared state, the workers and its mapping.

use super::fabric::Fabric;
use super::shared::PortShared;
use crate::drops::Drops;
use crate::port::files::FileUses;
use crate::port::record::Recorder;
use crate::port::zero_copy::{GuestEnd, PhysicalEnd};
use crate::port::{ExchangeMember, Kept, ReceiveHalf, SessionFault, Site, TransmitHalf};
use crate::queue_id::QueueId;
use crate::stats::{InterfaceStats, OffloadStats};
use packet::MacAddr;
use std::sync::Arc;
use vhost_user::Event;

/// The place of a port.
pub(super) struct PortSite {
    shared: Arc<PortShared>,
    fabric: Arc<Fabric>,
}

impl PortSite {
    /// Returns the place of the port with this state.
    pub(super) fn of(shared: &Arc<PortShared>, fabric: &Arc<Fabric>) -> Arc<dyn Site> {
        Arc::new(PortSite { shared: shared.clone(), fabric: fabric.clone() })
    }

    fn queue(&self, queue: usize) -> QueueId {
        self.shared.queue(queue)
    }
}

impl Site for PortSite {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn queues(&self) -> usize {
        self.shared.queues.len()
    }

    fn drops(&self) -> &Arc<Drops> {
        &self.shared.drops.queue
    }

    fn fault(&self) -> &Arc<SessionFault> {
        &self.shared.fault
    }

    #[cfg(feature = "analysis")]
    fn analysis(&self) -> crate::port::Analysis {
        self.shared.analysis()
    }

    fn overhead(&self) -> u32 {
        self.shared.tunnel().map_or(0, |end| end.overhead())
    }

    fn aggregates(&self) -> bool {
        self.shared.member().is_some()
    }

    fn needs_complete(&self) -> Option<&'static str> {
        let reasons = [
            (self.shared.member().is_some(), "the port aggregates"),
            (self.shared.tunnel().is_some(), "a tunnel ends at the port"),
            (self.shared.injects_faults(), "faults are injected at the port"),
            (<dyn Site>::is_mapped(self), "the port is mapped"),
            (self.exchange().is_some(), "the port exchanges buffers"),
        ];
        reasons.into_iter().find_map(|(is_so, reason)| is_so.then_some(reason))
    }

    fn set_offloads(&self, offloads: OffloadStats) {
        self.shared.set_offloads(offloads);
    }

    fn physical_end(&self, queue: usize) -> Option<&dyn PhysicalEnd> {
        self.shared.ends().physical(queue)
    }

    fn guest_end(&self, queue: usize) -> Option<&dyn GuestEnd> {
        self.shared.ends().guest(queue)
    }

    fn exchange(&self) -> Option<&ExchangeMember> {
        self.shared.exchange()
    }

    fn set_state(&self, up: bool, detail: String) {
        self.shared.set_state(up, detail);
    }

    fn set_guest(&self, guest: Result<(), String>) {
        self.shared.set_guest(guest);
    }

    fn set_open(&self, open: bool) {
        self.shared.set_open(open);
    }

    fn set_interface(&self, mac: MacAddr, speed: Option<u32>) {
        self.shared.set_interface(InterfaceStats { mac: mac.to_string(), speed });
    }

    fn set_disconnect(&self, disconnect: Box<dyn Fn() + Send + Sync>) {
        self.shared.set_disconnect(disconnect);
    }

    fn files(&self) -> &Arc<FileUses> {
        self.shared.files()
    }

    fn write_to(&self, file: Recorder) {
        self.shared.write_to(file);
    }

    fn attach_receive(&self, queue: usize, half: ReceiveHalf) -> Result<(), Kept> {
        self.fabric.attach_receive(self.queue(queue), half)
    }

    fn attach_transmit(&self, queue: usize, half: TransmitHalf) -> Result<(), Kept> {
        self.fabric.attach_transmit(self.queue(queue), half)
    }

    fn detach_receive(&self, queue: usize) -> Result<Option<ReceiveHalf>, Kept> {
        self.fabric.detach_receive(self.queue(queue))
    }

    fn detach_transmit(&self, queue: usize) -> Result<Option<TransmitHalf>, Kept> {
        self.fabric.detach_transmit(self.queue(queue))
    }

    fn rewire(&self, queue: usize, kick: Option<Event>) -> Result<(), Kept> {
        self.fabric.rewire(self.queue(queue), kick)
    }

    fn clear(&self, queues: usize) {
        self.fabric.clear(self.shared.id, 0..queues);
    }
}
