//! A worker without a thread: its owner runs its rounds. For analysis under a model of a processor, which has one at a time.

use super::{Input, LaneInput, OutputQueue, ParentInput, Plan, Route};
use crate::clock::{self, Cycles};
use crate::forward::bridge::Bridge;
use crate::forward::mac_table::{Key, MacTable};
use crate::forward::{BridgePlan, Half, Output, Target, TransmitQueue};
use crate::monitor::WorkerCounters;
use crate::port::sink::Nothing;
use crate::port::{RxQueue, TxQueue};
use crate::queue_key::QueueKey;
use crate::sharing::{Alarm, Terms, assign};
use crate::spec::{MAX_QUEUES, Vlan};
use crate::stage::egress::Egress;
use crate::stage::ingress::{Ingress, IngressStages};
use rustix::event::{EventfdFlags, eventfd};
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
            route: Route {
                from: QueueKey { port: 0, queue: 0 },
                target: Target::Patch(0),
                number: 0,
                counters: Arc::default(),
                drops: Arc::default(),
            },
            ingress: Some(Ingress::new(input)),
            rx_buffers_from: lends.then_some(mapped),
            tx_in_place_via: keeps.then_some(mapped),
        });
        // As many queues as a guest's port has, of which one is up.
        let halves = std::iter::once(Some(Egress::new(output))).chain((1..MAX_QUEUES).map(|_| None));
        let queues = halves.map(|half| TransmitQueue { half: Half::Own(half), counters: Arc::default() });
        let output = Output::new(1, queues.collect(), counters);
        output.running.set(0, true);
        plan.outputs.push(output);
        ByHand { plan, now: cycles.now() }
    }

    /// Returns a worker that moves frames from `input` to `output` through a bridge, which has seen the stations `there`
    /// behind the output. It learns the others, and its hash key is known.
    pub fn through_bridge(input: Box<dyn RxQueue>, output: Box<dyn TxQueue>, there: &[Key]) -> ByHand {
        const PORTS: [Vlan; 2] = [Vlan::Ignore, Vlan::Ignore];
        const LIMIT: u32 = 1024;
        const AGEING_SECONDS: u32 = 300;
        let mut worker = ByHand::new(input, output, false, false);
        let table = MacTable::with_known_key(PORTS.len(), LIMIT, AGEING_SECONDS);
        there.iter().for_each(|&station| table.learn(station, 1, clock::seconds()));
        // No frame goes to the bridge's first port, where they all come from.
        let bridge = BridgePlan::new(Arc::new(Bridge::of(table, &PORTS)), vec![0; PORTS.len()], 0, true);
        worker.plan.bridges.push(bridge);
        worker.plan.inputs[0].route.target = Target::Bridge { bridge: 0, from: 0 };
        worker
    }

    /// Returns a worker that moves frames from `input`, of which it is the parent and has the only lane, to `output`.
    ///
    /// # Panics
    /// If the frames of `input` cannot be held.
    pub fn shared(input: Box<dyn RxQueue>, output: Box<dyn TxQueue>) -> ByHand {
        const LANE: usize = 1;
        let mut worker = ByHand::new(Box::new(Nothing), output, false, false);
        let plan = &mut worker.plan;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("an eventfd");
        let alarms = vec![Arc::new(Alarm::new(Arc::new(wake)))];
        let terms = Terms { outputs: 1, stalled_after: u64::MAX, drops: Arc::default(), alarms };
        let Ok((parent, lanes)) = assign(input, terms) else { panic!("its frames cannot be held") };
        let queue = QueueKey { port: 0, queue: 0 };
        let (outputs, rx_buffers_from) = (vec![0], None);
        plan.shared.parents.push(ParentInput { queue, parent: None, outputs, number: 0, rx_buffers_from });
        plan.attach_parent(queue, parent);
        let half = TransmitQueue { half: Half::HandedOver, counters: Arc::default() };
        plan.outputs.push(Output::new(1, vec![half], plan.counters.clone()));
        let from = QueueKey { port: 0, queue: LANE };
        let (counters, drops) = (Arc::default(), Arc::default());
        let route = Route { from, target: Target::Patch(LANE), number: 0, counters, drops };
        plan.shared.lanes.push(LaneInput { route, lane: None, stages: IngressStages::none(), outputs: vec![LANE] });
        lanes.into_iter().for_each(|lane| plan.attach_lane(from, lane));
        worker
    }

    /// Runs one round, as a worker does. Reports whether anything moved.
    pub fn round(&mut self) -> bool {
        self.plan.round(self.now)
    }
}
