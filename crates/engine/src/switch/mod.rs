//! The control side: owns the ports, follows the specification, and reads the counters.

mod actions;
mod aggregation;
mod datapath;
mod fabric;
mod layout;
mod mapping;
mod open;
mod reload;
mod shared;
mod site;
mod tags;
mod tenancy;
#[cfg(all(test, not(loom)))]
mod tests;
mod watchdog;

use crate::clock::{self, Cycles};
use crate::drops::by_reason;
use crate::forward::bridge::Bridge;
use crate::forward::flows::Datapath;
use crate::forward::mac_table::{Learning, TooManyStatics};
use crate::live::Live;
use crate::punt::EventNotifier;
use crate::reload::Action;
use crate::spec::{AggregationSpec, BridgeSpec, PortSpec, Spec, WorkerSpec};
use crate::stage::order;
use crate::stats::{AggregationFlow, LearningStats, MacEntry, MappingStats, PortStats, Snapshot, WorkerStats};
use crate::worker::{Pulse, Unresponsive};
use fabric::Fabric;
use layout::{Domain, Layout, QueueIndex};
use open::Connection;
use paflow::Rules;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shared::PortShared;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use open::OpenError;

/// Interval of housekeeping: handling faults that workers raised, and ageing addresses.
const HOUSEKEEPING: Duration = Duration::from_millis(50);

/// Pause after answering neighbours: requests beyond the ring's size go unanswered in that time.
const NEIGHBOUR_REPLY_INTERVAL: Duration = Duration::from_millis(10);

/// Reason why the switch cannot start or reload.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Ports could not be opened.
    #[error("{}", lines(.0))]
    Open(Vec<OpenError>),
    /// A worker could not be started.
    #[error("cannot start a worker: {0}")]
    Worker(std::io::Error),
    /// A worker hangs, so that nothing it uses can be changed.
    #[error("worker {worker} does not respond: it is at {place}; nothing was changed, see `millrace ctl workers`")]
    Unresponsive {
        /// Its index.
        worker: usize,
        /// Its place.
        place: String,
    },
    /// A bridge has more static addresses than it has room for.
    #[error("bridge \"{0}\": {1}")]
    Statics(String, TooManyStatics),
}

fn lines(errors: &[OpenError]) -> String {
    errors.iter().map(OpenError::to_string).collect::<Vec<_>>().join("\n")
}

/// A running switch; dropping it stops it.
pub struct Switch {
    inner: Arc<Inner>,
    housekeeper: Option<JoinHandle<()>>,
    watchdog: Option<JoinHandle<()>>,
}

struct Inner {
    fabric: Arc<Fabric>,
    /// Locked while the specification changes, which may take long, as it waits for workers and guests.
    open: Mutex<Open>,
    topology: Live<Topology>,
    /// Rules of the ports that aggregate.
    rules: Arc<Live<Rules>>,
    /// Sources of these rules.
    laid: Mutex<Laid>,
    /// Flows of the bridge that forwards by them.
    datapath: Arc<Datapath>,
    /// Signalled when workers have packets for controllers, or flows relayed by other switches.
    notifier: Arc<EventNotifier>,
    /// Signalled when neighbours have asked for the switch's addresses.
    asked: Arc<EventNotifier>,
    started: Instant,
    stop: AtomicBool,
    /// Whether everything has stopped, so that the watchdog can end.
    is_over: AtomicBool,
}

/// Aggregation of the specification, and flows laid over those it has.
#[derive(Default)]
struct Laid {
    spec: Option<AggregationSpec>,
    flows: Vec<AggregationFlow>,
}

/// Open connections of the switch.
struct Open {
    /// By port, in the order of the specification.
    connections: Vec<Connection>,
    next_id: u64,
}

/// The running specification, for all readers: it is replaced as a whole.
struct Topology {
    spec: Spec,
    layout: Layout,
    workers: Vec<Arc<Pulse>>,
}

impl Switch {
    /// Starts the switch that `spec` describes. If a port cannot be opened, nothing is left running.
    pub fn start(spec: Spec) -> Result<Switch, Error> {
        let (switch, failed) = Switch::launch(spec)?;
        if failed.is_empty() { Ok(switch) } else { Err(Error::Open(failed)) }
    }

    /// Starts the switch that `spec` describes. Ports that cannot be opened are down, and are tried again.
    pub fn start_lenient(spec: Spec) -> Result<Switch, Error> {
        Switch::launch(spec).map(|(switch, _)| switch)
    }

    /// Starts a switch. Also returns the ports that could not be opened.
    fn launch(spec: Spec) -> Result<(Switch, Vec<OpenError>), Error> {
        let nothing =
            Topology { spec: Spec::default(), layout: Layout::new(&Spec::default(), vec![], vec![]), workers: vec![] };
        clock::start();
        let [notifier, asked] =
            [EventNotifier::new().map_err(Error::Worker)?, EventNotifier::new().map_err(Error::Worker)?].map(Arc::new);
        let datapath = Arc::new(Datapath::new(notifier.clone()));
        let inner = Arc::new(Inner {
            fabric: Arc::new(Fabric::new(datapath.drops.clone())),
            open: Mutex::new(Open { connections: vec![], next_id: 1 }),
            topology: Live::new(nothing),
            rules: Arc::new(Live::new(Rules::none())),
            laid: Mutex::default(),
            datapath,
            notifier,
            asked,
            started: Instant::now(),
            stop: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let failed = inner.apply(spec)?.failed;
        let mut switch = Switch { inner, housekeeper: None, watchdog: None };
        let thread = |name: &str, run: fn(&Inner)| {
            let inner = switch.inner.clone();
            std::thread::Builder::new().name(name.into()).spawn(move || run(&inner)).map_err(Error::Worker)
        };
        let (housekeeper, watchdog) = (thread("housekeeper", Inner::keep_house), thread("watchdog", Inner::watch));
        switch.housekeeper = Some(housekeeper?);
        switch.watchdog = Some(watchdog?);
        Ok((switch, failed))
    }

    /// Changes the running switch to `spec`, and returns the actions taken. Parts that are the same in both continue
    /// without losing a frame. On an error nothing was done.
    pub fn reload(&self, spec: Spec) -> Result<Vec<Action>, Error> {
        self.inner.respond()?;
        Ok(vhost_user::keep_sockets(|| self.inner.apply(spec))?.actions)
    }

    /// Returns all counters at this moment.
    pub fn snapshot(&self) -> Snapshot {
        let topology = self.inner.topology();
        let layout = &topology.layout;
        let ports = layout.ports.iter().zip(&topology.spec.ports).enumerate();
        let worker = |(pulse, spec): (&Arc<Pulse>, &WorkerSpec)| {
            let (index, counters) = (pulse.index, &pulse.counters);
            let sampled = counters.sampled.get().max(1) as f64;
            let stages = order::cycles(&counters.watch).into_iter();
            let polled = layout.polled_by(index).filter(|at| at.queue < layout.ports[at.port].reported());
            WorkerStats {
                index,
                cpu: spec.cpu,
                idle: spec.idle.name().into(),
                busy_cycles: counters.busy.get(),
                idle_cycles: counters.idle.get(),
                busy_rounds: counters.rounds.get(),
                sleeps: counters.sleeps.get(),
                packets: counters.packets.get(),
                stage_cycles_per_packet: stages.map(|(name, cycles)| (name.into(), cycles as f64 / sampled)).collect(),
                queues: polled.map(|at| format!("{}.{}", layout.ports[at.port].name, at.queue)).collect(),
                place: topology.place(pulse),
                hung_seconds: watchdog::hung(pulse),
            }
        };
        Snapshot {
            uptime_seconds: self.inner.started.elapsed().as_secs_f64(),
            cycles_hz: Cycles::new().hz(),
            ports: ports.map(|(index, (port, spec))| topology.port_stats(index, port, spec)).collect(),
            workers: topology.workers.iter().zip(&layout.workers).map(worker).collect(),
            mappings: topology.mapping_stats(),
            aggregation: topology.aggregation_stats(&self.inner.rules.get()),
            datapath: topology.datapath_stats(&self.inner.datapath),
        }
    }

    /// Returns the MAC tables of all bridges.
    pub fn macs(&self) -> Vec<MacEntry> {
        let topology = self.inner.topology();
        let now = clock::seconds();
        let mut entries = Vec::new();
        for (spec, bridge, members) in topology.bridges() {
            entries.extend(bridge.table.entries(now).into_iter().map(|e| MacEntry {
                bridge: spec.name.clone(),
                mac: e.mac.to_string(),
                vlan: e.vlan,
                port: topology.layout.ports[members[usize::from(e.port)]].name.clone(),
                age_seconds: e.seen.map(|s| now.wrapping_sub(s).into()),
            }));
        }
        entries
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.inner.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.housekeeper.take() {
            let _ = thread.join();
        }
        // Sessions end first, so that guests get their buffers back; then the workers.
        let _ = self.inner.apply(Spec::default());
        self.inner.fabric.end();
        self.inner.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.watchdog.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Topology {
    fn bridges(&self) -> impl Iterator<Item = (&BridgeSpec, &Arc<Bridge>, &Vec<usize>)> {
        let domains = self.layout.domains.iter().filter_map(|domain| match domain {
            Domain::Bridge { bridge, members } => Some((bridge, members)),
            Domain::Patch(_) => None,
        });
        self.spec.bridges.iter().zip(domains).map(|(spec, (bridge, members))| (spec, bridge, members))
    }

    fn port_stats(&self, index: usize, port: &PortShared, spec: &PortSpec) -> PortStats {
        let state = port.state();
        let stage_drops = port.drops.named();
        let queues = port.queues[..port.reported()].iter().enumerate().map(|(queue, counters)| {
            let mut stats = counters.stats();
            stats.worker = Some(self.layout.poller(QueueIndex { port: index, queue }));
            stats
        });
        PortStats {
            name: port.name.clone(),
            driver: spec.driver.name().into(),
            up: state.up,
            detail: state.detail,
            forwarding: self.forwarding(index),
            queues: queues.collect(),
            drops: by_reason(&stage_drops),
            stage_drops,
            neighbours_answered: port.neighbours().answered(),
            cut_short: port.drops.queue.cut_short(),
            learning: self.learning(index),
        }
    }

    fn learning(&self, port: usize) -> Option<LearningStats> {
        let Some(Domain::Bridge { bridge, members }) = self.layout.domain_of(port) else { return None };
        let (learning, flooded) = bridge.learning(members.iter().position(|&member| member == port)? as u16);
        let Learning { learned, limit, over_limit, no_room } = learning;
        Some(LearningStats { learned, limit, over_limit, no_room, flooded })
    }

    fn forwarding(&self, port: usize) -> String {
        let bridge = self.bridges().find(|(_, _, members)| members.contains(&port));
        match (self.layout.domain_of(port), bridge) {
            (Some(Domain::Patch([a, b])), _) => {
                format!("patch {}", self.layout.ports[if *a == port { *b } else { *a }].name)
            }
            (_, Some((spec, ..))) => format!("bridge {}", spec.name),
            _ => self.mapped(port).or_else(|| self.mirrored(port)).unwrap_or_else(|| "nowhere".into()),
        }
    }
}

impl Topology {
    /// Describes the patches of single queues of `port`, if there are any.
    fn mapped(&self, port: usize) -> Option<String> {
        let name = &self.layout.ports[port].name;
        let patches = self.spec.mappings.iter().filter(|mapping| mapping.pass_through && mapping.is_of_one());
        let others = patches.filter_map(|mapping| match (mapping.from.port == *name, mapping.to.port == *name) {
            (true, _) => Some(mapping.to.to_string()),
            (_, true) => Some(mapping.from.to_string()),
            _ => None,
        });
        let others: Vec<_> = others.collect();
        (!others.is_empty()).then(|| format!("patch {}", others.join(", ")))
    }

    /// Describes the mirrors that copy to `port`, if there are any.
    fn mirrored(&self, port: usize) -> Option<String> {
        let here = self.layout.mirrors.iter().filter(|mirror| mirror.to == port);
        let from: Vec<_> = here.flat_map(|mirror| &mirror.spec.from).map(String::as_str).collect();
        (!from.is_empty()).then(|| format!("mirror of {}", from.join(", ")))
    }
}

impl Inner {
    fn topology(&self) -> Arc<Topology> {
        self.topology.get()
    }

    /// Checks that all workers respond.
    fn respond(&self) -> Result<(), Error> {
        self.fabric.respond().map_err(|Unresponsive(worker)| {
            let topology = self.topology();
            let place = topology.workers.get(worker).map(|pulse| topology.place(pulse));
            Error::Unresponsive { worker, place: place.unwrap_or_default() }
        })
    }

    /// Answers neighbours, ends connections whose queues had to stop, and forgets old addresses.
    fn keep_house(&self) {
        let (mut swept, mut files) = (0, Vec::new());
        while !self.stop.load(Ordering::Relaxed) {
            self.wait_to_be_asked();
            self.retry();
            let topology = self.topology();
            let mut answered = false;
            for port in &topology.layout.ports {
                for (queue, answers) in port.neighbours().drain() {
                    self.fabric.send(port, queue, answers);
                    answered = true;
                }
            }
            for port in &topology.layout.ports {
                if let Some(why) = port.fault.take(|| port.hang_up()) {
                    tracing::error!("port \"{}\": {why}", port.name);
                }
            }
            let now = clock::seconds();
            if now != swept {
                swept = now;
                for (_, bridge, members) in topology.bridges() {
                    let down: Vec<bool> =
                        members.iter().map(|&member| !topology.layout.ports[member].state().up).collect();
                    bridge.table.sweep(now, |port| down[usize::from(port)]);
                }
                files = topology.layout.ports.iter().filter_map(|port| port.file().cloned()).collect();
                files.extend(self.fabric.recorders());
            }
            drop(topology);
            files.drain(..).for_each(|file| file.keep());
            if answered {
                std::thread::sleep(NEIGHBOUR_REPLY_INTERVAL);
            }
        }
    }

    /// Tries again to open ports, unless the specification is being changed.
    fn retry(&self) {
        let Ok(mut open) = self.open.try_lock() else { return };
        let topology = self.topology();
        let ports = topology.spec.ports.iter().zip(&topology.layout.ports);
        for ((spec, shared), connection) in ports.zip(&mut open.connections) {
            open::retry(connection, spec, shared, &self.fabric);
        }
    }

    /// Sleeps until neighbours ask, at most for the housekeeping interval.
    fn wait_to_be_asked(&self) {
        let mut fds = [PollFd::new(self.asked.fd(), PollFlags::IN)];
        let longest = Timespec { tv_sec: 0, tv_nsec: HOUSEKEEPING.as_nanos() as i64 };
        if poll(&mut fds, Some(&longest)).is_ok_and(|ready| ready > 0) {
            self.asked.clear();
        }
    }
}

impl Topology {
    fn mapping_stats(&self) -> Vec<MappingStats> {
        let mut stats = Vec::new();
        for (port, shared) in self.layout.ports.iter().enumerate() {
            for queue in 0..shared.queues.len() {
                let from = QueueIndex { port, queue };
                let (Some(mapping), Some(to)) = (shared.mapping(queue), self.layout.rx_buffers_from(from)) else {
                    continue;
                };
                stats.push(mapping.stats(|| self.lends(from, to)));
            }
        }
        stats
    }

    /// Checks that the worker of a physical queue can borrow from the guest's queue, or explains why not.
    fn lends(&self, from: QueueIndex, to: QueueIndex) -> Result<(), String> {
        let [from_port, to_port] = [from, to].map(|queue| &self.spec.ports[queue.port]);
        if self.layout.senders_to(to) > 1 {
            let worker = self.layout.poller(from);
            return Err(format!(
                "several workers send to \"{}\": let worker {worker} poll all ports that do",
                to_port.name
            ));
        }
        if from_port.aggregate {
            return Err(format!("packets of \"{}\" are taken out of aggregates", from_port.name));
        }
        for port in [from_port, to_port] {
            if port.record.is_some() || port.fault.is_some() || port.staged {
                return Err(format!("frames of \"{}\" are recorded, staged or have faults injected", port.name));
            }
        }
        Ok(())
    }
}
