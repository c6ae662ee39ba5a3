//! Which worker polls which queue.

use super::Config;
use std::collections::HashSet;
use std::fmt;

/// A queue pair of a port; `a.0` in text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId {
    /// Name of the port.
    pub port: String,
    /// Number of the queue pair, from 0.
    pub queue: u16,
}

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.port, self.queue)
    }
}

impl Config {
    /// The queues of every worker: first those that the configuration gives to it, then the rest, each to the worker
    /// that has the fewest so far. The same configuration always gives the same answer.
    pub fn assignment(&self) -> Vec<Vec<QueueId>> {
        let mut plan: Vec<Vec<QueueId>> = self.workers.iter().map(|worker| worker.queues.clone()).collect();
        let given: HashSet<QueueId> = plan.iter().flatten().cloned().collect();
        let all = self
            .ports
            .iter()
            .flat_map(|port| (0..port.queues()).map(|queue| QueueId { port: port.name.clone(), queue }));
        for queue in all.filter(|queue| !given.contains(queue)) {
            if let Some(least) = plan.iter_mut().min_by_key(|queues| queues.len()) {
                least.push(queue);
            }
        }
        plan
    }
}
