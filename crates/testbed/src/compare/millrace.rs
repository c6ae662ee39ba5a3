//! Millrace as the switch: two vhost-user ports, or one behind a wire, and one worker.

use super::choices::Forward;
use crate::millrace::{self, Idle, MillraceError};
use crate::nic::{NULL, Nic, null_arguments};
use crate::ring_format::RingFormat;
use crate::surroundings::Surroundings;
use lab::millrace::config::{
    Acceleration, RawBridge, RawExchange, RawFile, RawOpenflow, RawPort, RawTunnelEnd, RawVxlan, VhostUser, VirtioUser,
    bridge, dpdk_devices, dpdk_port, exchange, file, mapping, pass_through, patch, port, socket,
};
use lab::millrace::{Files, Millrace, SOON};
use lab::process::Interrupt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How Millrace forwards, and where.
#[derive(Clone, Copy)]
pub struct Setup {
    /// How it joins its ports, two and two.
    pub forward: Forward,
    /// Bytes of the longest frame.
    pub longest: u16,
    /// The NIC that the first port drives, if there is one.
    pub nic: Option<Nic>,
    /// Whether that port is the end of the wire's tunnel.
    pub tunnel: bool,
    /// Processor of its worker.
    pub cpu: usize,
    /// Idle behaviour of its worker.
    pub idle: Idle,
}

/// Starts the program with a port on each socket and one worker, and waits until it answers. Its files are in `directory`.
pub fn start(
    path: &Path,
    directory: &Path,
    sockets: &[PathBuf],
    setup: Setup,
    interrupt: &Interrupt,
) -> Result<Millrace, MillraceError> {
    let files = Files::named(directory, "millrace");
    let mut millrace = millrace::start(path, files, configuration(sockets, setup), Surroundings::default(), interrupt)?;
    // A wire creates the first socket, and removes it if it ends.
    let own = &sockets[usize::from(setup.nic.is_some())..];
    let there = || own.iter().all(|socket| socket.exists()).then_some(());
    millrace.daemon.wait_for("its sockets", SOON, there)?;
    if setup.forward == Forward::Openflow {
        set_flows(&directory.join(CHANNEL))?;
    }
    Ok(millrace)
}

/// Name of the OpenFlow socket.
const CHANNEL: &str = "openflow.sock";

/// Sets flows that send frames from each port out of the other.
fn set_flows(channel: &Path) -> Result<(), MillraceError> {
    for flow in ["in_port=1,actions=output:2", "in_port=2,actions=output:1"] {
        let mut ofctl = Command::new("ovs-ofctl");
        ofctl.args(["-O", "OpenFlow13", "add-flow", &format!("unix:{}", channel.display()), flow]);
        let output = ofctl.output().map_err(MillraceError::Flows)?;
        if !output.status.success() {
            return Err(MillraceError::Flows(std::io::Error::other(
                String::from_utf8_lossy(&output.stderr).into_owned(),
            )));
        }
    }
    Ok(())
}

/// Returns the names of the two ports of a pair.
fn names(pair: usize) -> [String; 2] {
    ["a", "b"].map(|end| if pair == 0 { end.to_owned() } else { format!("{end}{pair}") })
}

fn configuration(sockets: &[PathBuf], setup: Setup) -> RawFile {
    let Setup { forward, longest, nic, tunnel, cpu, idle } = setup;
    let (mut ports, mut joints, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for (pair, sockets) in sockets.chunks(2).enumerate() {
        for (name, path) in names(pair).into_iter().zip(sockets) {
            ports.push(match nic {
                Some(Nic::Null(_)) if name == "a" => dpdk_port(&name, &null_device()),
                Some(Nic::Virtio(ring)) if name == "a" => {
                    let packed = (ring == RingFormat::Packed).into();
                    let nic = port(&name, VirtioUser { socket: socket(path), packed, ..VirtioUser::default() });
                    if tunnel { RawPort { vxlan: tunnel_end().into(), ..nic } } else { nic }
                }
                _ => port(&name, VhostUser { socket: socket(path), ..VhostUser::default() }),
            });
            all.push(name);
        }
        joints.push(joined(forward, pair));
    }
    let listen = [format!("unix:{CHANNEL}")].into_iter().collect();
    let channel = (forward == Forward::Openflow).then(|| RawOpenflow { listen, ..RawOpenflow::default() });
    let buffer_size = i64::from(longest.max(USUAL_BUFFER)).into();
    let group = forward.exchanges().then(|| RawExchange { buffer_size, ..exchange(all) });
    let dpdk = match nic {
        Some(Nic::Null(size)) => Some(dpdk_devices(&[&format!("{},{}", null_device(), null_arguments(size))])),
        _ => None,
    };
    // The comparison says what is mapped and exchanged, and not the switch.
    file((ports, joints, channel, group, dpdk, idle.worker(cpu), Acceleration::Off))
}

/// Returns the name of the device of [`Nic::Null`].
fn null_device() -> String {
    format!("{NULL}0")
}

/// Returns the switch's end of the wire's tunnel.
fn tunnel_end() -> RawVxlan {
    let end =
        |host| RawTunnelEnd { mac: format!("02:00:00:00:01:0{host}").into(), ip: format!("192.0.2.{host}").into() };
    RawVxlan { vni: 100.into(), local: end(1).into(), remote: end(2).into(), ..RawVxlan::default() }
}

/// Returns the patch, bridge or mapping that joins a pair of ports.
fn joined(forward: Forward, pair: usize) -> RawFile {
    let [a, b] = &names(pair);
    let bridge = || bridge(&format!("br{pair}"), [a, b]);
    match forward {
        Forward::Patch | Forward::Exchange => file(patch(a, b)),
        Forward::Bridge | Forward::BridgeExchange => file(bridge()),
        Forward::Map => file(pass_through(a, b)),
        Forward::Openflow => file(RawBridge { openflow: true.into(), ..bridge() }),
        Forward::BridgeMap => file((bridge(), mapping(a, b))),
    }
}

/// Bytes of frames that a function's buffers usually hold.
const USUAL_BUFFER: u16 = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn millrace_takes_the_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let (split, packed) = (Some(Nic::Virtio(RingFormat::Split)), Some(Nic::Virtio(RingFormat::Packed)));
        for (forward, idle, nic) in [
            (Forward::Patch, Idle::Poll, None),
            (Forward::Bridge, Idle::Sleep, split),
            (Forward::Map, Idle::Backoff, packed),
            (Forward::BridgeMap, Idle::Poll, split),
            (Forward::Map, Idle::Poll, Some(Nic::Null(64))),
            (Forward::Openflow, Idle::Poll, None),
            (Forward::Exchange, Idle::Poll, None),
            (Forward::BridgeExchange, Idle::Poll, None),
        ] {
            // An OpenFlow switch has one bridge, and a wire is one pair.
            let count = if forward.exchanges() { 6 } else { 2 };
            let sockets: Vec<_> = (0..count).map(|number| directory.path().join(format!("{number}.sock"))).collect();
            for tunnel in [false, nic == split || nic == packed] {
                let setup = Setup { forward, longest: 9014, nic, tunnel, cpu: 0, idle };
                crate::millrace::assert_takes(configuration(&sockets, setup));
            }
        }
    }
}
