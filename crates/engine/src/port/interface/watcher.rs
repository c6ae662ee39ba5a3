//! The watcher of a port on an interface of the kernel: opens it, watches it, and opens it again.
//!
//! Other programs add, change and remove interfaces. Each of these ports has a thread that is notified: a port whose
//! interface is missing, or not as it should be, is down with a reason until that changes.

use crate::port::{Opened, PortControl, Site};
use handover::EventNotifier;
use netdev::{Link, Links, Monitor};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// First pause before another attempt to open a port whose interface is present and unchanged; and the time for which a
/// changed interface is left alone.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Interval of checks of an interface in another network namespace.
const LOOK_ELSEWHERE: Duration = Duration::from_secs(1);
/// Longest pause: each is twice as long as the one before.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A port on an interface, as its watcher opens it.
pub(in crate::port) trait Interface: Send {
    /// Name of its interface, if it is known.
    fn name(&self) -> Option<&str>;
    /// Reports whether others create the interface, so that the port cannot be opened without it.
    fn is_foreign(&self) -> bool {
        true
    }
    /// Opens the port.
    fn open(&self, links: &Links, site: &Arc<dyn Site>) -> Result<Box<dyn Session>, String>;
}

/// An open port, as its watcher sees it.
pub(in crate::port) trait Session: Send {
    /// Returns the interface, as the port knows it.
    fn link(&self) -> &Link;
    /// Gives a queue of the port at `site` to workers. Called once.
    fn attach(&mut self, site: &Arc<dyn Site>, queue: usize) -> Result<(), String>;
    /// Called before the halves are taken from the workers.
    fn detaching(&mut self) {}
    /// Looks the interface up. An error says why the port must be reopened; `None` if it cannot be looked up, but may still exist.
    fn look(&mut self, links: &Links) -> Result<Option<Link>, String> {
        let had = self.link();
        match links.get(&had.name) {
            Ok(link) if link.index == had.index => Ok(Some(link)),
            Ok(link) => Err(format!("interface {} has been replaced", link.name)),
            Err(error @ netdev::Error::Missing { .. }) => Err(error.to_string()),
            Err(_) => Ok(None),
        }
    }
    /// Handles a change of the interface. An error says why the port must be reopened.
    fn changed(&mut self, _link: &Link) -> Result<(), String> {
        Ok(())
    }
    /// Returns the interval at which the port has to be checked.
    fn interval(&self) -> Option<Duration> {
        None
    }
    /// Checks the port. An error says why it must be reopened.
    fn check(&mut self) -> Result<(), String> {
        Ok(())
    }
    /// Describes the port for display while it is up.
    fn describe(&self, link: &Link) -> String;
}

/// Watcher of an open port, until it is dropped.
pub(in crate::port) struct Watcher {
    stop: Arc<EventNotifier>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Opens the port now if possible, and again whenever it is possible. Fails if no thread can be started to keep it open.
    pub(in crate::port) fn spawn(interface: impl Interface + 'static, site: Arc<dyn Site>) -> Result<Opened, String> {
        let text = |error: netdev::Error| error.to_string();
        let stop = Arc::new(EventNotifier::new().map_err(|error| format!("cannot create an eventfd: {error}"))?);
        // Opened before the first look, so that no change is missed.
        let (monitor, links) = (Monitor::open().map_err(text)?, Links::open().map_err(text)?);
        let mut upkeep = Upkeep {
            interface: Box::new(interface),
            site,
            monitor,
            links,
            stop: stop.clone(),
            pause: FIRST_PAUSE,
            told: None,
        };
        let opened = upkeep.open();
        let trouble = opened.as_ref().err().cloned();
        let thread = std::thread::Builder::new().name(format!("netdev-{}", upkeep.site.name()));
        let thread =
            thread.spawn(move || upkeep.run(opened)).map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Opened { control: Box::new(Watcher { stop, thread: Some(thread) }), trouble })
    }
}

impl PortControl for Watcher {}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop.notify();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// End of a wait.
#[derive(PartialEq)]
enum Woken {
    /// The port has to be closed.
    Stop,
    /// The interface has changed, or may have.
    Event,
    /// The time is over.
    Time,
}

/// State of a [`Watcher`]'s thread.
struct Upkeep {
    interface: Box<dyn Interface>,
    site: Arc<dyn Site>,
    monitor: Monitor,
    links: Links,
    stop: Arc<EventNotifier>,
    /// Pause before the next attempt.
    pause: Duration,
    /// Last logged reason why the port is down, if it is.
    told: Option<String>,
}

impl Upkeep {
    fn run(mut self, mut opened: Result<Box<dyn Session>, String>) {
        loop {
            if let Ok(mut session) = opened {
                let why = self.serve(&mut *session);
                self.close(&mut *session);
                drop(session);
                let Some(why) = why else { return };
                self.set_down(why);
                self.pause = FIRST_PAUSE;
            }
            if !self.wait_to_try() {
                return;
            }
            opened = self.open();
        }
    }

    /// Opens the port and gives its queues to workers.
    fn open(&mut self) -> Result<Box<dyn Session>, String> {
        let opened = self.interface.open(&self.links, &self.site).and_then(|mut session| {
            if let Err(why) = self.attach(&mut *session) {
                self.close(&mut *session);
                return Err(why);
            }
            Ok(session)
        });
        match &opened {
            Ok(session) => self.show(&**session, session.link()),
            Err(why) => self.set_down(why.clone()),
        }
        opened
    }

    fn attach(&self, session: &mut dyn Session) -> Result<(), String> {
        (0..self.site.queues()).try_for_each(|queue| session.attach(&self.site, queue))
    }

    fn close(&self, session: &mut dyn Session) {
        session.detaching();
        self.site.clear(self.site.queues());
    }

    /// Checks the port until it cannot continue, and returns why; `None` if it has to be closed.
    fn serve(&mut self, session: &mut dyn Session) -> Option<String> {
        loop {
            // Time until the next look, even without an event.
            let again = match session.look(&self.links) {
                Ok(Some(link)) => {
                    if let Err(why) = session.changed(&link) {
                        return Some(why);
                    }
                    self.show(session, &link);
                    // The kernel does not report changes in another namespace.
                    link.is_elsewhere.then_some(LOOK_ELSEWHERE)
                }
                Ok(None) => Some(FIRST_PAUSE),
                Err(why) => return Some(why),
            };
            let index = session.link().index;
            loop {
                let interval = session.interval().into_iter().chain(again).min();
                let woken = self.wait(interval.map(|interval| Instant::now() + interval), Some(index));
                if woken == Woken::Stop {
                    return None;
                }
                if let Err(why) = session.check() {
                    return Some(why);
                }
                if woken == Woken::Event || again.is_some() {
                    break;
                }
            }
        }
    }

    /// Waits until it makes sense to try again. Returns false if the port has to be closed.
    fn wait_to_try(&mut self) -> bool {
        let seen = self.look();
        let mut until = Some(Instant::now() + self.pause);
        if let (Ok(None), true, Some(name)) = (&seen, self.interface.is_foreign(), self.interface.name()) {
            // This replaces any earlier reason.
            self.set_down(netdev::Error::Missing { interface: name.to_owned() }.to_string());
            until = None;
        }
        loop {
            match self.wait(until, None) {
                Woken::Stop => return false,
                Woken::Time => {
                    self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                    return true;
                }
                // Attempts to open the port cause events, too.
                Woken::Event if seen.is_ok() && self.look().ok() == seen.as_ref().ok().cloned() => {}
                Woken::Event => {
                    self.pause = FIRST_PAUSE;
                    // Changes often come in groups.
                    std::thread::sleep(FIRST_PAUSE);
                    return true;
                }
            }
        }
    }

    /// Returns the interface, if there is one. On an error it cannot be looked up, but may exist.
    fn look(&self) -> netdev::Result<Option<Link>> {
        self.interface.name().map_or(Ok(None), |name| self.links.find(name))
    }

    /// Waits until this time, or forever if there is none.
    fn wait(&self, until: Option<Instant>, index: Option<u32>) -> Woken {
        let name = self.interface.name().unwrap_or_default();
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Woken::Time;
            }
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut fds = [
                PollFd::from_borrowed_fd(self.stop.fd().as_fd(), PollFlags::IN),
                PollFd::new(&self.monitor, PollFlags::IN),
            ];
            let ready = poll(&mut fds, left.as_ref());
            if !fds[0].revents().is_empty() {
                return Woken::Stop;
            }
            if ready == Ok(0) {
                return Woken::Time;
            }
            match self.monitor.events() {
                Ok(events) if events.iter().any(|event| event.concerns(name, index)) => return Woken::Event,
                Ok(_) => {}
                // The monitor failed, which should not happen: look at the interface at intervals instead.
                Err(_) => {
                    std::thread::sleep(FIRST_PAUSE);
                    return Woken::Event;
                }
            }
        }
    }

    /// Updates the state of the port, whose queues workers have.
    fn show(&mut self, session: &dyn Session, link: &Link) {
        match link.trouble() {
            Some(why) => self.set_down(why),
            None => {
                let detail = session.describe(link);
                if self.told.take().is_some() {
                    tracing::info!("port \"{}\" is up: {detail}", self.site.name());
                }
                self.site.set_interface(link.mac, netdev::ethtool::speed(link));
                self.site.set_state(true, detail);
            }
        }
    }

    fn set_down(&mut self, why: String) {
        if self.told.as_ref() != Some(&why) {
            tracing::warn!("port \"{}\" is down: {why}", self.site.name());
            self.told = Some(why.clone());
        }
        self.site.set_state(false, why);
    }
}
