//! Validates and builds the `[[worker]]` sections.

use super::check::Check;
use super::ports::{BuiltPort, BuiltPorts};
use super::raw::{self, At, RawWorker, Section};
use engine::spec::{Idle, WorkerSpec};
use settings::Problem;
use std::collections::HashMap;
use std::ops::Range;

/// CPU numbers that `cpu_set_t` can hold (CPU_SET(3)).
const CPUS: Range<i64> = 0..1024;

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
            let Some((port, numbers)) = named(check, at, ports) else { continue };
            for queue in numbers {
                if let Some(first) = polled.insert((port, queue), &at.span) {
                    let message = format!("queue {port}.{queue} already has a worker");
                    let problem = Problem::error(&at.span, message, "name it once only").and_at(first, "named here");
                    check.problems.push(problem);
                    continue;
                }
                queues.push((port.to_owned(), Some(queue)));
            }
        }
        let idle = match raw.idle.as_ref().map(|at| at.value).unwrap_or_default() {
            raw::Idle::Poll => Idle::Poll,
            raw::Idle::Backoff => Idle::Backoff,
            raw::Idle::Sleep => Idle::Sleep,
        };
        let patience = raw.patience.as_ref().and_then(|at| check.time("patience", at));
        workers.push(WorkerSpec { cpu, idle, patience, queues });
    }
    workers
}

/// Returns the port named by `"a"` or `"a.1"`, and the queues that the name covers.
fn named<'a>(check: &mut Check, at: &'a At<String>, ports: &BuiltPorts) -> Option<(&'a str, Range<usize>)> {
    let (name, number) = match at.split_once('.') {
        None => (at.as_str(), None),
        Some((name, number)) => (name, Some(number)),
    };
    let BuiltPort { spec, .. } = ports.find(check, name, &at.span)?;
    let count = spec.driver.queues();
    let Some(number) = number else { return Some((name, 0..count)) };
    if let Some(queue) = number.parse().ok().filter(|&queue| queue < count) {
        return Some((name, queue..queue + 1));
    }
    let help = match count {
        1 => format!("its only queue is `{name}.0`"),
        _ => format!("its queues are `{name}.0` to `{name}.{}`", count - 1),
    };
    check.error(&at.span, format!("port `{name}` has no queue `{number}`"), help);
    None
}
