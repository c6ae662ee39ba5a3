//! Choices that the switch makes by itself: which physical queues receive into which guests' buffers, and which functions exchange
//! buffers, beside what the specification says.
//!
//! [`choose`] adds mappings and exchanges to a specification before anything else reads it. Nothing may be lost by them: no
//! frame, no function of a port, no protection of a guest ([`Facts`] has the rules, [`Reason`] their explanations). Nor does a reload open
//! a port again for such a choice ([`stay`]).

mod exchange;
mod facts;
mod reason;
mod stay;
#[cfg(test)]
mod tests;

pub(super) use facts::Facts;
pub(super) use reason::Reason;
pub(super) use stay::Running;

use super::difference::{exchange_name, mapping_name};
use crate::spec::{Acceleration, ExchangeSpec, MappingSpec, Spec};

/// The choices in a specification: which of its parts the switch has added.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Chosen {
    /// Number of mappings that others have specified; the switch has added those behind them.
    mappings: usize,
    /// The same of exchanges.
    exchanges: usize,
    /// Ports without a mapping or an exchange, as they would have to be opened again for it.
    left: Vec<String>,
}

/// Returns `spec` with the mappings and exchanges that the switch adds, in view of the `running` one.
pub(super) fn choose(mut spec: Spec, running: &Running<'_>) -> (Spec, Chosen) {
    let mut chosen = Chosen { mappings: spec.mappings.len(), exchanges: spec.exchanges.len(), left: Vec::new() };
    if spec.acceleration == Acceleration::Auto {
        let facts = Facts::of(&spec, &chosen);
        let (mappings, mut left) = stay::mappings(&facts, running);
        let (exchanges, more) = stay::exchanges(&facts, running);
        left.extend(more);
        spec.mappings.extend(mappings);
        spec.exchanges.extend(exchanges);
        chosen.left = left;
    }
    (spec, chosen)
}

impl Chosen {
    /// Returns the mappings that the switch has added to `spec`.
    fn mappings<'s>(&self, spec: &'s Spec) -> &'s [MappingSpec] {
        &spec.mappings[self.mappings..]
    }

    /// Returns the exchanges that the switch has added to `spec`.
    fn exchanges<'s>(&self, spec: &'s Spec) -> &'s [ExchangeSpec] {
        &spec.exchanges[self.exchanges..]
    }

    /// Names the one who chose a mapping of `spec`.
    pub(super) fn chooser_of_mapping(&self, spec: &Spec, mapping: &MappingSpec) -> &'static str {
        let is = |own: &MappingSpec| own.from == mapping.from && own.to == mapping.to;
        if self.mappings(spec).iter().any(is) { "auto" } else { "file" }
    }

    /// Names the one who chose an exchange of `spec`.
    pub(super) fn chooser_of_exchange(&self, spec: &Spec, exchange: &ExchangeSpec) -> &'static str {
        if self.exchanges(spec).iter().any(|own| own.ports == exchange.ports) { "auto" } else { "file" }
    }

    /// Reports whether a port has no mapping or exchange only because it, or a peer of it, is in use.
    pub(super) fn has_left(&self, port: &String) -> bool {
        self.left.contains(port)
    }

    /// Names the parts that the switch has added to `spec`.
    pub(super) fn shown(&self, spec: &Spec) -> Vec<String> {
        let mappings = self.mappings(spec).iter().map(|mapping| format!("mapping {}", mapping_name(mapping)));
        let exchanges = self.exchanges(spec).iter().map(|exchange| format!("exchange {}", exchange_name(exchange)));
        mappings.chain(exchanges).collect()
    }
}
