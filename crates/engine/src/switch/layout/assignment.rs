//! Which worker polls which queue.

use crate::spec::{PortSpec, Spec};

/// Assigns a worker to each queue of each port of `spec`: the worker that the port or the worker names, or else the one with the
/// fewest queues. If the guest chooses the number of queues, all its unnamed ones count as one and stay together: otherwise
/// every worker would need an output to wherever the port's frames go.
pub(in crate::switch) fn assignment(spec: &Spec) -> Vec<Vec<usize>> {
    let workers = spec.workers_or_default();
    let named = |port: &PortSpec, queue: usize| match &port.sharing {
        Some(sharing) => Some(sharing.poller(queue)),
        None => workers.iter().position(|w| w.queues.iter().any(|queues| queues.covers(&port.name, queue))),
    };
    let wanted: Vec<Vec<_>> =
        spec.ports.iter().map(|port| (0..port.driver.queues()).map(|queue| named(port, queue)).collect()).collect();
    let mut load = vec![0; workers.len()];
    for (port, wanted) in spec.ports.iter().zip(&wanted) {
        let mut named: Vec<usize> = wanted.iter().flatten().copied().collect();
        if port.driver.is_asked() {
            named.sort_unstable();
            named.dedup();
        }
        let others = port.sharing.iter().flat_map(|sharing| &sharing.workers);
        named.iter().chain(others).for_each(|&worker| load[worker] += 1);
    }
    let mut least = || {
        let least = (0..load.len()).min_by_key(|&worker| load[worker]).unwrap_or_default();
        load[least] += 1;
        least
    };
    let mut place = |(port, wanted): (&PortSpec, Vec<Option<usize>>)| {
        if port.driver.is_asked() {
            let rest = if wanted.contains(&None) { least() } else { 0 };
            return wanted.iter().map(|worker| worker.unwrap_or(rest)).collect();
        }
        wanted.iter().map(|worker| worker.unwrap_or_else(&mut least)).collect()
    };
    spec.ports.iter().zip(wanted).map(&mut place).collect()
}
