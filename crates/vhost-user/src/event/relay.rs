//! Signals that take long are sent by a thread of their own.
//!
//! A thread that signals an eventfd also wakes all of its waiters. A guest can have its call descriptor watched ten thousand
//! times: then each notification takes milliseconds of the worker that sends it. Signals are therefore timed. Once one takes too
//! long, the relay's thread sends those of this eventfd, in at most a tenth of a processor, until they are cheap again.

use super::signals::Signals;
use crate::own_time::own_time;
use crate::rate_limited_log::RateLimitedLog;
use handover::{EventNotifier, Relaying, Sender};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time of a signal that a worker sends: many times the duration of one that wakes a virtual machine.
const LONG: Duration = Duration::from_micros(50);

/// Signals in a row that have to be cheap until a worker sends them again: an eventfd that is made dear once in that number
/// costs a worker little.
const CHEAP: u32 = 1000;

/// Time that the thread sleeps after a signal, in times that the signal took.
const REST: u32 = 9;

/// An eventfd, and the thread that signals it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) fd: OwnedFd,
    signals: &'static Signals,
    relaying: Relaying,
    /// Log that reports signals that take long.
    log: Option<Arc<RateLimitedLog>>,
}

impl Shared {
    pub(super) fn new(fd: OwnedFd, signals: &'static Signals, log: Option<Arc<RateLimitedLog>>) -> Shared {
        Shared { fd, signals, relaying: Relaying::default(), log }
    }

    #[cfg(test)]
    pub(super) fn is_relayed(&self) -> bool {
        self.relaying.sender() == Sender::Relay
    }

    /// Signals the eventfd, or asks the relay's thread to.
    #[inline]
    pub(super) fn notify(self: &Arc<Self>) {
        match self.relaying.sender() {
            Sender::Itself => {
                let began = Instant::now();
                self.signal();
                if began.elapsed() > LONG {
                    self.relaying.took_long();
                }
            }
            Sender::Timed => self.examine(),
            Sender::Relay => self.ask(),
        }
    }

    fn signal(&self) {
        self.signals.signal(self.fd.as_fd());
    }

    /// Signals the eventfd, and returns the time that this took of the processor.
    fn signal_timed(&self) -> Duration {
        let began = own_time();
        self.signal();
        own_time().saturating_sub(began)
    }

    /// Times the signal by the processor time of the thread itself: another process may have had the processor.
    #[cold]
    fn examine(self: &Arc<Self>) {
        if self.signal_timed() <= LONG {
            self.relaying.was_quick();
        } else if let Some(relay) = RELAY.get()
            && self.relaying.hand_over()
        {
            relay.join(self.clone());
        }
    }

    #[cold]
    fn ask(&self) {
        if let Some(relay) = RELAY.get()
            && self.relaying.ask(|| relay.notifier.notify())
        {
            self.signal();
        }
    }
}

static RELAY: OnceLock<Relay> = OnceLock::new();

/// The process's relay.
struct Relay {
    notifier: EventNotifier,
    /// Eventfds that have become slow, which the thread does not know yet.
    joining: Mutex<Vec<Arc<Shared>>>,
}

/// Starts the thread, unless it runs. Without it each thread sends its own signals, however long they take.
pub(super) fn start() -> io::Result<()> {
    let notifier = EventNotifier::new()?;
    if RELAY.set(Relay { notifier, joining: Mutex::default() }).is_ok() {
        thread::Builder::new().name("notify".into()).spawn(|| RELAY.get().expect("it was set").run())?;
    }
    Ok(())
}

/// An eventfd that the thread signals.
struct Member {
    event: Arc<Shared>,
    /// Cheap signals in a row.
    cheap: u32,
}

impl Relay {
    fn join(&self, event: Arc<Shared>) {
        self.joining.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        self.notifier.notify();
    }

    fn run(&self) {
        // The lowest: on a worker's processor it takes nothing that counts.
        let _ = rustix::process::setpriority_process(None, 19);
        let mut members: Vec<Member> = Vec::new();
        loop {
            // An interruption ends the wait early: then nobody has asked.
            let _ = poll(&mut [PollFd::new(self.notifier.fd(), PollFlags::IN)], None);
            self.notifier.clear();
            let joining = std::mem::take(&mut *self.joining.lock().unwrap_or_else(PoisonError::into_inner));
            joining.iter().filter_map(|event| event.log.as_ref()).for_each(|log| {
                log.warn(format_args!(
                    "notifying a guest takes longer than {LONG:?}, as its call descriptor is watched many times: a thread of its own does \
                     it from now on, later"
                ));
            });
            members.extend(joining.into_iter().map(|event| Member { event, cheap: 0 }));
            members.retain_mut(|member| {
                member.serve();
                // Nobody else has it: its guest has gone.
                member.cheap < CHEAP && Arc::strong_count(&member.event) > 1
            });
        }
    }
}

impl Member {
    /// Signals the eventfd if a worker asked for it. After `CHEAP` cheap signals workers send them again.
    fn serve(&mut self) {
        if !self.event.relaying.take() {
            return;
        }
        let took = self.event.signal_timed();
        self.cheap = if took > LONG { 0 } else { self.cheap + 1 };
        if self.cheap == CHEAP && self.event.relaying.give_back() {
            self.event.signal();
        }
        thread::sleep(took * REST);
    }
}
