//! The stages of the fabric's queues: put around halves as these come, and changed while queues run.

use super::changes::Changes;
use super::port_stages::PortStages;
use super::queue::{Receive, Transmit};
use super::{Fabric, FabricState};
use crate::port::record::Recorder;
use crate::port::{ReceiveHalf, TransmitHalf};
use crate::queue_id::QueueId;
use crate::stage::egress::Egress;
use crate::stage::ingress::{Ingress, IngressStages};
use crate::stage::mirror::{Mirror, MirrorTo, Probe};
use crate::stage::running::Running;
use crate::stage::setup::Setup;
use crate::stage::shared::Shared;
use crate::switch::layout::Mirroring;
use crate::switch::shared::PortShared;
use std::sync::Arc;

impl Fabric {
    /// Makes a port known before its queues are attached. They get the stages that `setup` asks for.
    pub(in crate::switch) fn register(&self, port: u64, setup: Arc<Setup>) {
        self.state().ports.insert(port, PortStages { setup, running: Arc::default(), probe: None });
    }

    /// Starts or stops recording a port. The previous recorder gets no more frames. Queues continue meanwhile. A worker that
    /// does not respond keeps recording until it does.
    pub(in crate::switch) fn record(&self, port: u64, recorder: Option<Recorder>) {
        let asked = {
            let mut state = self.state();
            let Some(stages) = state.ports.get_mut(&port) else { return };
            Arc::make_mut(&mut stages.setup).recorder = recorder;
            let mut changes = Changes::default();
            state.refresh(port, &mut changes);
            state.ask(changes)
        };
        for unresponsive in asked.into_iter().filter_map(|answer| answer.wait().err()) {
            tracing::error!("a recording is not what it should be: {unresponsive}");
        }
    }
}

impl FabricState {
    /// Returns the transmit queues of a port that are up.
    pub(super) fn running(&self, port: u64) -> Arc<Running> {
        self.ports.get(&port).map(|stages| stages.running.clone()).unwrap_or_default()
    }

    /// Puts the stages of its port around a receive half.
    pub(super) fn ingress(&self, id: QueueId, half: ReceiveHalf) -> Ingress {
        Ingress { half, stages: self.lane_stages(id) }
    }

    /// Returns the stages of a queue, or of a lane of one, that frames come from.
    pub(super) fn lane_stages(&self, id: QueueId) -> IngressStages {
        let Some(PortStages { setup, .. }) = self.ports.get(&id.port) else { return IngressStages::none() };
        setup.prepare(id);
        IngressStages::of(setup, id)
    }

    /// Puts the stages of its port around a transmit half.
    pub(super) fn egress(&self, id: QueueId, half: TransmitHalf) -> Egress {
        let Some(PortStages { setup, .. }) = self.ports.get(&id.port) else { return Egress::new(half) };
        setup.prepare(id);
        Egress::with_stages(half, setup, id)
    }

    /// Replaces those stages of a port that may change while its queues run.
    fn refresh(&mut self, port: u64, changes: &mut Changes) {
        let Some(PortStages { setup, .. }) = self.ports.get(&port) else { return };
        for (&id, queue) in self.queues.range_mut(QueueId::new(port, 0)..QueueId::new(port + 1, 0)) {
            for worker in queue.workers() {
                changes.at(worker).refreshed.insert(port, setup.clone());
            }
            if let Receive::Parked(ingress) = &mut queue.receive {
                ingress.stages.refresh(setup, id);
            }
            match &mut queue.transmit {
                Transmit::Parked(egress) => egress.refresh(setup, id),
                Transmit::Shared(shared) => {
                    let mut egress = shared.lock();
                    egress.iter_mut().flat_map(|egress| egress.iter_mut()).for_each(|egress| egress.refresh(setup, id));
                }
                Transmit::Down | Transmit::Own(_) => {}
            }
        }
    }

    /// Gives the ports of the layout its mirrors. Queues that mirrors copy to are shared by all workers.
    pub(super) fn mirror(&mut self, changes: &mut Changes) {
        let layout = self.layout.clone();
        let probe = |mirror: &Mirroring| self.probe(&layout.ports[mirror.to]);
        let probes: Vec<_> = layout.mirrors.iter().map(probe).collect();
        for port in &layout.ports {
            let mirrors = layout.mirrors.iter().map(|mirror| &mirror.spec).zip(&probes);
            let mirrors = mirrors.filter(|(spec, _)| spec.from.contains(&port.name));
            let mirrors = mirrors.map(|(spec, to)| MirrorTo { direction: spec.direction, at: spec.at, to: to.clone() });
            let mirrors: Vec<_> = mirrors.collect();
            let Some(stages) = self.ports.get_mut(&port.id) else { continue };
            if !layout.is_mirrored_to(port.id) {
                stages.probe = None;
            }
            if stages.setup.mirrors != mirrors {
                Arc::make_mut(&mut stages.setup).mirrors = mirrors;
                self.refresh(port.id, changes);
            }
        }
    }

    /// Returns a port as mirrors copy to it.
    fn probe(&mut self, port: &PortShared) -> Arc<Probe> {
        if let Some(probe) = self.ports.get(&port.id).and_then(|stages| stages.probe.clone()) {
            return probe;
        }
        let queue = |(queue, counters): (usize, &Arc<_>)| (self.share(port.queue(queue)), Arc::clone(counters));
        let queues = port.queues.iter().enumerate().map(queue).collect();
        let probe = Arc::new(Probe::new(queues, self.running(port.id), port.drops.stage(Mirror::NAME).clone()));
        if let Some(stages) = self.ports.get_mut(&port.id) {
            stages.probe = Some(probe.clone());
        }
        probe
    }

    /// Returns a queue that several send to. No worker has its half alone.
    fn share(&mut self, id: QueueId) -> Arc<Shared> {
        let queue = self.queue(id);
        let egress = queue.take_transmit();
        if let Transmit::Shared(shared) = &queue.transmit {
            return shared.clone();
        }
        let is_up = egress.is_some();
        let shared = Arc::new(Shared::new(egress));
        queue.transmit = Transmit::Shared(shared.clone());
        if is_up {
            self.running(id.port).set(id.queue, true);
        }
        shared
    }
}
