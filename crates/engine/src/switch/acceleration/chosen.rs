//! The choices in a specification, apart from what others have specified.

use crate::spec::{ExchangeSpec, MappingSpec, Spec};
use crate::switch::difference::{exchange_name, mapping_name};

/// The choices in a specification: which of its parts the switch has added.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::switch) struct Chosen {
    /// Number of mappings that others have specified; the switch has added those behind them.
    pub(super) mappings: usize,
    /// The same of exchanges.
    pub(super) exchanges: usize,
    /// Ports without a mapping or an exchange, as they would have to be opened again for it.
    pub(super) left: Vec<String>,
}

impl Chosen {
    /// Returns the mappings that the switch has added to `spec`.
    pub(super) fn mappings<'s>(&self, spec: &'s Spec) -> &'s [MappingSpec] {
        &spec.mappings[self.mappings..]
    }

    /// Returns the exchanges that the switch has added to `spec`.
    pub(super) fn exchanges<'s>(&self, spec: &'s Spec) -> &'s [ExchangeSpec] {
        &spec.exchanges[self.exchanges..]
    }

    /// Names the one who chose a mapping of `spec`.
    pub(in crate::switch) fn chooser_of_mapping(&self, spec: &Spec, mapping: &MappingSpec) -> &'static str {
        let is = |own: &MappingSpec| own.from == mapping.from && own.to == mapping.to;
        if self.mappings(spec).iter().any(is) { "auto" } else { "file" }
    }

    /// Names the one who chose an exchange of `spec`.
    pub(in crate::switch) fn chooser_of_exchange(&self, spec: &Spec, exchange: &ExchangeSpec) -> &'static str {
        if self.exchanges(spec).iter().any(|own| own.ports == exchange.ports) { "auto" } else { "file" }
    }

    /// Reports whether a port has no mapping or exchange only because it, or a peer of it, is in use.
    pub(in crate::switch) fn has_left(&self, port: &String) -> bool {
        self.left.contains(port)
    }

    /// Names the parts that the switch has added to `spec`.
    pub(in crate::switch) fn shown(&self, spec: &Spec) -> Vec<String> {
        let mappings = self.mappings(spec).iter().map(|mapping| format!("mapping {}", mapping_name(mapping)));
        let exchanges = self.exchanges(spec).iter().map(|exchange| format!("exchange {}", exchange_name(exchange)));
        mappings.chain(exchanges).collect()
    }
}
