//! Terms of a plan that follow from all of it together.

use super::Plan;
use super::route::Route;
use crate::forward::Target;
use crate::stage::ingress::IngressStages;

impl Plan {
    /// Gives each port its turn, finds the outputs that are up, and makes outputs hold frames until the round ends where several bursts
    /// of a round can come together.
    pub(super) fn settle(&mut self) {
        self.turns.assign(&self.inputs);
        self.up.clear();
        self.up.extend((0..self.outputs.len()).filter(|&output| self.outputs[output].is_up()));
        if !self.outputs.iter().any(|output| output.aggregates) {
            return;
        }
        let bridges = &self.bridges;
        let sends = |route: &Route, index: usize, port: u64| match route.target {
            Target::Patch(to) => to == index,
            Target::Bridge { bridge, .. } => route.from.port != port && bridges[bridge].has_output(index),
            Target::Nowhere => false,
        };
        let bursts = |stages: &IngressStages| if stages.multiplies() { 2 } else { 1 };
        for (index, output) in self.outputs.iter_mut().enumerate() {
            let inputs = self.inputs.iter().filter(|input| sends(&input.route, index, output.port));
            let inputs = inputs.map(|input| bursts(&input.ingress.stages));
            let lanes = self.shared.lanes.iter().filter(|input| sends(&input.route, index, output.port));
            let lanes = lanes.map(|input| bursts(&input.stages));
            // A parent releases several batches in a round.
            let parents = self.shared.parents.iter().filter(|input| input.outputs.contains(&index)).map(|_| 2);
            output.joins = output.aggregates && inputs.chain(lanes).chain(parents).sum::<usize>() > 1;
        }
    }
}
