//! Judging and building the `[[worker]]` sections.

use super::build::{BuiltPort, BuiltPorts, Check};
use super::raw::{At, RawWorker, Section};
use super::{QueueId, Worker};
use settings::Problem;
use std::collections::HashMap;
use std::ops::Range;

/// CPU numbers that `cpu_set_t` can hold (CPU_SET(3)).
const CPUS: Range<i64> = 0..1024;

/// Builds all workers.
pub(super) fn build(check: &mut Check, raw: &[Section<RawWorker>], ports: &BuiltPorts) -> Vec<Worker> {
    let mut polled: HashMap<QueueId, &Range<usize>> = HashMap::new();
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
            for queue in resolve(check, at, ports) {
                if let Some(first) = polled.insert(queue.clone(), &at.span) {
                    check.problems.push(
                        Problem::error(
                            &at.span,
                            format!("queue {}.{} already has a worker", queue.port, queue.queue),
                            "name it once only",
                        )
                        .and_at(first, "named here"),
                    );
                    continue;
                }
                queues.push(queue);
            }
        }
        let idle = raw.idle.as_ref().map(|at| at.value).unwrap_or_default();
        let patience = raw.patience.as_ref().and_then(|at| check.time("patience", at));
        workers.push(Worker { cpu, idle, patience, queues });
    }
    workers
}

/// The queues that `"a"` or `"a.1"` names.
fn resolve(check: &mut Check, at: &At<String>, ports: &BuiltPorts) -> Vec<QueueId> {
    let (name, number) = match at.split_once('.') {
        None => (at.as_str(), None),
        Some((name, number)) => (name, Some(number)),
    };
    let Some(BuiltPort { port, .. }) = ports.find(check, name, &at.span) else { return Vec::new() };
    let queue = |number| QueueId { port: name.to_owned(), queue: number };
    let Some(number) = number else {
        return (0..port.queues()).map(queue).collect();
    };
    match number.parse::<u16>() {
        Ok(number) if number < port.queues() => vec![queue(number)],
        _ => {
            let help = match port.queues() {
                1 => format!("its only queue is `{name}.0`"),
                count => format!("its queues are `{name}.0` to `{name}.{}`", count - 1),
            };
            check.error(&at.span, format!("port `{name}` has no queue `{number}`"), help);
            Vec::new()
        }
    }
}
