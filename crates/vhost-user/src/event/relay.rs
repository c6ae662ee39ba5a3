//! Signals that take long are sent by a thread of their own.
//!
//! A thread that signals an eventfd also wakes all who wait for it. A guest can have its call descriptor watched ten thousand
//! times: then each notification takes milliseconds of the worker that sends it. Signals are therefore timed. Once one takes too
//! long, the relay's thread sends those of this eventfd, in at most a tenth of a processor, until they are cheap again.

use super::signals::Signals;
use crate::own_time::own_time;
use crate::rate_limited_log::RateLimitedLog;
use handover::EventNotifier;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time of a signal that a worker sends: many times what one takes that wakes a virtual machine.
const LONG: Duration = Duration::from_micros(50);

/// Signals in a row that have to be cheap until a worker sends them again: an eventfd that is made dear once in so many costs a
/// worker little.
const CHEAP: u32 = 1000;

/// Time that the thread sleeps after a signal, in times that the signal took.
const REST: u32 = 9;

/// An eventfd, and who signals it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) fd: OwnedFd,
    signals: &'static Signals,
    sender: Sender,
    /// Where it is reported if signals take long.
    log: Option<Arc<RateLimitedLog>>,
}

#[derive(Debug, Default)]
struct Sender {
    state: AtomicU8,
    /// Tells whether the relay's thread has still to signal it.
    is_asked: AtomicBool,
}

/// The thread that notifies signals it.
const DIRECT: u8 = 0;
/// The last signal took long, or another process had the processor meanwhile: the next one is timed by what the thread itself takes.
const SUSPECT: u8 = 1;
/// The relay's thread signals it.
const RELAYED: u8 = 2;

impl Sender {
    /// Turns from one state to another; returns false if another thread was faster.
    fn turn(&self, from: u8, to: u8) -> bool {
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }
}

impl Shared {
    pub(super) fn new(fd: OwnedFd, signals: &'static Signals, log: Option<Arc<RateLimitedLog>>) -> Shared {
        Shared { fd, signals, sender: Sender::default(), log }
    }

    #[cfg(test)]
    pub(super) fn is_relayed(&self) -> bool {
        self.sender.state.load(Ordering::Relaxed) == RELAYED
    }

    /// Signals the eventfd, or asks the relay's thread to.
    #[inline]
    pub(super) fn notify(self: &Arc<Self>) {
        match self.sender.state.load(Ordering::Relaxed) {
            DIRECT => {
                let began = Instant::now();
                self.signal();
                if began.elapsed() > LONG {
                    self.sender.turn(DIRECT, SUSPECT);
                }
            }
            SUSPECT => self.examine(),
            _ => self.ask(),
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

    #[cold]
    fn examine(self: &Arc<Self>) {
        if self.signal_timed() <= LONG {
            self.sender.turn(SUSPECT, DIRECT);
        } else if let Some(relay) = RELAY.get()
            && self.sender.turn(SUSPECT, RELAYED)
        {
            relay.join(self.clone());
        }
    }

    #[cold]
    fn ask(&self) {
        let Sender { state, is_asked } = &self.sender;
        if let Some(relay) = RELAY.get()
            && !is_asked.swap(true, Ordering::SeqCst)
        {
            relay.notifier.notify();
            // The thread may have given it back just before. Either it sees the request after that, or this sees the new state.
            if state.load(Ordering::SeqCst) != RELAYED && is_asked.swap(false, Ordering::SeqCst) {
                self.signal();
            }
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
        let sender = &self.event.sender;
        if !sender.is_asked.swap(false, Ordering::SeqCst) {
            return;
        }
        let took = self.event.signal_timed();
        self.cheap = if took > LONG { 0 } else { self.cheap + 1 };
        if self.cheap == CHEAP {
            sender.state.store(DIRECT, Ordering::SeqCst);
            // One that asked meanwhile gets its signal.
            if sender.is_asked.swap(false, Ordering::SeqCst) {
                self.event.signal();
            }
        }
        thread::sleep(took * REST);
    }
}
