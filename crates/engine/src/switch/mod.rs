//! The control side: owns the ports, follows the specification, and reads the counters.

mod acceleration;
mod aggregation;
mod datapath;
mod difference;
mod error;
mod fabric;
mod housekeeper;
mod inner;
mod layout;
mod mapping;
mod observer;
mod open;
mod reload;
mod shared;
mod site;
mod snapshot;
mod state;
mod tags;
mod tenancy;
#[cfg(test)]
mod tests;
mod topology;
mod watchdog;
mod why;

use crate::clock;
use crate::events::{CannotFollow, Events, Follower};
use crate::forward::flows::Datapath;
use crate::live::Live;
use crate::reload::ReloadAction;
use crate::spec::Spec;
use acceleration::Chosen;
use api::event::EventKind;
use fabric::Fabric;
use handover::EventNotifier;
use inner::Inner;
use layout::Layout;
use open::OpenError;
use paflow::AggregationRules;
use reload::Extent;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;
use topology::Topology;

pub use error::Error;

/// A running switch; dropping it stops it.
pub struct Switch {
    inner: Arc<Inner>,
    housekeeper: Option<JoinHandle<()>>,
    watchdog: Option<JoinHandle<()>>,
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
        clock::start();
        let [notifier, asked] =
            [EventNotifier::new().map_err(Error::Worker)?, EventNotifier::new().map_err(Error::Worker)?].map(Arc::new);
        let datapath = Arc::new(Datapath::new(notifier.clone()));
        let layout = Arc::new(Layout::new(&Spec::default(), vec![], vec![], vec![]));
        let fabric = Arc::new(Fabric::new(layout.clone(), datapath.drops.clone()));
        let nothing = Topology {
            spec: Spec::default(),
            chosen: Chosen::default(),
            layout,
            mappings: vec![],
            exchanges: vec![],
            workers: vec![],
        };
        let inner = Arc::new(Inner {
            fabric,
            open: Mutex::default(),
            topology: Live::new(nothing),
            events: Arc::new(Events::new()),
            observer: Mutex::default(),
            files: Arc::default(),
            rules: Arc::new(Live::new(AggregationRules::none())),
            laid: Mutex::default(),
            datapath,
            notifier,
            asked,
            started: Instant::now(),
            stop: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        inner.events.tell(EventKind::Started { version: env!("CARGO_PKG_VERSION").into() });
        let failed = inner.apply(spec, Extent::All)?.failed;
        let mut switch = Switch { inner, housekeeper: None, watchdog: None };
        let thread = |name: &str, run: fn(&Inner)| {
            let inner = switch.inner.clone();
            std::thread::Builder::new().name(name.into()).spawn(move || run(&inner)).map_err(Error::Worker)
        };
        let (housekeeper, watchdog) =
            (thread("housekeeper", Inner::run_housekeeping), thread("watchdog", Inner::watch));
        switch.housekeeper = Some(housekeeper?);
        switch.watchdog = Some(watchdog?);
        Ok((switch, failed))
    }

    /// Returns the log of events. See [`Switch::follow`] for events about addresses.
    pub fn events(&self) -> &Arc<Events> {
        &self.inner.events
    }

    /// Follows the events, as [`Events::follow`] does. All that bridges learn from now on is told, if it is asked for.
    ///
    /// # Errors
    ///
    /// There are too many followers, or no descriptor is left.
    pub fn follow(&self, since: Option<u64>, learned: bool) -> Result<(Follower, u64), CannotFollow> {
        let following = self.inner.events.follow(since, learned)?;
        if learned {
            self.inner.observer.lock().unwrap().look_at_addresses(&self.inner.topology(), &self.inner.events);
        }
        Ok(following)
    }

    /// Changes the running switch to `spec`, and returns the actions taken. Parts that are the same in both continue
    /// without losing a frame. On an error nothing was done.
    pub fn reload(&self, spec: Spec) -> Result<Vec<ReloadAction>, Error> {
        self.inner.respond()?;
        Ok(vhost_user::keep_sockets(|| self.inner.apply(spec, Extent::All))?.actions)
    }

    /// Returns the actions that a change to `spec` would take, as far as they follow from the specifications.
    pub fn preview(&self, spec: Spec) -> Vec<ReloadAction> {
        self.inner.preview(spec)
    }

    /// Reloads the parts that `spec` changes, and looks at no other: what others have changed on the machine stays as it is.
    pub fn change(&self, spec: Spec) -> Result<Vec<ReloadAction>, Error> {
        self.inner.respond()?;
        Ok(vhost_user::keep_sockets(|| self.inner.apply(spec, Extent::Differences))?.actions)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.inner.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.housekeeper.take() {
            let _ = thread.join();
        }
        // Sessions end first, so that guests get their buffers back; then the workers.
        let _ = self.inner.apply(Spec::default(), Extent::All);
        self.inner.fabric.end();
        self.inner.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.watchdog.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
