//! Validates and builds the `[[worker]]` sections.

use super::check::Check;
use super::ports::{BuiltPort, BuiltPorts};
use super::raw::{self, RawWorker, Section};
use engine::spec::{Idle, PortQueues, WorkerSpec};
use settings::Problem;
use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

/// CPU numbers that `cpu_set_t` can hold (CPU_SET(3)).
const CPUS: Range<i64> = 0..1024;

/// Shortest turn of a port: no burst takes less.
const SHORTEST_TURN: Duration = Duration::from_micros(1);

/// Builds all workers: a single one if there is no section.
pub(super) fn build(check: &mut Check, raw: &[Section<RawWorker>], ports: &BuiltPorts) -> Vec<WorkerSpec> {
    if raw.is_empty() {
        return vec![WorkerSpec::default()];
    }
    let mut polled: HashMap<(&str, usize), &Range<usize>> = HashMap::new();
    let mut cpus: HashMap<i64, &Range<usize>> = HashMap::new();
    let mut workers = Vec::new();
    for raw in raw {
        let cpu = raw.cpu.as_ref().map(|at| {
            if let Some(first) = cpus.insert(at.value, &at.span) {
                check.problems.push(
                    Problem::error(&at.span, format!("CPU {} already has a worker", at.value), "pin each to its own")
                        .and_at(first, "pinned here"),
                );
            }
            check.number("cpu", &raw.cpu, &CPUS, 0) as usize
        });
        let mut queues = Vec::new();
        for at in raw.ports.iter().flat_map(|list| &list.value) {
            let Some((BuiltPort { spec, workers_span, .. }, queue)) = ports.find_queues(check, at) else { continue };
            if let Some(shared) = workers_span.as_ref().filter(|_| spec.sharing.is_some()) {
                let message = format!("port {} names its workers itself", spec.name);
                let problem = Problem::error(&at.span, message, "name it here, or `workers` there, not both");
                check.problems.push(problem.and_at(shared, "named here"));
                continue;
            }
            let port = spec.name.as_str();
            for queue in queue.map_or(0..spec.driver.queues(), |queue| queue..queue + 1) {
                if let Some(first) = polled.insert((port, queue), &at.span) {
                    let message = format!("queue {port}.{queue} already has a worker");
                    let problem = Problem::error(&at.span, message, "name it once only").and_at(first, "named here");
                    check.problems.push(problem);
                    continue;
                }
                queues.push(PortQueues::one(port, queue));
            }
        }
        let idle = match raw.idle.as_ref().map(|at| at.value).unwrap_or_default() {
            raw::Idle::Poll => Idle::Poll,
            raw::Idle::Backoff => Idle::Backoff,
            raw::Idle::Sleep => Idle::Sleep,
        };
        let patience = raw.patience.as_ref().and_then(|at| check.time("patience", at));
        let turn = raw.turn.as_ref().and_then(|at| {
            let turn = check.time("turn", at)?;
            if turn < SHORTEST_TURN {
                check.error(&at.span, format!("`turn` cannot be {}", at.value), "give at least \"1us\"");
            }
            Some(turn)
        });
        workers.push(WorkerSpec { cpu, idle, patience, turn, queues });
    }
    workers
}
