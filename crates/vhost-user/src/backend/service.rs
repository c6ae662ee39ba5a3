//! One thread per socket, which serves one connection after the other.

use super::backoff::Backoff;
use super::control::Control;
use super::device::Device;
use super::pace::Pace;
use super::session::{self, Ending};
use super::{Error, Options, Queues};
use crate::rate_limited_log::RateLimitedLog;
use crate::socket::{Listener, connect};
use crate::{MAX_QUEUE_PAIRS, Mode, descriptors, wait};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// Pauses between attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A vhost-user device that serves frontends on one socket, one after the other, until it is stopped or dropped.
pub struct Service {
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
    /// The socket that this side listens on, if it does.
    listener: Option<Arc<Listener>>,
}

impl Service {
    /// Starts the service. Failure to create a socket is an error here; connecting to an absent peer is retried.
    pub fn spawn(options: Options, queues: Arc<dyn Queues>) -> Result<Service, Error> {
        if !(1..=MAX_QUEUE_PAIRS).contains(&options.queue_pairs) {
            return Err(Error::QueuePairs(options.queue_pairs));
        }
        let control = Control::new().map_err(|source| Error::System { action: "make an eventfd", source })?;
        let control = Arc::new(control);
        let listener = match options.mode {
            Mode::Server => Some(Arc::new(Listener::bind(&options.socket, &options.access)?)),
            Mode::Client => None,
        };
        let peer = || Source::Peer { socket: options.socket.clone(), pause: Duration::ZERO };
        let source = listener.clone().map_or_else(peer, Source::Listener);
        let log = Arc::new(RateLimitedLog::new(&options.socket));
        let thread = Thread { control: control.clone(), options, queues, log };
        let thread = Builder::new()
            .name("vhost-user".into())
            .spawn(move || thread.run(source))
            .map_err(|source| Error::System { action: "start a thread", source })?;
        Ok(Service { control, thread: Some(thread), listener })
    }

    /// Stops all queues, disconnects and waits until that is done. Dropping the service does the same.
    pub fn stop(self) {}

    /// Returns where this side listens, if it does.
    pub fn listener(&self) -> Option<&Arc<Listener>> {
        self.listener.as_ref()
    }

    /// Returns a handle to drop connections.
    pub fn hangup(&self) -> Hangup {
        Hangup(self.control.clone())
    }
}

/// Handle that drops the connections of a service, even while the service stops.
#[derive(Clone)]
pub struct Hangup(Arc<Control>);

impl Hangup {
    /// Drops the current connection, if any, for instance because the frontend broke a queue. The frontend may connect
    /// again. Does not wait for the session to end.
    pub fn disconnect(&self) {
        self.0.disconnect();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.control.stop();
        if let Some(thread) = self.thread.take() {
            // The thread panics only if the owner of the queues does, and that was reported then.
            let _ = thread.join();
        }
    }
}

/// Source of connections.
enum Source {
    Listener(Arc<Listener>),
    Peer { socket: PathBuf, pause: Duration },
}

struct Thread {
    control: Arc<Control>,
    options: Options,
    queues: Arc<dyn Queues>,
    log: Arc<RateLimitedLog>,
}

impl Thread {
    fn run(&self, mut source: Source) {
        let mut backoff = Backoff::default();
        let mut pace = Pace::new(Instant::now());
        while let Some(stream) = self.next(&mut source) {
            if let Err(why) = descriptors::spare(&stream) {
                self.log.warn(format_args!("cannot serve a frontend: {why}"));
                self.queues.describe(format!("no guest is connected: {why}"));
                drop(stream);
                self.control.sleep(LONGEST_PAUSE);
                continue;
            }
            if backoff.is_calm() {
                self.log.info(format_args!("a vhost-user frontend connected"));
            }
            let began = Instant::now();
            let ending = self.serve(stream, &mut pace);
            if let Some(line) = backoff.record_end(began.elapsed(), &ending) {
                self.log.info(format_args!("{line}"));
            }
            self.queues.disconnected(&ending.reason);
            self.control.sleep(backoff.pause());
        }
    }

    fn serve(&self, stream: UnixStream, pace: &mut Pace) -> Ending {
        let stream = Arc::new(stream);
        // In this order, so that a disconnect meant for the previous session cannot end this one.
        self.queues.connected();
        self.control.begin(stream.clone());
        let device = Device::new(&self.options, self.queues.clone(), self.log.clone(), self.control.clone());
        let ending = session::serve(&stream, &self.control, device, pace, &self.log);
        self.control.end();
        ending
    }

    /// Waits for the next connection; `None` if the service stops.
    fn next(&self, source: &mut Source) -> Option<UnixStream> {
        loop {
            if self.control.is_stopped() {
                return None;
            }
            match source {
                Source::Listener(listener) => match listener.accept() {
                    // A peer that already left gets no session and causes no pause.
                    Ok(Some(stream)) if wait::is_over(&stream) => {}
                    Ok(Some(stream)) => return Some(stream),
                    Ok(None) => self.control.wait_for(&*listener.socket()),
                    Err(e) => {
                        // Probably out of descriptors: the connection stays pending, so polling would spin.
                        self.log.warn(format_args!("cannot accept a connection: {e}"));
                        self.control.sleep(FIRST_PAUSE);
                    }
                },
                Source::Peer { socket, pause } => {
                    // Before every attempt but the first: a peer that accepts and hangs up must not make this thread
                    // spin.
                    if !pause.is_zero() {
                        self.control.sleep(*pause);
                    }
                    let attempt = connect(socket);
                    if self.control.is_stopped() {
                        return None;
                    }
                    match attempt {
                        Ok(stream) => {
                            *pause = FIRST_PAUSE;
                            return Some(stream);
                        }
                        Err(e) if pause.is_zero() => {
                            self.log.info(format_args!("cannot connect: {e}; trying again and again"));
                            *pause = FIRST_PAUSE;
                        }
                        Err(_) => *pause = (*pause * 2).min(LONGEST_PAUSE),
                    }
                }
            }
        }
    }
}
