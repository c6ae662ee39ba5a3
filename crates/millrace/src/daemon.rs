//! The switch process: startup order and signal handling.

use crate::config::{Config, Dpdk, Grant, LoadError, Origin, Purpose, Reach, ReachError};
use crate::confine::{PrivilegeError, confine};
use crate::control::{Handler, Server};
use crate::descriptors;
use crate::metrics::Exporter;
use crate::openflow::{Service, SharedSwitch};
use crate::parts::directories::{self, DirectoryError};
use crate::parts::{Changes, Parts, Refusal, Store};
use crate::serve::{ListenError, Listener, Stop};
use crate::service;
use crate::signals::{Signal, Signals};
use api::confinement::Confined;
use api::event::{Event, EventKind};
use api::flow::Flow;
use api::part::{Change, Effect, Owner, PartKind};
use api::port::PortSummary;
use api::reload::{Mended, ReloadReport};
use engine::Switch;
use engine::events::{CannotFollow, Follower};
use engine::port::dpdk;
use engine::reload::ReloadAction;
use engine::spec::Spec;
use engine::stats::{AggregationFlow, MacEntry, PortState, Snapshot};
use engine::why::PortWhy;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use signal_hook::iterator::Handle;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use toml::Table;

/// Error that keeps the switch from running.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration could not be loaded.
    #[error(transparent)]
    Config(#[from] LoadError),
    /// The control socket, the metrics endpoint or the OpenFlow channel could not listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A directory granted by the configuration is missing.
    #[error(transparent)]
    Reach(#[from] ReachError),
    /// Privileges could not be dropped.
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    /// A worker, or a port in a strict start, could not be started.
    #[error(transparent)]
    Switch(#[from] engine::Error),
    /// A port could not take a resource that a confined switch cannot take any more.
    #[error("port \"{port}\": {why}")]
    Claim {
        /// The port.
        port: String,
        /// The cause.
        why: String,
    },
    /// DPDK could not be started.
    #[error("cannot start DPDK: {0}")]
    Dpdk(String),
    /// A directory of sockets could not be made.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The directory of parts that are added at run time could not be read.
    #[error("cannot read {}, which `ports` of [control] names: {source}; create it, and give it to the user of [confinement]", path.display())]
    Kept {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    System {
        /// The attempted action.
        action: &'static str,
        /// The cause.
        source: io::Error,
    },
}

/// Keeps this thread, and all that it starts later, off the processors that workers are pinned to, if there are others.
fn leave_to_workers(spec: &Spec) {
    let Ok(mut others) = sched_getaffinity(None) else { return };
    let pinned = spec.workers.iter().filter_map(|worker| worker.cpu);
    pinned.filter(|&cpu| cpu < CpuSet::MAX_CPU).for_each(|cpu| others.unset(cpu));
    if others.count() > 0
        && let Err(error) = sched_setaffinity(None, &others)
    {
        tracing::warn!("threads other than workers may run on the workers' processors: {error}");
    }
}

/// Runs the switch described by the file at `path` until SIGINT, SIGTERM or a shutdown request. A `strict` start fails if a
/// port can't be opened.
pub fn run(path: &Path, strict: bool) -> Result<(), DaemonError> {
    descriptors::raise();
    let mut signals = Signals::take().map_err(|source| DaemonError::System { action: "handle signals", source })?;
    let is_file = Origin(path).is_file();
    let (config, document, warnings) = Config::load_within(path, None)?;
    for warning in warnings.lines() {
        tracing::warn!("{warning}");
    }
    let kept = |source| DaemonError::Kept { path: config.kept.clone().unwrap_or_default(), source };
    let store = config.kept.as_deref().map(Store::open).transpose().map_err(kept)?;
    // Until the switch is confined, everything is done for the file alone: a confined switch can write the files of added parts.
    if config.makes_directories {
        directories::make_for(&config)?;
    }
    let reach = Reach::of(&config, path)?;
    let within = config.confinement.enabled.then_some(&reach);
    let (parts, left) = Parts::new(document, config.clone(), store, within).map_err(kept)?;
    for left in left {
        tracing::error!("left out, as if it had not been added: {left}");
    }
    let stop = Stop::new().map_err(|source| DaemonError::System { action: "create an eventfd", source })?;
    let control = Server::bind(&config.control)?;
    let metrics = config.metrics.as_ref().map(Exporter::bind).transpose()?;
    let openflow = config.openflow.as_ref().map(Service::bind).transpose()?;
    for port in &config.spec.ports {
        port.driver.claim().map_err(|why| DaemonError::Claim { port: port.name.clone(), why })?;
    }
    vhost_user::prepare().map_err(|source| DaemonError::System { action: "prepare to notify guests", source })?;
    let mut sockets = vec![control.listener()];
    sockets.extend(metrics.iter().map(Exporter::listener));
    sockets.extend(openflow.iter().flat_map(Service::listeners));
    let sockets = sockets.into_iter().map(Arc::downgrade).collect();
    // Confine before starting a second thread: it would keep the privileges that this one drops.
    let confining = confine(&config.confinement, &reach)?;
    if let Some(Dpdk { devices, memory }) = &config.dpdk {
        let version = dpdk::start(devices, *memory).map_err(DaemonError::Dpdk)?;
        tracing::info!("{version}: {}", devices.join(", "));
    }
    let confined = confining.finish();
    tracing::info!("{confined}");
    confined.missing().for_each(|missing| tracing::warn!("{missing}"));
    let spec = parts.config().spec.clone();
    if config.makes_directories {
        for port in spec.ports.iter().filter(|port| !config.spec.ports.iter().any(|own| own.name == port.name)) {
            directories::make_of(&spec, &port.name).unwrap_or_else(|error| tracing::error!("{error}"));
        }
    }
    leave_to_workers(&spec);
    vhost_user::start().map_err(|source| DaemonError::System { action: "start a thread", source })?;
    let switch = if strict { Switch::start(spec) } else { Switch::start_lenient(spec) }?;
    tracing::info!(control = %config.control.display(), ports = parts.config().spec.ports.len(), "started");

    let daemon = Arc::new(Daemon {
        path: path.to_owned(),
        is_file,
        switch,
        reach: confined.landlock.active.then_some(reach),
        confined,
        makes_directories: config.makes_directories,
        known: Mutex::new(parts.ports()),
        parts: Mutex::new(parts),
        flows: openflow.as_ref().map(Service::shared),
        signals: signals.handle(),
        sockets,
    });
    signals.started();
    let handler: Arc<dyn Handler> = daemon.clone();
    thread::scope(|scope| {
        scope.spawn(|| control.serve(&handler, &stop));
        if let Some(metrics) = metrics {
            scope.spawn(|| metrics.serve(&handler, &stop));
        }
        if let Some(openflow) = openflow {
            scope.spawn(|| openflow.serve(&daemon.switch, &stop));
        }
        scope.spawn(|| service::keep_alive(|| daemon.snapshot(), &stop));
        service::ready();
        signals.obey(|signal| daemon.obey(signal));
        service::stopping();
        stop.set();
    });
    tracing::info!("stopped");
    Ok(())
}

/// Owner and labels of each port, by its name.
type Known = BTreeMap<String, (Owner, BTreeMap<String, String>)>;

/// The running switch.
struct Daemon {
    path: PathBuf,
    /// Whether the configuration can be read again.
    is_file: bool,
    switch: Switch,
    /// Confinement in force.
    confined: Confined,
    /// Paths still accessible, if they are restricted.
    reach: Option<Reach>,
    /// Whether it makes directories of sockets.
    makes_directories: bool,
    /// Its parts, locked while they change.
    parts: Mutex<Parts>,
    /// Owners and labels of its ports as of the last change: asking for them waits for none.
    known: Mutex<Known>,
    /// Flows set by controllers, if OpenFlow is configured.
    flows: Option<SharedSwitch>,
    /// Closing it ends the signal loop, and with it the switch.
    signals: Handle,
    /// Sockets of the services, which end with these.
    sockets: Vec<Weak<Listener>>,
}

impl Daemon {
    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a change of parts, and logs it.
    fn edit(&self, change: impl FnOnce(&mut Parts) -> Result<Change, Refusal>) -> Result<Change, Refusal> {
        let mut parts = self.parts();
        let change = change(&mut parts)?;
        *self.known() = parts.ports();
        let failed = change.actions.iter().filter_map(|action| action.error.as_ref().map(|_| action.to_string()));
        failed.for_each(|failed| tracing::error!("{failed}"));
        tracing::info!("{change}");
        let Change { kind, name, effect, actions } = change.clone();
        match effect {
            Effect::Added => self.tell(EventKind::PartAdded { kind, name, actions }),
            Effect::Changed => self.tell(EventKind::PartChanged { kind, name, actions }),
            Effect::Removed => self.tell(EventKind::PartRemoved { kind, name, actions }),
            Effect::Unchanged => {}
        }
        Ok(change)
    }

    fn tell(&self, event: EventKind) {
        self.switch.events().tell(event);
    }

    fn obey(&self, signal: Signal) {
        match signal {
            Signal::Stop(signal) => tracing::info!("stopping on signal {signal}"),
            // It logs its outcome.
            Signal::Reload => _ = self.reload(),
        }
    }

    /// Explains why a file that was readable at startup may no longer be.
    fn explain(&self, error: &LoadError) -> String {
        match error {
            LoadError::Read { path, source }
                if source.kind() == io::ErrorKind::PermissionDenied && self.confined.enabled =>
            {
                if let Some(replaced) = self.replaced_places().next() {
                    return format!("{error}; {replaced}");
                }
                let now = path.canonicalize().unwrap_or_else(|_| path.clone());
                let reads = |grant: &&Grant| matches!(grant.purpose, Purpose::Read | Purpose::Create | Purpose::Make);
                let places = self.reach.iter().flat_map(Reach::grants).filter(reads);
                let places: Vec<_> = places.map(|grant| grant.path.display().to_string()).collect();
                format!(
                    "{error}; it is {} now, and the switch is user \"{}\" and confined to read in {}: let that user read it, move it \
                     back, or start the switch again, with its directory in `directories` of [confinement] if this is to come again",
                    now.display(),
                    self.confined.user,
                    places.join(", ")
                )
            }
            _ => error.to_string(),
        }
    }
}

impl Changes for Daemon {
    fn preview(&self, spec: Spec) -> Vec<ReloadAction> {
        self.switch.preview(spec)
    }

    fn change(&self, spec: Spec, new: Option<&str>) -> Result<Vec<ReloadAction>, String> {
        if self.makes_directories {
            new.map_or(Ok(()), |port| directories::make_of(&spec, port)).map_err(|error| error.to_string())?;
        }
        self.switch.change(spec).map_err(|error| error.to_string())
    }
}

impl Handler for Daemon {
    fn snapshot(&self) -> Snapshot {
        self.switch.snapshot()
    }

    fn ports(&self) -> Vec<PortSummary> {
        let known = self.known().clone();
        let summary = |port: &engine::stats::PortStats| {
            let (owner, labels) = known.get(&port.name).cloned().unwrap_or_default();
            PortSummary { owner, labels, ..PortSummary::from(port) }
        };
        self.switch.snapshot().ports.iter().map(summary).collect()
    }

    fn port_state(&self, port: &str) -> Option<PortState> {
        self.switch.port_state(port)
    }

    fn add(&self, kind: PartKind, keys: Table) -> Result<Change, Refusal> {
        self.edit(|parts| parts.add(kind, keys, self.reach.as_ref(), self))
    }

    fn set(&self, kind: PartKind, name: &str, to: (Table, &[String], bool)) -> Result<Change, Refusal> {
        self.edit(|parts| parts.set((kind, name), to, self.reach.as_ref(), self))
    }

    fn remove(&self, kind: PartKind, name: &str) -> Result<Change, Refusal> {
        self.edit(|parts| parts.remove(kind, name, self))
    }

    fn why(&self, port: &str) -> Option<PortWhy> {
        self.switch.why(port)
    }

    fn macs(&self) -> Vec<MacEntry> {
        self.switch.macs()
    }

    fn aggregation_flows(&self) -> Vec<AggregationFlow> {
        self.switch.aggregation_flows()
    }

    fn flows(&self) -> Vec<Flow> {
        self.flows.as_ref().map(SharedSwitch::flows).unwrap_or_default()
    }

    fn reload(&self) -> Result<ReloadReport, String> {
        service::reloading();
        let sockets = self.mend_sockets();
        let outcome = self.apply().map(|report| self.with_sockets(report, &sockets));
        match &outcome {
            Ok(report) if report.failed() > 0 => tracing::error!("reloaded, but not all of it: {report}"),
            Ok(report) => tracing::info!("reloaded: {report}"),
            Err(error) => {
                self.tell(EventKind::ReloadFailed { reason: error.clone() });
                sockets.iter().for_each(|mended| tracing::warn!("{mended}"));
                tracing::error!("not reloaded, nothing changed:\n{error}");
            }
        }
        service::ready();
        outcome
    }

    fn events(&self, since: Option<u64>, last: Option<usize>) -> Vec<Event> {
        self.switch.events().list(since, last)
    }

    fn follow(&self, since: Option<u64>, learned: bool) -> Result<(Follower, u64), CannotFollow> {
        self.switch.follow(since, learned)
    }

    fn confinement(&self) -> Confined {
        self.confined.clone()
    }

    fn shutdown(&self) {
        tracing::info!("stopping on request");
        self.signals.close();
    }
}

impl Daemon {
    /// Recreates its sockets that others have removed, regardless of the present configuration.
    fn mend_sockets(&self) -> Vec<Mended> {
        let mend = |socket: Arc<Listener>| {
            let (path, outcome) = socket.mend()?;
            let error = outcome.err().map(|error| error.to_string());
            Some(Mended { path: path.display().to_string(), error })
        };
        self.sockets.iter().filter_map(Weak::upgrade).filter_map(mend).collect()
    }

    /// Adds the outcome for these sockets to a report, and the reasons that may have kept steps from being done.
    fn with_sockets(&self, report: ReloadReport, sockets: &[Mended]) -> ReloadReport {
        let mut report = ReloadReport { sockets: sockets.to_vec(), ..report };
        if report.failed() > 0 {
            report.warnings.extend(self.replaced_places());
        }
        report
    }

    /// Returns a warning for each place that the confinement no longer lets the switch into, though it is named as before.
    fn replaced_places(&self) -> impl Iterator<Item = String> {
        self.reach.iter().flat_map(Reach::replaced).map(|grant| {
            format!(
                "{} was removed and recreated since the switch started, and the switch is confined to the old one: it can {} \
                 there when it is started again; let such directories come and go in one of `directories` of [confinement]",
                grant.path.display(),
                grant.purpose
            )
        })
    }

    /// Reads the configuration again and applies it; on an error nothing has changed.
    fn apply(&self) -> Result<ReloadReport, String> {
        if !self.is_file {
            return Err(format!(
                "the configuration came from {}, which is not a file and cannot be read again: start the switch with a file to change \
                 it while it runs",
                self.path.display()
            ));
        }
        // Held to the end: changes are made one after the other.
        let mut parts = self.parts();
        let (_, document, warnings) =
            Config::load_within(&self.path, self.reach.as_ref()).map_err(|error| self.explain(&error))?;
        let change = |spec| self.switch.reload(spec).map_err(|error| error.to_string());
        let (actions, needs_restart) = parts.reload(document, change)?;
        *self.known() = parts.ports();
        let news = actions.iter().filter(|action| action.is_news()).cloned().collect();
        self.tell(EventKind::Reloaded { actions: news });
        Ok(ReloadReport { actions, needs_restart, warnings: warnings.lines().collect(), sockets: Vec::new() })
    }
}
