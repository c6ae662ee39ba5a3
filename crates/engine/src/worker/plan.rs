//! A worker's plan for a round: every queue it polls, where the queue's frames go, and all state needed on the way.

use super::input::Input;
use super::parts::SharedInputs;
use super::route::Routing;
use super::sleeper::Sleeper;
use super::turns::Turns;
use crate::clock::{self, Cycles};
use crate::forward::{BridgePlan, Output, Scratch};
use crate::monitor::{Activity, WorkerCounters};
use crate::stage::ingress::Ingress;
use crate::stage::stopwatch::{FORWARD, RECEIVE, RECYCLE};
use packet::{BurstStorage, MAX_BURST};
use std::sync::Arc;
use std::time::Duration;
use virtqueue::device::Spliced;
use virtqueue::ordering;

/// One burst in this many has its stages timed. Timing all of them would cost about three cycles per frame. It is a prime: of
/// queues that have their bursts in turn, all are timed.
pub(super) const SAMPLE: u32 = 61;

/// A worker's plan. Only the worker accesses it; the control side changes it by jobs between two bursts.
pub(crate) struct Plan {
    /// Queues that it polls.
    pub(super) inputs: Vec<Input>,
    /// Parts of queues that several workers share.
    pub(super) shared: SharedInputs,
    /// Turns of the ports of `inputs`.
    pub(super) turns: Turns,
    /// Ports to send to, and bridges of these. Each has a slot of its own as long as the worker uses it; the others are empty.
    pub(super) outputs: Vec<Output>,
    pub(super) bridges: Vec<BridgePlan>,
    /// Those of `outputs` with a queue that is up: a round does nothing for others.
    pub(super) up: Vec<usize>,
    pub(super) stop: bool,
    /// Present if the worker sleeps when idle.
    pub(super) sleeper: Option<Sleeper>,
    pub(super) counters: Arc<WorkerCounters>,
    pub(super) cycles: Cycles,
    /// Seconds since the start, and the cycle count at which this second began.
    pub(super) second: u32,
    second_began: u64,
    pub(super) bursts: u32,
    pub(super) storage: Box<BurstStorage>,
    pub(super) scratch: Scratch,
}

impl Plan {
    /// Returns an empty plan. `turn` is the time of a port's turn; the default if `None`.
    pub(super) fn new(
        counters: Arc<WorkerCounters>,
        cycles: Cycles,
        sleeper: Option<Sleeper>,
        turn: Option<Duration>,
    ) -> Plan {
        Plan {
            inputs: Vec::new(),
            shared: SharedInputs::default(),
            turns: Turns::new(turn, &cycles),
            outputs: Vec::new(),
            bridges: Vec::new(),
            up: Vec::new(),
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

    /// Polls every queue once and forwards its frames, but for ports that have to wait ([`super::turns`]). Reports whether there
    /// were any.
    ///
    /// Queues are handled one after the other. Receiving from two before forwarding was measured, and is slower (61
    /// against 52 cycles per frame of 64 bytes), because more cache lines are then in flight than a core can track.
    #[inline(always)]
    pub(super) fn round(&mut self, cycles_now: u64) -> bool {
        if cycles_now.wrapping_sub(self.second_began) >= self.cycles.hz() {
            self.next_second(cycles_now);
        }
        let mut moved = !self.shared.is_empty() && self.shared_round(cycles_now);
        let watch = &self.counters.watch;
        self.turns.begin(cycles_now);
        for (place, mut input) in self.inputs.iter().enumerate() {
            let mut most = MAX_BURST;
            if self.turns.is_measured() {
                let Some(turn) = self.turns.next(place, self.cycles.now()) else {
                    moved = true;
                    continue;
                };
                (input, most) = (&self.inputs[turn.input], turn.frames);
            }
            let timing = if input.is_mapped() { input.timing(&self.outputs) } else { None };
            let begun = timing.map(|timing| timing.begin(&input.route.counters.received));
            'pass: {
                let Ingress { half, stages } = &input.ingress;
                let half = &**half;
                let here = input.route.place;
                self.counters.place.set(here.at(Activity::Receive));
                let mut sample = self.bursts.is_multiple_of(SAMPLE);
                let mut spliced = 0;
                let began = if sample { self.cycles.now() } else { 0 };
                let has_stages = !stages.is_empty();
                if input.is_mapped() {
                    let done = input.splice(&self.outputs, &self.bridges, self.second, most);
                    moved |= done.is_any();
                    spliced = done.frames as usize;
                    if spliced > 0 {
                        self.bursts = self.bursts.wrapping_add(1);
                        if self.turns.is_measured() {
                            self.turns.note(spliced as u64, spliced == most);
                        }
                        self.count_spliced(input, done, sample.then_some(began));
                        sample = false;
                        most -= spliced;
                    }
                    if !done.stopped || most == 0 {
                        break 'pass;
                    }
                }
                let mut burst = self.storage.start();
                if has_stages {
                    let Some(frames) = stages.turn() else { break 'pass };
                    burst.limit(frames.min(most));
                } else if most < MAX_BURST {
                    burst.limit(most);
                }
                let routing = Routing {
                    outputs: &self.outputs,
                    bridges: &self.bridges,
                    now: self.second,
                    counters: &self.counters,
                };
                let source = input.source(&self.outputs);
                let returned = input.take_returned(half, &self.outputs);
                burst.set_unread_from(input.unread_from(&self.outputs));
                if !source.receive(&mut burst) {
                    source.idle();
                    if returned {
                        half.recycle();
                        moved = true;
                    }
                    if stages.is_due() {
                        routing.process(&input.route, stages, &mut burst, &mut self.scratch);
                        moved = true;
                    }
                    break 'pass;
                }
                moved = true;
                if self.turns.is_measured() {
                    self.turns.note((spliced + burst.len()) as u64, burst.is_full());
                }
                self.bursts = self.bursts.wrapping_add(1);
                if sample {
                    watch.start(RECEIVE, began);
                    watch.enter(FORWARD);
                }
                self.counters.place.set(here.at(Activity::Forward));
                let frames = if has_stages {
                    let frames = routing.process(&input.route, stages, &mut burst, &mut self.scratch);
                    if let Some(((lend, _), mix)) = source.lent().zip(stages.mix()) {
                        lend.adapt(mix);
                    }
                    frames
                } else {
                    routing.forward(&input.route, burst.frames(), burst.bytes(), &mut self.scratch)
                };
                if sample {
                    watch.enter(RECYCLE);
                }
                self.counters.place.set(here.at(Activity::Recycle));
                if burst.kept() != 0
                    && let Some(chains) = half.chains()
                {
                    chains.keep(burst.kept());
                }
                source.recycle();
                if sample {
                    watch.stop();
                    self.counters.sampled.add(frames as u64);
                }
            }
            if let Some((timing, begun)) = timing.zip(begun) {
                timing.end(&input.route.counters.received, begun);
            }
        }
        if self.turns.is_measured() {
            self.turns.end(self.cycles.now());
        }
        if moved {
            self.up().for_each(Output::flush);
            // One fence for all rings of the round, as it costs about as much as a frame.
            ordering::before_asking();
            for input in &self.inputs {
                self.counters.place.set(input.route.place.at(Activity::Notify));
                input.ingress.half.notify();
            }
            if !self.shared.is_empty() {
                self.shared.notify(&self.counters.place);
            }
            self.up().for_each(Output::notify);
        }
        moved
    }

    /// Returns the outputs that may have frames to send, or receivers to notify.
    #[inline(always)]
    pub(super) fn up(&self) -> impl Iterator<Item = &Output> {
        self.up.iter().map(|&output| &self.outputs[output])
    }

    /// Counts frames that were moved from ring to ring, since the cycle count `began` if that was taken.
    #[inline(always)]
    fn count_spliced(&self, input: &Input, spliced: Spliced, began: Option<u64>) {
        let frames = spliced.frames.into();
        input.route.counters.received.burst(frames as usize, spliced.bytes);
        self.counters.packets.add(frames);
        if let Some(began) = began {
            self.counters.watch.start(FORWARD, began);
            self.counters.watch.stop();
            self.counters.sampled.add(frames);
        }
    }

    /// Reports whether an output keeps chains of an input. Nothing signals when it is done with them, so it has to be polled.
    pub(super) fn keeps(&self) -> bool {
        let inputs = self.inputs.iter().filter_map(|input| input.tx_in_place_via);
        let parents = self.shared.parents.iter().filter_map(|input| input.tx_in_place_via);
        inputs.chain(parents).any(|via| self.outputs[via.output].keeps(via.queue))
    }

    #[cold]
    fn next_second(&mut self, cycles_now: u64) {
        self.second = clock::seconds();
        self.second_began = cycles_now;
    }
}
