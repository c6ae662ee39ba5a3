//! A worker's plan for a round: every queue it polls, where the queue's frames go, and all state needed on the way.

use super::sleeper::Sleeper;
use crate::clock::{self, Cycles};
use crate::counters::QueueCounters;
use crate::drops::{Drops, Reason};
use crate::forward::{Arrival, BridgePlan, Output, Scratch, Target};
use crate::monitor::{Activity, Place, WorkerCounters};
use crate::port::RxQueue;
use crate::port::zero_copy::{GuestBuffers, ZeroCopyRx};
use crate::stage::ingress::Ingress;
use crate::stage::stopwatch::{FORWARD, RECEIVE, RECYCLE};
use packet::{Burst, BurstStorage};
use std::sync::Arc;
use virtqueue::ordering;

/// One burst in this many has its stages timed. Timing all of them would cost about three cycles per frame.
const SAMPLE: u32 = 64;

/// A queue of an output of the plan.
#[derive(Clone, Copy)]
pub(crate) struct OutputQueue {
    /// Index of the output in the plan.
    pub(crate) output: usize,
    /// Index of the queue in its port.
    pub(crate) queue: usize,
}

/// A queue that a worker polls.
pub(crate) struct Input {
    pub(crate) port: u64,
    pub(crate) queue: usize,
    /// `None` while the queue is down.
    pub(crate) ingress: Option<Ingress>,
    pub(crate) target: Target,
    /// Number by which its frames pick a queue: the index of the queue that it is mapped to, else its own.
    pub(crate) number: usize,
    /// The queue whose guest lends its buffers to this one, if it is mapped.
    pub(crate) rx_buffers_from: Option<OutputQueue>,
    /// The queue that may keep chains of this one while it sends them, if it is mapped.
    pub(crate) tx_in_place_via: Option<OutputQueue>,
    pub(crate) counters: Arc<QueueCounters>,
    pub(crate) drops: Arc<Drops>,
}

impl Input {
    /// Returns the half and the guest whose buffers it receives into, if both are available now.
    #[inline(always)]
    fn lent<'p>(&self, ingress: &'p Ingress, outputs: &'p [Output]) -> Option<(&'p dyn ZeroCopyRx, &'p GuestBuffers)> {
        let OutputQueue { output, queue } = self.rx_buffers_from?;
        Some((ingress.lends()?, outputs[output].guest(queue)?))
    }

    /// Returns the length from which an output sends its frames from the guest's memory, unread.
    #[inline(always)]
    fn unread_from(&self, ingress: &Ingress, outputs: &[Output]) -> u32 {
        match (&self.target, self.tx_in_place_via) {
            (&Target::Patch(to), Some(via)) if to == via.output && !ingress.has_stages() => {
                outputs[to].unread_from(via.queue)
            }
            _ => u32::MAX,
        }
    }

    /// Takes back chains that an output kept. Reports whether there were any.
    #[inline(always)]
    fn take_returned(&self, half: &dyn RxQueue, outputs: &[Output]) -> bool {
        let Some(OutputQueue { output, queue }) = self.tx_in_place_via else { return false };
        let Some(chains) = half.chains() else { return false };
        let mut any = false;
        outputs[output].returned(queue, &mut |ids| {
            chains.release(ids);
            any = true;
        });
        any
    }
}

/// A worker's plan. Only the worker accesses it; the control side changes it by jobs between two bursts.
pub(crate) struct Plan {
    /// Queues that are up.
    pub(super) inputs: Vec<Input>,
    /// Queues that are down: a guest may have many more queues than it uses.
    pub(super) resting: Vec<Input>,
    pub(super) outputs: Vec<Output>,
    pub(super) bridges: Vec<BridgePlan>,
    pub(super) stop: bool,
    /// Present if the worker sleeps when idle.
    pub(super) sleeper: Option<Sleeper>,
    pub(super) counters: Arc<WorkerCounters>,
    cycles: Cycles,
    /// Seconds since the start, and the cycle count at which this second began.
    second: u32,
    second_began: u64,
    bursts: u32,
    storage: Box<BurstStorage>,
    pub(super) scratch: Scratch,
}

impl Plan {
    pub(super) fn new(counters: Arc<WorkerCounters>, cycles: Cycles, sleeper: Option<Sleeper>) -> Plan {
        Plan {
            inputs: Vec::new(),
            resting: Vec::new(),
            outputs: Vec::new(),
            bridges: Vec::new(),
            stop: false,
            sleeper,
            counters,
            second: clock::seconds(),
            second_began: cycles.now(),
            cycles,
            bursts: 0,
            storage: Box::default(),
            scratch: Scratch::default(),
        }
    }

    /// Polls every queue once and forwards its frames. Reports whether there were any.
    ///
    /// Queues are handled one after the other. Receiving from two before forwarding was measured, and is slower (61
    /// against 52 cycles per frame of 64 bytes), because more cache lines are then in flight than a core can track.
    #[inline(always)]
    pub(super) fn round(&mut self, cycles_now: u64) -> bool {
        if cycles_now.wrapping_sub(self.second_began) >= self.cycles.hz() {
            self.next_second(cycles_now);
        }
        let mut moved = false;
        let watch = &self.counters.watch;
        for input in &self.inputs {
            let Some(ingress) = &input.ingress else { continue };
            let half = &*ingress.half;
            let here = Place::of(input.port, input.queue);
            self.counters.place.set(here.at(Activity::Receive));
            let sample = self.bursts.is_multiple_of(SAMPLE);
            let began = if sample { self.cycles.now() } else { 0 };
            let has_stages = ingress.has_stages();
            let mut burst = self.storage.start();
            if has_stages {
                let Some(frames) = ingress.turn() else { continue };
                burst.limit(frames);
            }
            let work =
                Work { outputs: &self.outputs, bridges: &self.bridges, now: self.second, counters: &self.counters };
            let lent = input.lent(ingress, &self.outputs);
            let returned = input.take_returned(half, &self.outputs);
            burst.set_unread_from(input.unread_from(ingress, &self.outputs));
            let any = match lent {
                Some((lend, guest)) => lend.receive_into(guest, &mut burst),
                None => half.receive(&mut burst),
            };
            if !any {
                if let Some((lend, guest)) = lent
                    && lend.relend(guest)
                {
                    // Without a frame, nothing else in the round notifies a filler that ran out of buffers and waits.
                    ordering::before_asking();
                    half.notify();
                }
                if returned {
                    half.recycle();
                    moved = true;
                }
                if ingress.is_due() {
                    work.process(input, ingress, None, &mut burst, &mut self.scratch);
                    moved = true;
                }
                continue;
            }
            moved = true;
            self.bursts = self.bursts.wrapping_add(1);
            if sample {
                watch.start(RECEIVE, began);
                watch.enter(FORWARD);
            }
            self.counters.place.set(here.at(Activity::Forward));
            let frames = if has_stages {
                work.process(input, ingress, lent.map(|(lend, _)| lend), &mut burst, &mut self.scratch)
            } else {
                work.forward(input, &burst, &mut self.scratch)
            };
            if sample {
                watch.enter(RECYCLE);
            }
            self.counters.place.set(here.at(Activity::Recycle));
            match lent {
                Some((lend, guest)) => drop(lend.relend(guest)),
                None => {
                    if burst.kept() != 0
                        && let Some(chains) = half.chains()
                    {
                        chains.keep(burst.kept());
                    }
                    half.recycle();
                }
            }
            if sample {
                watch.stop();
                self.counters.sampled.add(frames as u64);
            }
        }
        if moved {
            self.outputs.iter().for_each(Output::flush);
            // One fence for all rings of the round, as it costs about as much as a frame.
            ordering::before_asking();
            for input in &self.inputs {
                if let Some(ingress) = &input.ingress {
                    self.counters.place.set(Place::of(input.port, input.queue).at(Activity::Notify));
                    ingress.half.notify();
                }
            }
            self.outputs.iter().for_each(Output::notify);
        }
        moved
    }

    /// Reports whether an output keeps chains of an input. Nothing signals when it is done with them, so it has to be polled.
    pub(super) fn keeps(&self) -> bool {
        self.inputs
            .iter()
            .filter_map(|input| input.tx_in_place_via)
            .any(|via| self.outputs[via.output].keeps(via.queue))
    }

    #[cold]
    fn next_second(&mut self, cycles_now: u64) {
        self.second = clock::seconds();
        self.second_began = cycles_now;
    }
}

/// State needed to forward a burst.
struct Work<'p> {
    outputs: &'p [Output],
    bridges: &'p [BridgePlan],
    now: u32,
    counters: &'p WorkerCounters,
}

impl Work<'_> {
    /// Passes a burst through the stages of its queue, and forwards what comes out of them. Returns the number of frames.
    /// `lend` is the queue's half if it received into a guest's buffers.
    #[inline(never)]
    fn process(
        &self,
        input: &Input,
        ingress: &Ingress,
        lend: Option<&dyn ZeroCopyRx>,
        burst: &mut Burst<'_, '_>,
        scratch: &mut Scratch,
    ) -> usize {
        let mut count = 0;
        ingress.process(burst, &self.counters.watch, &mut |burst| count += self.forward(input, burst, scratch));
        if let Some((lend, mix)) = lend.zip(ingress.mix()) {
            lend.adapt(mix);
        }
        count
    }

    /// Forwards a burst. Returns its number of frames.
    #[inline(always)]
    fn forward(&self, input: &Input, burst: &Burst<'_, '_>, scratch: &mut Scratch) -> usize {
        let count = burst.len();
        if count == 0 {
            return 0;
        }
        input.counters.received.burst(count, burst.bytes());
        self.counters.packets.add(count as u64);
        let (frames, queue) = (burst.frames(), input.number);
        match input.target {
            Target::Patch(output) => self.outputs[output].transmit(queue, frames),
            Target::Bridge { bridge, from } => {
                let (outputs, now, drops) = (self.outputs, self.now, &*input.drops);
                self.bridges[bridge].forward(Arrival { frames, from, queue, now, outputs, drops }, scratch);
            }
            Target::Nowhere => input.drops.add(Reason::Unconnected, count as u64),
        }
        count
    }
}
