//! Mappings and exchanges of the next topology. Those that stay are the very parts of the one before.

use crate::port::Exchange;
use crate::spec::{ExchangeSpec, Spec};
use crate::switch::difference::Fates;
use crate::switch::mapping::Mapping;
use crate::switch::tenancy;
use crate::switch::topology::Topology;
use std::sync::Arc;

impl Topology {
    /// Returns the mappings of `spec`, whose fates these are.
    pub(super) fn next_mappings(&self, spec: &Spec, parts: &Fates) -> Vec<Arc<Mapping>> {
        let mut next = Vec::new();
        for (wanted, fate) in spec.mappings.iter().zip(&parts.fates) {
            if let Some(index) = fate.goes_on() {
                let had = &self.spec.mappings[index];
                next.extend(self.mappings.iter().filter(|mapping| mapping.is_of(had)).cloned());
            } else {
                let mapping = |queues| Arc::new(Mapping::new(wanted.clone(), tenancy::judge(spec, wanted), queues));
                next.extend(wanted.pairs(spec).into_iter().map(mapping));
            }
        }
        next
    }

    /// Returns the groups of `spec`; those that are as they were stay.
    pub(super) fn next_exchanges(&self, spec: &Spec) -> Vec<Arc<Exchange>> {
        let exchange = |wanted: &ExchangeSpec| {
            let known = self.exchanges.iter().find(|had| had.spec() == wanted);
            known.cloned().unwrap_or_else(|| Arc::new(Exchange::new(wanted.clone())))
        };
        spec.exchanges.iter().map(exchange).collect()
    }
}
