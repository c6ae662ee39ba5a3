//! Opening ports: turns the ports of a specification into halves that workers drive.

use super::fabric::Fabric;
use super::kernel::{Keeper, Packet, Taps};
use super::shared::PortShared;
use super::{link, vhost, xdp};
use crate::port::generator::{Generator, Nothing, Sink};
use crate::port::pcap::{Record, Replay};
use crate::port::record::Recorder;
use crate::port::{Receive, Transmit};
use crate::spec::{Driver, MAX_QUEUES, PortSpec};
use std::sync::Arc;
use std::time::{Duration, Instant};
use virtqueue::features;

/// First and longest pause before another attempt to open a port.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// Owner of a port's connection to its peer; dropping it ends the connection.
pub(super) enum Connection {
    /// A vhost-user backend that serves frontends.
    Backend { _service: vhost_user::backend::Service },
    /// A thread that keeps a link to a backend.
    Link { _link: link::LinkThread },
    /// The keeper of an interface.
    Interface { _keeper: Keeper },
    /// Nothing: the halves own all resources.
    None,
    /// The port could not be opened: time of the next attempt, and the pause before it.
    Failed { again: Instant, pause: Duration },
}

/// Reason why a port cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("port \"{port}\" ({driver}): {problem}")]
pub struct OpenError {
    port: String,
    driver: &'static str,
    problem: String,
}

impl Connection {
    /// Has the port opened again, because a worker keeps queues of it. If it serves guests, the end of its session does that.
    pub(super) fn lose(&mut self, port: &PortShared) {
        if !matches!(self, Connection::Backend { .. }) {
            // Drops the old connection first, as that sets a state too.
            *self = Connection::Failed { again: Instant::now(), pause: PAUSES.0 };
            port.set_state(false, "a worker that does not respond has queues of it");
        }
    }

    /// Reports whether the port was opened, or something sees to it that it will be.
    pub(super) fn is_settled(&self) -> bool {
        !matches!(self, Connection::Failed { .. })
    }
}

/// Opens the port of `spec` and attaches its halves to `fabric`, now or when a peer connects. A port that cannot be
/// opened is down, for the returned reason, and is tried again.
pub(super) fn open(spec: &PortSpec, shared: &Arc<PortShared>, fabric: &Arc<Fabric>) -> (Connection, Option<OpenError>) {
    match attempt(spec, shared, fabric) {
        Ok((connection, trouble)) => (connection, trouble.map(|problem| OpenError::of(spec, problem))),
        Err(problem) => {
            tracing::warn!("port \"{}\" is down: {problem}", spec.name);
            shared.set_state(false, problem.clone());
            let failed = Connection::Failed { again: Instant::now() + PAUSES.0, pause: PAUSES.0 };
            (failed, Some(OpenError::of(spec, problem)))
        }
    }
}

/// Tries again to open a port, if its pause is over.
pub(super) fn retry(connection: &mut Connection, spec: &PortSpec, shared: &Arc<PortShared>, fabric: &Arc<Fabric>) {
    let Connection::Failed { again, pause } = connection else { return };
    if Instant::now() < *again {
        return;
    }
    match attempt(spec, shared, fabric) {
        Ok((opened, _)) => {
            tracing::info!("port \"{}\" could be opened", spec.name);
            *connection = opened;
        }
        Err(problem) => {
            shared.set_state(false, problem);
            *pause = (*pause * 2).min(PAUSES.1);
            *again = Instant::now() + *pause;
        }
    }
}

impl OpenError {
    fn of(spec: &PortSpec, problem: String) -> OpenError {
        OpenError { port: spec.name.clone(), driver: spec.driver.name(), problem }
    }
}

/// Opens a port. Returns an error if the caller has to try again; otherwise why the port is down at first, if it is.
fn attempt(
    spec: &PortSpec,
    shared: &Arc<PortShared>,
    fabric: &Arc<Fabric>,
) -> Result<(Connection, Option<String>), String> {
    let attach = |queue: usize, receive: Box<dyn Receive>, transmit: Box<dyn Transmit>| {
        let attached = fabric.attach((shared.id, queue), receive, transmit);
        attached.map_err(|why| why.to_string())
    };
    let kept = |(keeper, trouble)| (Connection::Interface { _keeper: keeper }, trouble);
    match &spec.driver {
        Driver::VhostUser { socket, mode, access, queues, any_memory } => {
            // Lent buffers come back in another order than they were posted in.
            let withheld = if shared.mapping().is_some() { features::IN_ORDER } else { 0 };
            let options = vhost_user::backend::Options {
                socket: socket.clone(),
                mode: *mode,
                access: *access,
                queue_pairs: queues.unwrap_or(MAX_QUEUES),
                any_memory: *any_memory,
                withheld,
            };
            let port = Arc::new(vhost::VhostPort::new(shared.clone(), fabric.clone()));
            let service = vhost_user::backend::Service::spawn(options, port).map_err(|e| e.to_string())?;
            shared.set_hangup(service.hangup());
            return Ok((Connection::Backend { _service: service }, None));
        }
        Driver::VirtioUser { socket, mode, queues, queue_sizes, packed } => {
            let options = link::options(socket, *mode, (*queues, *queue_sizes), *packed, shared.mapping().is_some());
            let link = link::LinkThread::spawn(options, shared.clone(), fabric.clone())
                .map_err(|e| format!("cannot start a thread: {e}"))?;
            return Ok((Connection::Link { _link: link }, None));
        }
        Driver::Tap { interface, mtu, queues } => {
            let taps = Taps { interface: interface.clone(), mtu: *mtu, queues: *queues };
            return Keeper::spawn(taps, shared.clone(), fabric.clone()).map(kept);
        }
        Driver::AfPacket { interface, queues } => {
            let packet = Packet { interface: interface.clone(), queues: *queues };
            return Keeper::spawn(packet, shared.clone(), fabric.clone()).map(kept);
        }
        Driver::AfXdp { interface, queues, mode, queue_size } => {
            let options =
                xdp::Options { interface: interface.clone(), queues: *queues, mode: *mode, queue_size: *queue_size };
            return Keeper::spawn(options, shared.clone(), fabric.clone()).map(kept);
        }
        Driver::Pcap { replay, record, repeat, pace } => {
            let receive: Box<dyn Receive> = match replay {
                Some(path) => {
                    Box::new(Replay::open(path, *repeat, *pace).map_err(|e| format!("{}: {e}", path.display()))?)
                }
                None => Box::new(Nothing),
            };
            let transmit: Box<dyn Transmit> = match record {
                Some(path) => {
                    let file = Recorder::create(path).map_err(|e| format!("{}: {e}", path.display()))?;
                    shared.write_to(file.clone());
                    Box::new(Record(file))
                }
                None => Box::new(Sink),
            };
            attach(0, receive, transmit)?;
            shared.set_state(true, "file open");
        }
        Driver::Generator { size, pace, frames, mac } => {
            attach(0, Box::new(Generator::new(*size, *pace, *frames, *mac)), Box::new(Sink))?;
            shared.set_state(true, format!("frames of {size} bytes"));
        }
        Driver::Sink => {
            attach(0, Box::new(Nothing), Box::new(Sink))?;
            shared.set_state(true, "takes everything");
        }
    }
    Ok((Connection::None, None))
}

/// Creates the file that `spec` records frames to.
pub(super) fn recorder(spec: &PortSpec) -> Result<Option<Recorder>, OpenError> {
    let Some(path) = &spec.record else { return Ok(None) };
    Recorder::create(path)
        .map(Some)
        .map_err(|error| OpenError::of(spec, format!("cannot record to {}: {error}", path.display())))
}
