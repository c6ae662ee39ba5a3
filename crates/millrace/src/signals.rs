//! Signals to the switch.

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::iterator::{Handle, Signals as Iterator};
use signal_hook::{flag, low_level};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Time after the first signal to stop within which others are the same one: `timeout` of the GNU core utilities signals the switch
/// and then its process group.
const SAME: Duration = Duration::from_secs(1);

/// A signal that the switch obeys.
pub(crate) enum Signal {
    /// Read the configuration again.
    Reload,
    /// Stop, as this signal says.
    Stop(i32),
}

/// The signals of this process, for a single loop to read.
pub(crate) struct Signals {
    signals: Iterator,
    /// Handlers by which a second signal ends a start at once, before signals are read.
    starting: Vec<SigId>,
}

impl Signals {
    /// Takes the signals, so that none ends the process but a second one to stop. Signals that arrive before they are read
    /// wait.
    pub(crate) fn take() -> io::Result<Signals> {
        let is_stopping = Arc::new(AtomicBool::new(false));
        let mut starting = Vec::new();
        for signal in [SIGINT, SIGTERM] {
            // The order matters: handlers run in the order of their registration.
            starting.push(flag::register_conditional_shutdown(signal, 128 + signal, is_stopping.clone())?);
            starting.push(flag::register(signal, is_stopping.clone())?);
        }
        // logrotate and similar programs send the first two without meaning this process. A file that is too long fails to be
        // written.
        for signal in [SIGUSR1, SIGUSR2, SIGXFSZ] {
            flag::register(signal, Arc::default())?;
        }
        Ok(Signals { signals: Iterator::new([SIGHUP, SIGINT, SIGTERM])?, starting })
    }

    /// Closing this ends the reading of signals.
    pub(crate) fn handle(&self) -> Handle {
        self.signals.handle()
    }

    /// Ends the start: from now on a signal waits until it is read, and ends nothing.
    pub(crate) fn started(&mut self) {
        self.starting.drain(..).for_each(|id| _ = low_level::unregister(id));
    }

    /// Gives signals to `obey` until there is one to stop or they are closed.
    pub(crate) fn obey(&mut self, obey: impl Fn(Signal)) {
        for signal in self.signals.forever() {
            if signal != SIGHUP {
                if let Err(error) = end_at_second() {
                    tracing::warn!("a second signal will not end the switch at once: {error}");
                }
                return obey(Signal::Stop(signal));
            }
            obey(Signal::Reload);
        }
    }
}

/// Lets a later signal end the process immediately, in case it does not stop.
fn end_at_second() -> io::Result<()> {
    let is_late = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 128 + signal, is_late.clone())?;
    }
    thread::Builder::new().name("signals".into()).spawn(move || {
        thread::sleep(SAME);
        is_late.store(true, Ordering::Relaxed);
    })?;
    Ok(())
}
