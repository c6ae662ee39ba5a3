//! Opening ports: from what a specification names to halves that workers drive.

use super::fabric::Fabric;
use super::shared::PortShared;
use super::{link, vhost, xdp};
use crate::port::generator::{Generator, Nothing, Sink};
use crate::port::kernel::{PacketReceive, PacketTransmit, TapReceive, TapTransmit};
use crate::port::pcap::{Record, Replay};
use crate::port::record::Recorder;
use crate::port::{Receive, Transmit};
use crate::spec::{Driver, PortSpec};
use netdev::{Interface, PacketRx, PacketTx, RxConfig, Tap, TxConfig};
use std::sync::Arc;
use virtqueue::features;

/// What keeps a port's peer connected; dropping it ends that.
pub(super) enum Connection {
    /// A vhost-user backend that serves frontends.
    Backend(vhost_user::backend::Service),
    /// A thread that keeps a link to a backend.
    Link { _link: link::LinkThread },
    /// A thread that looks after sockets of an interface.
    Xdp { _thread: xdp::XdpThread },
    /// Nothing: the halves hold all there is.
    None,
}

impl Connection {
    /// What ends the present session, of a port that serves guests.
    pub(super) fn hangup(&self) -> Option<vhost_user::backend::Hangup> {
        if let Connection::Backend(service) = self { Some(service.hangup()) } else { None }
    }
}

/// A port cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("port \"{port}\" ({driver}): {problem}")]
pub struct OpenError {
    port: String,
    driver: &'static str,
    problem: String,
}

/// Opens what `spec` names and attaches its halves to `fabric`, now or when a peer connects.
pub(super) fn open(spec: &PortSpec, shared: &Arc<PortShared>, fabric: &Arc<Fabric>) -> Result<Connection, OpenError> {
    let failed = |problem: String| OpenError { port: spec.name.clone(), driver: spec.driver.name(), problem };
    let attach = |queue: usize, receive: Box<dyn Receive>, transmit: Box<dyn Transmit>| {
        let (receive, transmit) = (shared.wrap_receive(receive), shared.wrap_transmit(queue, transmit));
        let attached = fabric.attach((shared.id, queue), receive, transmit);
        attached.map_err(|why| failed(why.to_string()))
    };
    match &spec.driver {
        Driver::VhostUser { socket, mode, access, queues, any_memory } => {
            // Buffers that were lent come back in another order than they were posted in.
            let withheld = if shared.mapping().is_some() { features::IN_ORDER } else { 0 };
            let options = vhost_user::backend::Options {
                socket: socket.clone(),
                mode: *mode,
                access: *access,
                queue_pairs: *queues,
                any_memory: *any_memory,
                withheld,
            };
            let port = Arc::new(vhost::VhostPort::new(shared.clone(), fabric.clone()));
            let service = vhost_user::backend::Service::spawn(options, port).map_err(|e| failed(e.to_string()))?;
            return Ok(Connection::Backend(service));
        }
        Driver::VirtioUser { socket, mode, queues, queue_sizes, packed } => {
            let options = link::options(socket, *mode, (*queues, *queue_sizes), *packed, shared.mapping().is_some());
            let link = link::LinkThread::spawn(options, shared.clone(), fabric.clone())
                .map_err(|e| failed(format!("cannot start a thread: {e}")))?;
            return Ok(Connection::Link { _link: link });
        }
        Driver::Tap { interface, mtu, queues } => {
            let name = interface.as_deref().unwrap_or("millrace%d");
            let taps = Tap::open(name, usize::from(*queues)).map_err(|e| failed(e.to_string()))?;
            let name = taps[0].name().to_owned();
            let device = Interface::open(&name).map_err(|e| failed(e.to_string()))?;
            if let Some(mtu) = mtu {
                device.set_mtu(*mtu as usize).map_err(|e| failed(e.to_string()))?;
            }
            device.bring_up().map_err(|e| failed(e.to_string()))?;
            for (queue, tap) in taps.into_iter().map(Arc::new).enumerate() {
                attach(queue, Box::new(TapReceive::new(tap.clone())), Box::new(TapTransmit::new(tap)))?;
            }
            shared.set_state(true, format!("interface {name}"));
        }
        Driver::AfPacket { interface, queues } => {
            let device = Interface::open(interface).map_err(|e| failed(e.to_string()))?;
            device.bring_up().map_err(|e| failed(e.to_string()))?;
            let rings = PacketRx::open(interface, usize::from(*queues), &RxConfig::default());
            for (queue, ring) in rings.map_err(|e| failed(e.to_string()))?.into_iter().enumerate() {
                let transmit = PacketTx::open(interface, &TxConfig::default()).map_err(|e| failed(e.to_string()))?;
                let receive = PacketReceive::new(ring, shared.drops.clone());
                attach(queue, Box::new(receive), Box::new(PacketTransmit::new(transmit)))?;
            }
            shared.set_state(true, format!("interface {interface}, copied by the kernel"));
        }
        Driver::AfXdp { interface, queues, mode, queue_size } => {
            let options =
                xdp::Options { interface: interface.clone(), queues: *queues, mode: *mode, queue_size: *queue_size };
            let thread = xdp::XdpThread::spawn(options, shared.clone(), fabric.clone()).map_err(failed)?;
            return Ok(Connection::Xdp { _thread: thread });
        }
        Driver::Pcap { replay, record, repeat, pace } => {
            let receive: Box<dyn Receive> = match replay {
                Some(path) => Box::new(
                    Replay::open(path, *repeat, *pace).map_err(|e| failed(format!("{}: {e}", path.display())))?,
                ),
                None => Box::new(Nothing),
            };
            let transmit: Box<dyn Transmit> = match record {
                Some(path) => {
                    let file = Recorder::create(path).map_err(|e| failed(format!("{}: {e}", path.display())))?;
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
    Ok(Connection::None)
}

/// Starts the file that `spec` wants frames recorded to.
pub(super) fn recorder(spec: &PortSpec) -> Result<Option<Recorder>, OpenError> {
    let Some(path) = &spec.record else { return Ok(None) };
    Recorder::create(path).map(Some).map_err(|error| OpenError {
        port: spec.name.clone(),
        driver: spec.driver.name(),
        problem: format!("cannot record to {}: {error}", path.display()),
    })
}
