//! The report of a difference to the user.

use super::{Difference, Fate, Fates};
use crate::reload::{ReloadAction, Step, Subject};
use crate::spec::{ExchangeSpec, MappingSpec, MirrorSpec, Spec};

impl Difference {
    /// Returns an action for each part of `old` and `new`, between which this is the difference.
    pub(in crate::switch) fn report(&self, old: &Spec, new: &Spec) -> Vec<ReloadAction> {
        let numbers = |parts: &Fates| (0..parts.fates.len() + parts.gone.len()).collect::<Vec<_>>();
        let workers = numbers(&self.workers);
        let mut actions = of(Subject::Port, &self.ports, &old.ports, &new.ports, |port| port.name.clone());
        actions.extend(of(Subject::Patch, &self.patches, &old.patches, &new.patches, |pair| pair.join(" - ")));
        actions.extend(of(Subject::Bridge, &self.bridges, &old.bridges, &new.bridges, |bridge| bridge.name.clone()));
        actions.extend(of(Subject::Mapping, &self.mappings, &old.mappings, &new.mappings, mapping_name));
        actions.extend(of(Subject::Exchange, &self.exchanges, &old.exchanges, &new.exchanges, exchange_name));
        actions.extend(of(Subject::Mirror, &self.mirrors, &old.mirrors, &new.mirrors, mirror_name));
        let [had, has] = [old, new].map(|spec| spec.aggregation.as_slice());
        actions.extend(of(Subject::Aggregation, &self.aggregation, had, has, |_| String::new()));
        actions.extend(of(Subject::Worker, &self.workers, &workers, &workers, usize::to_string));
        actions
    }
}

/// Returns an action for each part of one kind.
fn of<T>(subject: Subject, parts: &Fates, old: &[T], new: &[T], name: impl Fn(&T) -> String) -> Vec<ReloadAction> {
    let action = |part: &T, step, why: &[&str]| {
        let why = why.iter().map(|&name| name.to_owned()).collect();
        ReloadAction { subject, name: name(part), step, why, error: None }
    };
    let known = new.iter().zip(&parts.fates).map(|(part, fate)| match fate {
        Fate::Added => action(part, Step::Added, &[]),
        Fate::Stays { why, .. } => action(part, if why.is_empty() { Step::Kept } else { Step::Changed }, why),
        Fate::Reopened { why, .. } => action(part, Step::Reopened, why),
    });
    known.chain(parts.gone.iter().map(|&index| action(&old[index], Step::Removed, &[]))).collect()
}

/// Returns the name of a mapping.
pub(in crate::switch) fn mapping_name(mapping: &MappingSpec) -> String {
    format!("{} -> {}", mapping.from, mapping.to)
}

/// Returns the name of an exchange.
pub(in crate::switch) fn exchange_name(exchange: &ExchangeSpec) -> String {
    exchange.ports.join(", ")
}

/// Returns the name of a mirror.
pub(in crate::switch) fn mirror_name(mirror: &MirrorSpec) -> String {
    format!("{} -> {}", mirror.from.join(", "), mirror.to)
}
