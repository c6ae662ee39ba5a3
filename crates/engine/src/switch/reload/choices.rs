//! Choices of the switch in the next specification.

use crate::spec::Spec;
use crate::switch::acceleration::{Chosen, Running, choose};
use crate::switch::layout::Assignment;
use crate::switch::topology::Topology;

impl Topology {
    /// Adds to `spec`, which is to replace this one and has these `workers`, what the switch chooses.
    pub(super) fn choose(&self, spec: Spec, workers: &Assignment) -> (Spec, Chosen) {
        let up = self.layout.ports.iter().filter(|port| port.state().up).map(|port| port.name.as_str());
        choose(spec, workers, &Running { spec: &self.spec, chosen: &self.chosen, up: up.collect() })
    }

    /// Logs what the switch has chosen, if that is not what it had before.
    pub(super) fn log_choices(&self, before: &Topology) {
        let [now, before] = [self, before].map(|topology| topology.chosen.shown(&topology.spec));
        if now != before {
            let now = if now.is_empty() { "nothing".to_owned() } else { now.join("; ") };
            tracing::info!("chosen for acceleration: {now} (`millrace ctl why PORT` explains it)");
        }
    }
}
