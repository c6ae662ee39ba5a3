//! Ports on interfaces of the kernel, the control side: they are opened, watched, and opened again.
//!
//! Interfaces come, change and go as others like. Each of these ports has a thread that hears of it: a port whose
//! interface is not there, or not as it should be, is down with a reason, until that has changed.

mod packet;
mod tap;

pub(super) use packet::Packet;
pub(super) use tap::Taps;

use super::fabric::{Fabric, ReceiveHalf, TransmitHalf};
use super::shared::PortShared;
use crate::punt::Bell;
use netdev::{Link, Links, Monitor};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pauses before a port is opened again that could not be, though its interface is there and has not changed: the first,
/// which is also how long one that has changed is left alone, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));

/// A kind of port, to who keeps it open.
pub(super) trait Kind: Send {
    /// Name of its interface, if it is known.
    fn interface(&self) -> Option<&str>;
    /// Others make the interface: while there is none, the port can't be opened.
    fn needs_interface(&self) -> bool {
        true
    }
    /// Opens the port.
    fn open(&self, links: &Links, shared: &Arc<PortShared>) -> Result<Box<dyn Session>, String>;
}

/// An open port, to who looks after it.
pub(super) trait Session: Send {
    /// The interface, as it was when the port was opened.
    fn link(&self) -> &Link;
    /// The halves of a queue; asked for once.
    fn halves(&mut self, queue: usize) -> Result<(ReceiveHalf, TransmitHalf), String>;
    /// Workers have all halves.
    fn attached(&mut self) {}
    /// Workers are to have them no more.
    fn detaching(&mut self) {}
    /// The interface is so now. An error says why the port must be opened again.
    fn changed(&mut self, _link: &Link) -> Result<(), String> {
        Ok(())
    }
    /// How often it has to be looked after.
    fn interval(&self) -> Option<Duration> {
        None
    }
    /// Looks after it. An error says why the port must be opened again.
    fn look_after(&mut self) -> Result<(), String> {
        Ok(())
    }
    /// What people are told of it while it is up.
    fn describe(&self, link: &Link) -> String;
}

/// Keeps a port open until it is dropped.
pub(super) struct Keeper {
    stop: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Opens the port now if that is possible, and whenever it is again. Says why it is not, if so; an error if nobody
    /// can be had who keeps it open.
    pub(super) fn spawn(
        kind: impl Kind + 'static,
        shared: Arc<PortShared>,
        fabric: Arc<Fabric>,
    ) -> Result<(Keeper, Option<String>), String> {
        let text = |error: netdev::Error| error.to_string();
        let stop = Arc::new(Bell::new().map_err(|error| format!("cannot create an eventfd: {error}"))?);
        // Before the first look: no change may come between the two.
        let (monitor, links) = (Monitor::open().map_err(text)?, Links::open().map_err(text)?);
        let mut upkeep = Upkeep {
            kind: Box::new(kind),
            shared,
            fabric,
            monitor,
            links,
            stop: stop.clone(),
            pause: PAUSES.0,
            told: None,
        };
        let opened = upkeep.open();
        let trouble = opened.as_ref().err().cloned();
        let thread = std::thread::Builder::new().name(format!("netdev-{}", upkeep.shared.name));
        let thread =
            thread.spawn(move || upkeep.run(opened)).map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok((Keeper { stop, thread: Some(thread) }, trouble))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What ended a wait.
#[derive(PartialEq)]
enum Woken {
    /// The port is to be closed.
    Stop,
    /// Something has happened to the interface, or may have.
    Event,
    /// The time is over.
    Time,
}

/// The work of a [`Keeper`]'s thread.
struct Upkeep {
    kind: Box<dyn Kind>,
    shared: Arc<PortShared>,
    fabric: Arc<Fabric>,
    monitor: Monitor,
    links: Links,
    stop: Arc<Bell>,
    /// Before the next attempt.
    pause: Duration,
    /// Why the log last said that the port is down, if it is.
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
                self.pause = PAUSES.0;
            }
            if !self.wait_to_try() {
                return;
            }
            opened = self.open();
        }
    }

    /// Opens the port and gives its queues to workers.
    fn open(&mut self) -> Result<Box<dyn Session>, String> {
        let opened = self.kind.open(&self.links, &self.shared).and_then(|mut session| {
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
        for queue in 0..self.shared.queues.len() {
            let (receive, transmit) = session.halves(queue)?;
            self.fabric.attach((self.shared.id, queue), receive, transmit).map_err(|why| why.to_string())?;
        }
        session.attached();
        Ok(())
    }

    fn close(&self, session: &mut dyn Session) {
        session.detaching();
        self.fabric.clear(self.shared.id, 0..self.shared.queues.len());
    }

    /// Looks after the port until it can't go on, and says why; `None` if it is to be closed.
    fn serve(&mut self, session: &mut dyn Session) -> Option<String> {
        loop {
            let had = session.link();
            let index = had.index;
            // When to look again, whatever happens.
            let mut again = None;
            match self.links.get(&had.name) {
                Ok(link) if link.index == index => {
                    if let Err(why) = session.changed(&link) {
                        return Some(why);
                    }
                    self.show(session, &link);
                }
                Ok(link) => return Some(format!("interface {} is another one now", link.name)),
                Err(error @ netdev::Error::Missing { .. }) => return Some(error.to_string()),
                // That it can't be seen does not mean that it has gone.
                Err(_) => again = Some(PAUSES.0),
            }
            loop {
                let interval = session.interval().into_iter().chain(again).min();
                let woken = self.wait(interval.map(|interval| Instant::now() + interval), Some(index));
                if woken == Woken::Stop {
                    return None;
                }
                if let Err(why) = session.look_after() {
                    return Some(why);
                }
                if woken == Woken::Event || again.is_some() {
                    break;
                }
            }
        }
    }

    /// Waits until there is a point in opening the port again; whether it is to be.
    fn wait_to_try(&mut self) -> bool {
        let seen = self.look();
        let mut until = Some(Instant::now() + self.pause);
        if let (Ok(None), true, Some(name)) = (&seen, self.kind.needs_interface(), self.kind.interface()) {
            // Whatever the reason was before.
            self.set_down(netdev::Error::Missing { interface: name.to_owned() }.to_string());
            until = None;
        }
        loop {
            match self.wait(until, None) {
                Woken::Stop => return false,
                Woken::Time => {
                    self.pause = (self.pause * 2).min(PAUSES.1);
                    return true;
                }
                // Attempts to open it make events, too.
                Woken::Event if seen.is_ok() && self.look().ok() == seen.as_ref().ok().cloned() => {}
                Woken::Event => {
                    self.pause = PAUSES.0;
                    // Changes seldom come alone.
                    std::thread::sleep(PAUSES.0);
                    return true;
                }
            }
        }
    }

    /// The interface, if there is one. An error says that it can't be seen, which does not mean that it is not there.
    fn look(&self) -> netdev::Result<Option<Link>> {
        self.kind.interface().map_or(Ok(None), |name| self.links.find(name))
    }

    /// Waits until then, for ever if there is no such time.
    fn wait(&self, until: Option<Instant>, index: Option<u32>) -> Woken {
        let name = self.kind.interface().unwrap_or_default();
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
                // Nothing more can be heard, which should never be: what there is to see is looked at now and then.
                Err(_) => {
                    std::thread::sleep(PAUSES.0);
                    return Woken::Event;
                }
            }
        }
    }

    /// Tells how the port is, whose queues workers have.
    fn show(&mut self, session: &dyn Session, link: &Link) {
        match link.trouble() {
            Some(why) => self.set_down(why),
            None => {
                let detail = session.describe(link);
                if self.told.take().is_some() {
                    tracing::info!("port \"{}\" is up: {detail}", self.shared.name);
                }
                self.shared.set_state(true, detail);
            }
        }
    }

    fn set_down(&mut self, why: String) {
        if self.told.as_ref() != Some(&why) {
            tracing::warn!("port \"{}\" is down: {why}", self.shared.name);
            self.told = Some(why.clone());
        }
        self.shared.set_state(false, why);
    }
}
