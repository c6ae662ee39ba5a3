//! What a worker does in a round: every queue it polls, where its frames go, and everything that it needs on the way.

use super::WorkerCounters;
use crate::clock::{self, Cycles};
use crate::counters::QueueCounters;
use crate::drops::{Drops, Reason};
use crate::forward::bridge::{Arrival, BridgePlan, Scratch};
use crate::forward::{Output, Target};
use crate::port::Receive;
use std::sync::Arc;
use virtqueue::{BurstStorage, ordering};

/// One burst in so many has its stages timed. Timing all of them would cost about three cycles a frame.
const SAMPLE: u32 = 64;

/// A queue that a worker polls.
pub(crate) struct Input {
    pub(crate) port: u64,
    pub(crate) queue: usize,
    /// None while the queue is down.
    pub(crate) half: Option<Box<dyn Receive>>,
    pub(crate) target: Target,
    pub(crate) counters: Arc<QueueCounters>,
    pub(crate) drops: Arc<Drops>,
}

/// A worker's plan. Only the worker touches it; the control side changes it by jobs between two bursts.
pub(crate) struct Plan {
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) bridges: Vec<BridgePlan>,
    pub(crate) stop: bool,
    counters: Arc<WorkerCounters>,
    cycles: Cycles,
    started: u64,
    bursts: u32,
    storage: Box<BurstStorage>,
    scratch: Scratch,
}

impl Plan {
    pub(super) fn new(counters: Arc<WorkerCounters>, cycles: Cycles) -> Plan {
        Plan {
            inputs: Vec::new(),
            outputs: Vec::new(),
            bridges: Vec::new(),
            stop: false,
            counters,
            started: clock::start(),
            cycles,
            bursts: 0,
            storage: Box::default(),
            scratch: Scratch::default(),
        }
    }

    /// Polls every queue once and forwards what is there. Returns whether there was anything.
    #[inline(always)]
    pub(super) fn round(&mut self, cycles_now: u64) -> bool {
        let mut moved = false;
        for input in &self.inputs {
            let Some(half) = input.half.as_deref() else { continue };
            let sample = self.bursts % SAMPLE == 0;
            let begin = if sample { self.cycles.now() } else { 0 };
            let mut burst = self.storage.start();
            if !half.receive(&mut burst) {
                continue;
            }
            moved = true;
            let received = if sample { self.cycles.now() } else { 0 };
            let frames = burst.len();
            if frames > 0 {
                input.counters.received.burst(frames, burst.bytes());
                self.counters.packets.add(frames as u64);
                match input.target {
                    Target::Patch(output) => self.outputs[output].transmit(input.queue, burst.frames()),
                    Target::Bridge { bridge, from } => {
                        let arrival = Arrival {
                            frames: burst.frames(),
                            from,
                            queue: input.queue,
                            now: (cycles_now.wrapping_sub(self.started) / self.cycles.hz()) as u32,
                            outputs: &self.outputs,
                            drops: &input.drops,
                        };
                        self.bridges[bridge].forward(arrival, &mut self.scratch);
                    }
                    Target::Nowhere => input.drops.add(Reason::Unconnected, frames as u64),
                }
            }
            let forwarded = if sample { self.cycles.now() } else { 0 };
            half.recycle();
            self.bursts = self.bursts.wrapping_add(1);
            if sample {
                let end = self.cycles.now();
                let spent = [received - begin, forwarded - received, end - forwarded];
                self.counters.stages.iter().zip(spent).for_each(|(c, n)| c.add(n));
                self.counters.sampled.add(frames as u64);
            }
        }
        if moved {
            // One fence for all rings of the round: it costs about as much as a frame.
            ordering::before_asking();
            self.inputs.iter().filter_map(|i| i.half.as_deref()).for_each(|h| h.notify());
            self.outputs.iter().for_each(Output::notify);
        }
        moved
    }
}
