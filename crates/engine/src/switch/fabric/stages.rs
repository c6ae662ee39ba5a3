//! The stages of the fabric's queues: put around halves as these come, and changed while queues run.

use super::{Fabric, FabricState, Halves, Layout, QueueKey, ReceiveHalf, TransmitHalf};
use crate::port::record::Recorder;
use crate::stage::egress::Egress;
use crate::stage::ingress::{Ingress, IngressStages};
use crate::stage::mirror::{Mirror, MirrorTo, Probe};
use crate::stage::setup::Setup;
use crate::switch::layout::Mirroring;
use crate::switch::shared::PortShared;
use crate::worker::Worker;
use std::sync::Arc;

impl Fabric {
    /// Makes a port known before its queues are attached. They get the stages that `setup` asks for.
    pub(in crate::switch) fn register(&self, port: u64, setup: Arc<Setup>) {
        self.state().setups.insert(port, setup);
    }

    /// Starts or stops recording a port. The previous recorder gets no more frames. Queues continue meanwhile. A worker that
    /// does not respond keeps recording until it does.
    pub(in crate::switch) fn record(&self, port: u64, recorder: Option<Recorder>) {
        let mut state = self.state();
        let Some(setup) = state.setups.get_mut(&port) else { return };
        Arc::make_mut(setup).recorder = recorder;
        state.refresh(port);
        let setup = &state.setups[&port];
        let refresh = |worker: &Worker| {
            let setup = setup.clone();
            worker.ask(move |plan| plan.refresh(port, &setup))
        };
        let asked: Vec<_> = state.workers.iter().map(|(_, worker)| refresh(worker)).collect();
        drop(state);
        for unresponsive in asked.into_iter().filter_map(|answer| answer.wait().err()) {
            tracing::error!("a recording is not what it should be: {unresponsive}");
        }
    }
}

impl FabricState {
    /// Puts the stages of its port around a receive half.
    pub(super) fn ingress(&self, key: QueueKey, half: ReceiveHalf) -> Ingress {
        let Some(setup) = self.setups.get(&key.port) else { return Ingress::new(half) };
        setup.prepare(key.queue);
        Ingress { half, stages: IngressStages::of(setup, key.queue) }
    }

    /// Returns the stages of a lane of a shared queue.
    pub(super) fn lane_stages(&self, key: QueueKey) -> IngressStages {
        let Some(setup) = self.setups.get(&key.port) else { return IngressStages::none() };
        setup.prepare_stages(key.queue);
        IngressStages::of(setup, key.queue)
    }

    /// Puts the stages of its port around a transmit half.
    pub(super) fn egress(&self, key: QueueKey, half: TransmitHalf) -> Egress {
        let Some(setup) = self.setups.get(&key.port) else { return Egress::new(half) };
        setup.prepare(key.queue);
        Egress::with_stages(half, setup, key.queue)
    }

    /// Replaces those stages of a port that may change while its queues run, at queues that no single worker has.
    fn refresh(&mut self, port: u64) {
        let setup = &self.setups[&port];
        for (key, ingress) in self.parked_receive.iter_mut().filter(|(key, _)| key.port == port) {
            ingress.stages.refresh(setup, key.queue);
        }
        for (key, egress) in self.parked_transmit.iter_mut().filter(|(key, _)| key.port == port) {
            egress.refresh(setup, key.queue);
        }
        for (key, shared) in self.shared.iter().filter(|(key, _)| key.port == port) {
            let mut egress = shared.lock();
            egress.iter_mut().flat_map(|egress| egress.iter_mut()).for_each(|egress| egress.refresh(setup, key.queue));
        }
    }

    /// Replaces the stages of all queues that may change while queues run, with the mirrors of `layout`. Queues that
    /// mirrors copy to are shared by all workers.
    pub(super) fn mirror(&mut self, layout: &Layout, halves: &mut Halves) {
        let probe = |mirror: &Mirroring| Arc::new(self.probe(&layout.ports[mirror.to], halves));
        let probes: Vec<_> = layout.mirrors.iter().map(probe).collect();
        for port in &layout.ports {
            let mirrors = layout.mirrors.iter().map(|mirror| &mirror.spec).zip(&probes);
            let mirrors = mirrors.filter(|(spec, _)| spec.from.contains(&port.name));
            let mirrors = mirrors.map(|(spec, to)| MirrorTo { direction: spec.direction, at: spec.at, to: to.clone() });
            let mirrors = mirrors.collect();
            if let Some(setup) = self.setups.get_mut(&port.id) {
                Arc::make_mut(setup).mirrors = mirrors;
                // Queues that mirrors copy to are no longer among the halves.
                self.refresh(port.id);
            }
        }
        for (key, ingress) in &mut halves.receive {
            self.setups.get(&key.port).iter().for_each(|setup| ingress.stages.refresh(setup, key.queue));
        }
        for (key, egress) in halves.transmit.iter_mut() {
            self.setups.get(&key.port).iter().for_each(|setup| egress.refresh(setup, key.queue));
        }
    }

    fn probe(&mut self, port: &PortShared, halves: &mut Halves) -> Probe {
        let queue = |(queue, counters): (usize, &Arc<_>)| (self.share(port.key(queue), halves), Arc::clone(counters));
        let queues = port.queues.iter().enumerate().map(queue).collect();
        Probe::new(queues, self.running(port.id), port.drops.stage(Mirror::NAME).clone())
    }
}
