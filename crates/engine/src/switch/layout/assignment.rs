//! Which worker polls which queue.

use crate::spec::{PortSpec, Spec, WorkerSpec};
use foldhash::{HashMap, HashMapExt};
use std::collections::BTreeSet;

/// Workers that poll the queues of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::switch) enum Pollers {
    /// One worker polls this number of queues.
    One { worker: usize, queues: usize },
    /// By queue.
    Each(Vec<usize>),
}

impl Pollers {
    fn of(by_queue: Vec<usize>) -> Pollers {
        match by_queue.first() {
            Some(&worker) if by_queue.iter().all(|other| *other == worker) => {
                Pollers::One { worker, queues: by_queue.len() }
            }
            _ => Pollers::Each(by_queue),
        }
    }

    /// Returns the worker that polls a queue of the port.
    pub(in crate::switch) fn of_queue(&self, queue: usize) -> usize {
        match self {
            Pollers::One { worker, .. } => *worker,
            Pollers::Each(by_queue) => by_queue[queue],
        }
    }

    /// Returns the number of queues.
    pub(in crate::switch) fn queues(&self) -> usize {
        match self {
            Pollers::One { queues, .. } => *queues,
            Pollers::Each(by_queue) => by_queue.len(),
        }
    }

    /// Returns the queues that `worker` polls.
    pub(in crate::switch) fn polled_by(&self, worker: usize) -> impl Iterator<Item = usize> {
        let count = match self {
            Pollers::One { worker: own, .. } if *own != worker => 0,
            _ => self.queues(),
        };
        (0..count).filter(move |&queue| self.of_queue(queue) == worker)
    }

    /// Returns the workers, each once.
    pub(in crate::switch) fn workers(&self) -> BTreeSet<usize> {
        match self {
            Pollers::One { queues: 0, .. } => BTreeSet::new(),
            Pollers::One { worker, .. } => [*worker].into(),
            Pollers::Each(by_queue) => by_queue.iter().copied().collect(),
        }
    }
}

/// The workers of all ports of a specification, in its order.
pub(in crate::switch) type Assignment = Vec<Pollers>;

/// Assigns a worker to each queue of each port of `spec`: the worker that the port or the worker names, or else the one with the
/// fewest queues. If the guest chooses the number of queues, all its unnamed ones count as one and stay together: otherwise
/// every worker would need an output to wherever the port's frames go.
///
/// As long as the workers are those of the specification `before`, ports that it has stay at theirs, whichever others come and go.
pub(in crate::switch) fn assignment(spec: &Spec, before: Option<(&Spec, &Assignment)>) -> Assignment {
    let workers = spec.workers_or_default();
    let names = |workers: &[WorkerSpec]| workers.iter().map(|worker| worker.queues.clone()).collect::<Vec<_>>();
    let before = before.filter(|(before, _)| names(&before.workers_or_default()) == names(&workers));
    let had: HashMap<_, _> =
        before.into_iter().flat_map(|(before, had)| before.ports.iter().zip(had)).map(|at| (&at.0.name, at)).collect();
    let mut named: HashMap<&str, Vec<(Option<usize>, usize)>> = HashMap::new();
    for (worker, queues) in workers.iter().enumerate().flat_map(|(index, w)| w.queues.iter().map(move |q| (index, q))) {
        named.entry(&queues.port).or_default().push((queues.queue, worker));
    }
    let wanted: Vec<Wanted> = spec.ports.iter().map(|port| Wanted::of(port, &had, &named)).collect();
    let mut load = vec![0; workers.len()];
    spec.ports.iter().zip(&wanted).for_each(|(port, wanted)| wanted.count(port, &mut load));
    let place = |(port, wanted): (&PortSpec, Wanted)| wanted.place(port, &mut load);
    spec.ports.iter().zip(wanted).map(place).collect()
}

/// Workers of a port's queues, as far as they are known before others are placed.
enum Wanted {
    /// All are.
    Known(Pollers),
    /// By queue; `None` for those that go to the worker with the fewest queues.
    Some(Vec<Option<usize>>),
}

impl Wanted {
    fn of(
        port: &PortSpec,
        had: &HashMap<&String, (&PortSpec, &Pollers)>,
        named: &HashMap<&str, Vec<(Option<usize>, usize)>>,
    ) -> Wanted {
        let queues = port.driver.queues();
        if let Some(sharing) = &port.sharing {
            return Wanted::Known(Pollers::of((0..queues).map(|queue| sharing.poller(queue)).collect()));
        }
        if let Some((before, pollers)) = had.get(&port.name)
            && before.sharing.is_none()
            && pollers.queues() == queues
        {
            return Wanted::Known((*pollers).clone());
        }
        let Some(named) = named.get(port.name.as_str()) else { return Wanted::Some(vec![None; queues]) };
        let of =
            |queue| named.iter().find(|(only, _)| only.is_none_or(|only| only == queue)).map(|(_, worker)| *worker);
        Wanted::Some((0..queues).map(of).collect())
    }

    /// Counts what is known of a port, with the workers that share its queues.
    fn count(&self, port: &PortSpec, load: &mut [usize]) {
        let others = port.sharing.iter().flat_map(|sharing| &sharing.workers);
        others.for_each(|&worker| load[worker] += 1);
        let known: Vec<usize> = match self {
            Wanted::Known(pollers) if port.driver.is_asked() => pollers.workers().into_iter().collect(),
            Wanted::Known(pollers) => (0..pollers.queues()).map(|queue| pollers.of_queue(queue)).collect(),
            Wanted::Some(by_queue) if port.driver.is_asked() => {
                by_queue.iter().flatten().copied().collect::<BTreeSet<_>>().into_iter().collect()
            }
            Wanted::Some(by_queue) => by_queue.iter().flatten().copied().collect(),
        };
        known.into_iter().for_each(|worker| load[worker] += 1);
    }

    fn place(self, port: &PortSpec, load: &mut [usize]) -> Pollers {
        let by_queue = match self {
            Wanted::Known(pollers) => return pollers,
            Wanted::Some(by_queue) => by_queue,
        };
        let mut least = || {
            let least = (0..load.len()).min_by_key(|&worker| load[worker]).unwrap_or_default();
            load[least] += 1;
            least
        };
        if port.driver.is_asked() {
            let rest = if by_queue.contains(&None) { least() } else { 0 };
            return Pollers::of(by_queue.iter().map(|worker| worker.unwrap_or(rest)).collect());
        }
        Pollers::of(by_queue.iter().map(|worker| worker.unwrap_or_else(&mut least)).collect())
    }
}
