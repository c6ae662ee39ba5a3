//! A bridge, as one worker forwards through it: by learned addresses, or by a controller's flows.

use super::bridge::Bridge;
use super::flow_plan::{FlowPlan, Injection};
use super::learning::{Arrival, LearningPlan, Scratch};
use packet::Ethernet;
use std::sync::Arc;

/// See the module.
pub(crate) struct BridgePlan {
    pub(super) learning: LearningPlan,
    /// The worker's flows, if controllers decide where frames go.
    flows: Option<FlowPlan>,
    /// Whether its outputs send. Those of a lane may hand over.
    sends: bool,
}

impl BridgePlan {
    /// Returns the plan of a worker; `outputs` has the worker's output for each port of the bridge.
    pub(crate) fn new(bridge: Arc<Bridge>, outputs: Vec<usize>, worker: usize) -> BridgePlan {
        let flows = bridge.flows.as_ref().map(|numbered| FlowPlan::new(numbered, worker));
        BridgePlan { learning: LearningPlan { bridge, outputs }, flows, sends: true }
    }

    /// Returns the plan of one of a worker's lanes, whose outputs may hand frames over.
    pub(crate) fn of_lane(bridge: Arc<Bridge>, outputs: Vec<usize>, worker: usize) -> BridgePlan {
        BridgePlan { sends: false, ..BridgePlan::new(bridge, outputs, worker) }
    }

    /// Returns a plan of no ports, for a slot that is free.
    pub(crate) fn empty() -> BridgePlan {
        BridgePlan::new(Bridge::none(), Vec::new(), 0)
    }

    /// Reports whether a port of the bridge is at this output.
    pub(crate) fn has_output(&self, output: usize) -> bool {
        self.learning.outputs.contains(&output)
    }

    /// Reports whether it can send packets of controllers, who decide where frames go.
    pub(crate) fn emits(&self) -> bool {
        self.sends && self.flows.is_some()
    }

    /// Returns a test whether a frame, by its header, goes from the port `from` to this output alone, as it came; `None` if more than
    /// its header decides that.
    #[inline(always)]
    pub(crate) fn only_to(&self, output: usize, from: usize, now: u32) -> Option<impl FnMut(Ethernet) -> bool> {
        if self.flows.is_some() { None } else { self.learning.only_to(output, from, now) }
    }

    /// Forwards a burst that a port received.
    #[inline(always)]
    pub(crate) fn forward(&self, arrival: Arrival<'_, '_>, scratch: &mut Scratch) {
        match &self.flows {
            None => self.learning.forward(arrival, scratch),
            Some(flows) => flows.forward(&self.learning, arrival, scratch),
        }
    }

    /// Sends packets of a controller, if the bridge goes by flows.
    pub(crate) fn inject(&self, injection: Injection<'_>, scratch: &mut Scratch) {
        if let Some(flows) = &self.flows {
            flows.inject(&self.learning, injection, scratch);
        }
    }
}
