//! A worker without a thread: its owner runs its rounds. For analysis under a model of a processor, which has one at a time.

mod aggregation;
mod sharing;

pub use sharing::Role;

use super::{Change, Input, OutputQueue, Plan, Route};
use crate::clock::{self, Cycles};
use crate::forward::bridge::Bridge;
use crate::forward::mac_table::{Key, MacTable};
use crate::forward::{BridgePlan, Half, Output, Target, TransmitQueue};
use crate::monitor::WorkerCounters;
use crate::port::{RxQueue, TxQueue};
use crate::queue_id::QueueId;
use crate::spec::{MAX_QUEUES, Vlan};
use crate::stage::egress::Egress;
use crate::stage::ingress::Ingress;
use crate::stats::WorkerStats;
use std::sync::Arc;

/// Which frames of a worker by hand stay in place, as its two queues are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// None.
    Never,
    /// The input receives into buffers that the output's guest lends.
    ToGuest,
    /// The output may keep the input's chains while it sends them.
    FromGuest,
}

/// A worker that moves frames from one queue to another.
pub struct ByHand {
    plan: Plan,
    /// The time of all rounds, so that each of them does the same.
    now: u64,
}

impl ByHand {
    /// Returns a worker that moves frames from `input` to `output`.
    pub fn new(input: Box<dyn RxQueue>, output: Box<dyn TxQueue>, ends: InPlace) -> ByHand {
        ByHand::between(Ingress::new(input), Egress::new(output), ends)
    }

    /// The same between queues with stages.
    fn between(input: Ingress, output: Egress, ends: InPlace) -> ByHand {
        clock::start();
        let cycles = Cycles::new();
        let counters = Arc::<WorkerCounters>::default();
        let mut plan = Plan::new(counters.clone(), cycles.clone(), None, None);
        let mapped = OutputQueue { output: 0, queue: 0 };
        let input = Input {
            route: Route::new(QueueId::new(0, 0), Target::Patch(0), 0, Arc::default(), Arc::default()),
            ingress: input,
            rx_buffers_from: (ends == InPlace::ToGuest).then_some(mapped),
            tx_in_place_via: (ends == InPlace::FromGuest).then_some(mapped),
        };
        // As many queues as a guest's port has, of which one is up.
        let halves = std::iter::once(Half::Own(output)).chain((1..MAX_QUEUES).map(|_| Half::Down));
        let queues = halves.map(|half| TransmitQueue { half, counters: Arc::default() });
        let output = Output::new(1, queues.collect(), counters);
        plan.change(Change { outputs: vec![(0, output)], inputs: vec![input], ..Change::default() });
        ByHand { plan, now: cycles.now() }
    }

    /// Returns a worker that moves frames from `input` to `output` through a bridge, which has seen the stations `there`
    /// behind the output. It learns the others, and its hash key is known.
    pub fn through_bridge(input: Box<dyn RxQueue>, output: Box<dyn TxQueue>, there: &[Key], ends: InPlace) -> ByHand {
        const PORTS: [Vlan; 2] = [Vlan::Ignore, Vlan::Ignore];
        const LIMIT: u32 = 1024;
        const AGEING_SECONDS: u32 = 300;
        let mut worker = ByHand::new(input, output, ends);
        let table = MacTable::with_known_key(PORTS.len(), LIMIT, AGEING_SECONDS);
        there.iter().for_each(|&station| table.learn(station, 1, clock::seconds()));
        // No frame goes to the bridge's first port, where they all come from.
        let bridge = BridgePlan::new(Arc::new(Bridge::of(table, &PORTS.each_ref().map(Some))), vec![0; PORTS.len()], 0);
        worker.plan.bridges.push(bridge);
        worker.plan.inputs[0].route.target = Target::Bridge { bridge: 0, from: 0 };
        worker
    }

    /// Returns its counters.
    pub fn stats(&self) -> WorkerStats {
        self.plan.counters.stats()
    }

    /// Runs one round, as a worker does. Reports whether anything moved.
    pub fn round(&mut self) -> bool {
        self.plan.round(self.now)
    }
}
