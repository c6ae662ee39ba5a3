//! Validates and builds the keys of a `[[port]]` that say which workers share its receive queues, and how.

use super::check::Check;
use super::raw::{At, FrameOrder, RawPort, RxSharing, Section};
use engine::spec::{Driver, MOST_SHARING, Order, Sharing, SharingSpec, StaticRoles};
use settings::Problem;
use std::ops::Range;
use std::time::Duration;

/// Default of `stalled-after`: longer than a busy machine keeps a thread from its CPU.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// Builds the sharing of a port, in a file that has `workers` workers.
pub(super) fn build(check: &mut Check, raw: &Section<RawPort>, driver: &Driver, workers: usize) -> Option<SharingSpec> {
    let Some(way) = raw.rx_sharing.as_ref() else {
        if !check.is_unread(&raw.span, "rx-sharing") {
            without_sharing(check, raw);
        }
        return None;
    };
    if way.value != RxSharing::Rss && !driver.capabilities().shares {
        check.error(
            &way.span,
            format!("several workers cannot process one queue of a port of driver `{}`", driver.name()),
            "use rx-sharing = \"rss\" to give each queue a worker of its own",
        );
    }
    if way.value != RxSharing::StaticRole {
        for (key, span) in of_static_roles(raw) {
            check.error(span, format!("`{key}` needs rx-sharing = \"static-role\""), format!("remove `{key}`"));
        }
    }
    let delay = raw.fault.as_ref().and_then(|fault| fault.delay.as_ref());
    if let Some(delay) = delay.filter(|_| way.value == RxSharing::StaticRole) {
        let help =
            "frames that a worker holds back would only leave with later ones: remove `delay`, or share by \"locked\"";
        check.error(&delay.span, "`delay` means nothing to workers with a parent", help);
    }
    let list = check.required(&raw.span, "workers", &raw.workers, "workers = [0, 1]")?;
    let listed = listed(check, list, workers);
    if way.value == RxSharing::Rss && driver.queues() < listed.len() {
        check.warn(
            &list.span,
            format!("only the first {} of these workers have a queue of the port", driver.queues()),
            "give the port more `queues`, or let the workers share one by rx-sharing = \"static-role\"",
        );
    }
    let parent = raw.parent.as_ref().filter(|at| exists(check, at, workers));
    let way = match way.value {
        RxSharing::Rss => Sharing::Rss,
        RxSharing::Locked => Sharing::Locked,
        RxSharing::StaticRole => Sharing::StaticRole(StaticRoles {
            parent: parent.map(|at| at.value as usize),
            order: match raw.order.as_ref().map(|at| at.value).unwrap_or_default() {
                FrameOrder::PerFlow => Order::PerFlow,
                FrameOrder::None => Order::None,
            },
            stalled_after: stalled_after(check, raw),
        }),
    };
    (!listed.is_empty()).then_some(SharingSpec { workers: listed, way })
}

/// Returns the keys that only static roles have, each with its place.
fn of_static_roles(raw: &RawPort) -> impl Iterator<Item = (&'static str, &Range<usize>)> {
    let parent = raw.parent.as_ref().map(|at| ("parent", &at.span));
    let order = raw.order.as_ref().map(|at| ("order", &at.span));
    let stalled = raw.stalled_after.as_ref().map(|at| ("stalled-after", &at.span));
    [parent, order, stalled].into_iter().flatten()
}

/// Reports keys that say nothing without `rx-sharing`.
fn without_sharing(check: &mut Check, raw: &RawPort) {
    let workers = raw.workers.as_ref().map(|at| ("workers", &at.span));
    for (key, span) in workers.into_iter().chain(of_static_roles(raw)) {
        let help = "add rx-sharing = \"static-role\", \"rss\" or \"locked\"";
        check.error(span, format!("`{key}` says nothing without `rx-sharing`"), help);
    }
}

/// Returns the workers that are listed and exist, each once.
fn listed(check: &mut Check, list: &At<Vec<At<i64>>>, workers: usize) -> Vec<usize> {
    if list.is_empty() {
        check.error(&list.span, "no worker processes the frames", "list at least one, as in workers = [0, 1]");
    }
    if list.len() > MOST_SHARING {
        let message = format!("{} workers cannot share a queue", list.len());
        check.error(&list.span, message, format!("list at most {MOST_SHARING}"));
    }
    let mut known: Vec<&At<i64>> = Vec::new();
    for at in &list.value {
        if let Some(first) = known.iter().find(|first| first.value == at.value) {
            let problem = Problem::error(&at.span, format!("worker {} is listed twice", at.value), "list it once");
            check.problems.push(problem.and_at(&first.span, "listed here"));
        } else if exists(check, at, workers) {
            known.push(at);
        }
    }
    known.into_iter().map(|at| at.value as usize).collect()
}

/// Reports a worker that does not exist. Workers are numbered by their place in the file.
fn exists(check: &mut Check, at: &At<i64>, workers: usize) -> bool {
    let exists = usize::try_from(at.value).is_ok_and(|index| index < workers);
    if !exists {
        let help = match workers {
            1 => "the only worker is 0; add [[worker]] sections for more".into(),
            _ => format!("the [[worker]] sections are 0 to {}, in their order", workers - 1),
        };
        check.error(&at.span, format!("there is no worker {}", at.value), help);
    }
    exists
}

fn stalled_after(check: &mut Check, raw: &RawPort) -> Duration {
    let Some(at) = raw.stalled_after.as_ref() else { return STALLED_AFTER };
    let time = check.time("stalled-after", at);
    if time.is_some_and(|time| time < Duration::from_millis(1)) {
        let help = "give at least \"1ms\": the kernel may take a worker's CPU for that long";
        check.error(&at.span, format!("`stalled-after` cannot be {}", at.value), help);
    }
    time.unwrap_or(STALLED_AFTER)
}
