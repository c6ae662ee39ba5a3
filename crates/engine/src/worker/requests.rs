//! Requests of the control side to a worker, as jobs between two bursts, which leave its plan as it is.

use super::Plan;
use super::parts::ParentInput;
use super::route::{Route, Routing};
use crate::answers::Delivery;
use crate::clock;
use crate::drops::Drops;
use crate::forward::flows::Emission;
use crate::forward::{Injection, Output};
use crate::queue_id::QueueId;
use crate::stage::egress::Egress;
use packet::{MAX_BURST, Segment};
use vhost_user::Event;
use virtqueue::ordering;

impl Plan {
    /// Receives nothing more from a shared queue, so that all its batches come back. Reports whether they have.
    pub(crate) fn rest(&mut self, id: QueueId) -> bool {
        let mut parents = self.shared.parents.iter_mut().filter(|input| input.queue == id);
        parents.all(|input| input.parent.rest())
    }

    /// Replaces the kick descriptor of a queue that is polled.
    pub(crate) fn rewire(&mut self, id: QueueId, kick: Option<Event>) {
        if let Some(ParentInput { parent, .. }) = self.shared.parents.iter_mut().find(|input| input.queue == id) {
            self.sleeper.iter().for_each(|sleeper| sleeper.ignore(parent.half()));
            parent.rewire(kick);
            self.sleeper.iter().for_each(|sleeper| sleeper.watch(parent.half()));
            return;
        }
        let Some(at) = self.inputs.iter().position(|input| input.route.from == id) else { return };
        let half = &mut self.inputs[at].ingress.half;
        self.sleeper.iter().for_each(|sleeper| sleeper.ignore(&**half));
        if let Some(half) = half.life_cycle() {
            half.rewire(kick);
        }
        self.sleeper.iter().for_each(|sleeper| sleeper.watch(&**half));
    }

    /// Returns a queue that only this worker sends to, by the output in this slot, if it is up.
    pub(crate) fn own_transmit(&mut self, output: usize, id: QueueId) -> Option<&Egress> {
        self.outputs.get_mut(output)?.own().find(|(own, _)| *own == id).map(|(_, egress)| &*egress)
    }

    /// Sends packets of controllers through the bridge that goes by flows. Returns how many have no such bridge.
    pub(super) fn inject(&mut self, emissions: &[Emission], drops: &Drops) -> usize {
        let Some(bridge) = self.bridges.iter().find(|bridge| bridge.emits()) else {
            return emissions.len();
        };
        let injection = Injection { emissions, outputs: &self.outputs, drops, now: clock::seconds() };
        bridge.inject(injection, &mut self.scratch);
        self.send_out();
        0
    }

    /// Forwards frames as if a queue of this port had received them, behind its stages. Does nothing if this worker polls none, or if
    /// others did so already.
    pub(crate) fn receive_as(&mut self, port: u64, answers: &Delivery) {
        let inputs = self.inputs.iter().map(|input| &input.route);
        let mut routes = inputs.chain(self.shared.lanes.iter().map(|lane| &lane.route));
        let Some(route) = routes.find(|route: &&Route| route.from.port == port) else { return };
        let Some(frames) = answers.take() else { return };
        let (outputs, bridges, counters) = (&self.outputs, &self.bridges, &self.counters);
        let routing = Routing { outputs, bridges, now: clock::seconds(), counters };
        for some in frames.chunks(MAX_BURST) {
            let mut burst = self.storage.start();
            some.iter().for_each(|frame| burst.push(Segment::from(&frame[..])));
            routing.forward(route, burst.frames(), burst.bytes(), &mut self.scratch);
        }
        self.send_out();
    }

    /// Sends what outputs hold, and notifies receivers.
    fn send_out(&self) {
        self.up().for_each(Output::flush);
        ordering::before_asking();
        self.up().for_each(Output::notify);
    }
}
