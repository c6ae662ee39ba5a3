//! A bridge, as one worker forwards through it: by learned addresses, or by a controller's flows.

use super::bridge::Bridge;
use super::flow_plan::{FlowPlan, Injection};
use super::learning::{Arrival, LearningPlan, Scratch};
use std::sync::Arc;

/// See the module.
pub(crate) struct BridgePlan {
    pub(super) learning: LearningPlan,
    /// The worker's flows, if controllers decide where frames go.
    flows: Option<FlowPlan>,
}

impl BridgePlan {
    /// Returns the plan of worker `lane`; `outputs` has the worker's output for each port of the bridge.
    pub(crate) fn new(bridge: Arc<Bridge>, outputs: Vec<usize>, lane: usize) -> BridgePlan {
        let flows = bridge.flows.as_ref().map(|numbered| FlowPlan::new(numbered, lane));
        BridgePlan { learning: LearningPlan { bridge, outputs }, flows }
    }

    /// Reports whether this is a plan of `bridge`.
    pub(crate) fn is_of(&self, bridge: &Arc<Bridge>) -> bool {
        Arc::ptr_eq(&self.learning.bridge, bridge)
    }

    /// Reports whether a port of the bridge is at this output.
    pub(crate) fn has_output(&self, output: usize) -> bool {
        self.learning.outputs.contains(&output)
    }

    /// Reports whether controllers decide where frames go.
    pub(crate) fn goes_by_flows(&self) -> bool {
        self.flows.is_some()
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
