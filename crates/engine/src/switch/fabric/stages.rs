//! The stages of the fabric's queues: put around halves as these come, and changed while queues run.

use super::{Fabric, QueueKey, ReceiveHalf, State, TransmitHalf};
use crate::port::record::Recorder;
use crate::stage::egress::Egress;
use crate::stage::ingress::Ingress;
use crate::stage::setup::Setup;
use crate::worker::Worker;
use std::sync::Arc;

impl Fabric {
    /// Makes a port known before its queues are attached. They get the stages that `setup` asks for.
    pub(in crate::switch) fn register(&self, port: u64, setup: Arc<Setup>) {
        self.state().setups.insert(port, setup);
    }

    /// Starts or stops recording a port. Returns the previous recorder, which gets no more frames. Queues continue
    /// meanwhile. A worker that does not respond keeps recording until it does.
    pub(in crate::switch) fn record(&self, port: u64, recorder: Option<Recorder>) -> Option<Recorder> {
        let mut state = self.state();
        let setup = Arc::make_mut(state.setups.get_mut(&port)?);
        let ended = std::mem::replace(&mut setup.recorder, recorder);
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
        ended
    }

    /// Returns the present recorder of a port.
    pub(in crate::switch) fn recorder(&self, port: u64) -> Option<Recorder> {
        self.state().setups.get(&port)?.recorder.clone()
    }

    /// Returns all present recorders.
    pub(in crate::switch) fn recorders(&self) -> Vec<Recorder> {
        self.state().setups.values().filter_map(|setup| setup.recorder.clone()).collect()
    }
}

impl State {
    /// Puts the stages of its port around a receive half.
    pub(super) fn ingress(&self, key: QueueKey, half: ReceiveHalf) -> Ingress {
        let Some(setup) = self.setups.get(&key.0) else { return Ingress::new(half) };
        setup.prepare(key.1);
        Ingress::with_stages(half, setup, key.1)
    }

    /// Puts the stages of its port around a transmit half.
    pub(super) fn egress(&self, key: QueueKey, half: TransmitHalf) -> Egress {
        let Some(setup) = self.setups.get(&key.0) else { return Egress::new(half) };
        setup.prepare(key.1);
        Egress::with_stages(half, setup, key.1)
    }

    /// Makes those stages of a port anew that may change while its queues run, at queues that no single worker has.
    fn refresh(&mut self, port: u64) {
        let setup = &self.setups[&port];
        for (key, ingress) in self.parked_receive.iter_mut().filter(|(key, _)| key.0 == port) {
            ingress.refresh(setup, key.1);
        }
        for (key, egress) in self.parked_transmit.iter_mut().filter(|(key, _)| key.0 == port) {
            egress.refresh(setup, key.1);
        }
        for (key, shared) in self.shared.iter().filter(|(key, _)| key.0 == port) {
            let mut egress = shared.lock();
            egress.iter_mut().flat_map(|egress| egress.iter_mut()).for_each(|egress| egress.refresh(setup, key.1));
        }
    }
}
