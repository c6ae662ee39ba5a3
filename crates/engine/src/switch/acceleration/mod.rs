//! Choices that the switch makes by itself: which physical queues receive into which guests' buffers, and which functions exchange
//! buffers, beside what the specification says.
//!
//! [`choose`] adds mappings and exchanges to a specification before anything else reads it. Nothing may be lost by them: no
//! frame, no function of a port, no protection of a guest ([`Facts`] has the rules, [`Reason`] their explanations). Nor does a reload open
//! a port again for such a choice ([`stay`]).

mod chosen;
mod exchange;
mod facts;
mod reason;
mod stay;
#[cfg(test)]
mod tests;

pub(super) use chosen::Chosen;
pub(super) use facts::Facts;
pub(super) use reason::Reason;
pub(super) use stay::Running;

use crate::spec::{Acceleration, Spec};
use crate::switch::layout::Assignment;

/// Returns `spec`, whose queues these `workers` poll, with the mappings and exchanges that the switch adds, in view of the `running`
/// one.
pub(super) fn choose(mut spec: Spec, workers: &Assignment, running: &Running<'_>) -> (Spec, Chosen) {
    let mut chosen = Chosen { mappings: spec.mappings.len(), exchanges: spec.exchanges.len(), left: Vec::new() };
    if spec.acceleration == Acceleration::Auto {
        let facts = Facts::of(&spec, workers, &chosen);
        let (mappings, mut left) = stay::mappings(&facts, running);
        let (exchanges, more) = stay::exchanges(&facts, running);
        left.extend(more);
        spec.mappings.extend(mappings);
        spec.exchanges.extend(exchanges);
        chosen.left = left;
    }
    (spec, chosen)
}
