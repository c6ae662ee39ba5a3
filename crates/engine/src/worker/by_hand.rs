//! A worker without a thread: its owner runs its rounds. For analysis under a model of a processor, which has one at a time.

use super::{Input, OutputQueue, Plan};
use crate::clock::{self, Cycles};
use crate::forward::{Half, Output, Target, TransmitQueue};
use crate::monitor::WorkerCounters;
use crate::port::{RxQueue, TxQueue};
use crate::spec::MAX_QUEUES;
use crate::stage::egress::Egress;
use crate::stage::ingress::Ingress;
use std::sync::Arc;

/// A worker that moves frames from one queue to another.
pub struct ByHand {
    plan: Plan,
    /// The time of all rounds, so that each of them does the same.
    now: u64,
}

impl ByHand {
    /// Returns a worker that moves frames from `input` to `output`. If they are the ends of a mapping, `lends` says
    /// that the output's guest lends its buffers, `keeps` that the output may keep the input's chains.
    pub fn new(input: Box<dyn RxQueue>, output: Box<dyn TxQueue>, lends: bool, keeps: bool) -> ByHand {
        clock::start();
        let cycles = Cycles::new();
        let counters = Arc::<WorkerCounters>::default();
        let mut plan = Plan::new(counters.clone(), cycles.clone(), None);
        let mapped = OutputQueue { output: 0, queue: 0 };
        plan.inputs.push(Input {
            port: 0,
            queue: 0,
            ingress: Some(Ingress::new(input)),
            target: Target::Patch(0),
            number: 0,
            rx_buffers_from: lends.then_some(mapped),
            tx_in_place_via: keeps.then_some(mapped),
            counters: Arc::default(),
            drops: Arc::default(),
        });
        // As many queues as a guest's port has, of which one is up.
        let halves = std::iter::once(Some(Egress::new(output))).chain((1..MAX_QUEUES).map(|_| None));
        let queues = halves.map(|half| TransmitQueue { half: Half::Own(half), counters: Arc::default() });
        let output = Output::new(1, queues.collect(), counters);
        output.running.set(0, true);
        plan.outputs.push(output);
        ByHand { plan, now: cycles.now() }
    }

    /// Runs one round, as a worker does. Reports whether anything moved.
    pub fn round(&mut self) -> bool {
        self.plan.round(self.now)
    }
}
