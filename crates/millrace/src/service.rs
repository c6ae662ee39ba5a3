//! Messages to the service manager (sd_notify(3)), of which systemd's socket is in the environment. Without one nothing is sent.

use crate::serve::Stop;
use engine::stats::{Snapshot, WorkerStats};
use sd_notify::NotifyState;

/// Says that ports are open and requests are answered: after the start, and after each reload.
pub(crate) fn ready() {
    send(&[NotifyState::Ready]);
}

/// Says that a reload begins; [`ready`] ends it.
pub(crate) fn reloading() {
    // systemd with Type=notify-reload compares the time with that of its request.
    let now = NotifyState::monotonic_usec_now().ok();
    send(&[Some(NotifyState::Reloading), now].into_iter().flatten().collect::<Vec<_>>());
}

/// Says that the switch ends, and will not be ready again.
pub(crate) fn stopping() {
    send(&[NotifyState::Stopping]);
}

/// Keeps the manager's watchdog quiet until `stop`, if it has one for this process, and shows the state of the workers.
///
/// A message means that `look`, which answers requests as well, has just returned, and that a worker makes rounds. If only some of
/// several workers hang, the ports of the others still pass frames, which a restart would end: a guest that can hold up its own worker
/// does not restart the switch of all then. With a single worker, as is usual without `[[worker]]`, it does.
pub(crate) fn keep_alive(look: impl Fn() -> Snapshot, stop: &Stop) {
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    let mut told = None;
    loop {
        let seen = look();
        let status = status(&seen);
        if told.as_ref() != Some(&status) {
            send(&[NotifyState::Status(&status)]);
            told = Some(status);
        }
        if !all_hang(&seen.workers) {
            send(&[NotifyState::Watchdog]);
        }
        // Several times within the limit, as this machine may be busy.
        if stop.sleep(limit / 3) {
            return;
        }
    }
}

fn all_hang(workers: &[WorkerStats]) -> bool {
    !workers.is_empty() && workers.iter().all(|worker| worker.hung_seconds.is_some())
}

/// Returns a line for `systemctl status`.
fn status(seen: &Snapshot) -> String {
    let hung: Vec<String> = seen
        .workers
        .iter()
        .filter(|worker| worker.hung_seconds.is_some())
        .map(|worker| format!("worker {} hangs: {}", worker.index, worker.place))
        .collect();
    let counts = format!("ports: {}, workers: {}", seen.ports.len(), seen.workers.len());
    [&[counts][..], &hung].concat().join("; ")
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        let states: Vec<String> = states.iter().map(NotifyState::to_string).collect();
        tracing::warn!("the service manager can't be told {}: {error}", states.join(" "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(hung: &[bool]) -> Vec<WorkerStats> {
        let worker = |(index, hung): (usize, &bool)| WorkerStats {
            index,
            place: "port \"a\"".into(),
            hung_seconds: hung.then_some(2.0),
            ..WorkerStats::default()
        };
        hung.iter().enumerate().map(worker).collect()
    }

    #[test]
    fn a_worker_that_makes_rounds_is_enough_to_live() {
        for (hung, all) in
            [(&[][..], false), (&[false], false), (&[true], true), (&[true, false], false), (&[true; 2], true)]
        {
            assert_eq!(all_hang(&workers(hung)), all, "{hung:?}");
        }
    }

    #[test]
    fn the_status_names_workers_that_hang() {
        let seen = |hung: &[bool]| Snapshot { workers: workers(hung), ..Snapshot::default() };
        assert_eq!(status(&seen(&[false])), "ports: 0, workers: 1");
        assert_eq!(status(&seen(&[false, true])), "ports: 0, workers: 2; worker 1 hangs: port \"a\"");
    }
}
