//! Ports, with the keys that they must have.

use super::*;
use engine::port::kinds::DriverKeys;
use std::path::Path;

/// Returns a port with the keys of its driver.
pub fn port(name: &str, keys: impl Into<DriverKeys>) -> RawPort {
    let keys = keys.into();
    RawPort { name: name.into(), driver: DriverName(keys.name()).into(), settings: Some(keys), ..RawPort::default() }
}

/// Returns the value of a key that names a file.
pub fn socket(path: &Path) -> Field<String> {
    path.display().to_string().into()
}

/// Returns a guest's port with the socket `NAME.sock` beside the file.
pub fn vhost_user(name: &str) -> RawPort {
    port(name, VhostUser { socket: format!("{name}.sock").into(), ..VhostUser::default() })
}

/// Returns the same port, where the switch takes this side of the socket.
pub fn vhost_user_by(name: &str, side: Side) -> RawPort {
    port(name, VhostUser { socket: format!("{name}.sock").into(), mode: side.into(), ..VhostUser::default() })
}

/// Returns a port that drives the backend at this socket.
pub fn virtio_user(name: &str, path: &Path) -> RawPort {
    port(name, VirtioUser { socket: socket(path), ..VirtioUser::default() })
}

/// Returns a port that has a tap.
pub fn tap(name: &str, interface: &str) -> RawPort {
    port(name, Tap { interface: interface.into(), ..Tap::default() })
}

/// Returns a port at an interface, by packet sockets.
pub fn af_packet(name: &str, interface: &str) -> RawPort {
    port(name, AfPacket { interface: interface.into(), ..AfPacket::default() })
}

/// Returns a port at an interface, by AF_XDP.
pub fn af_xdp(name: &str, interface: &str) -> RawPort {
    port(name, AfXdp { interface: interface.into(), ..AfXdp::default() })
}

/// Returns a port that drives this device of DPDK, by its name without arguments.
pub fn dpdk_port(name: &str, device: &str) -> RawPort {
    port(name, Dpdk { device: device.into(), ..Dpdk::default() })
}

/// Returns the DPDK of ports with these devices, with little memory.
pub fn dpdk_devices(devices: &[&str]) -> RawDpdk {
    let devices: Vec<At<String>> = devices.iter().map(|&device| device.to_owned().into()).collect();
    RawDpdk { devices: devices.into(), memory: "64M".into() }
}

/// Returns a port whose frames come from a capture file.
pub fn replay(name: &str, file: &str) -> RawPort {
    port(name, Pcap { replay: file.into(), ..Pcap::default() })
}

/// Returns a port whose frames go to a capture file.
pub fn record(name: &str, file: &str) -> RawPort {
    port(name, Pcap { record: file.into(), ..Pcap::default() })
}

/// Returns a port that generates frames.
pub fn generator(name: &str) -> RawPort {
    port(name, Generator::default())
}

/// Returns a port that drops its frames.
pub fn sink(name: &str) -> RawPort {
    port(name, Sink {})
}

/// Returns a port that sends its frames back.
pub fn loopback(name: &str) -> RawPort {
    port(name, Loopback {})
}

/// Makes a port carry these VLANs, tagged.
pub fn trunk(vlans: &[i64], port: RawPort) -> RawPort {
    RawPort { trunk: Several::List(vlans.iter().map(|&vlan| vlan.into()).collect()).into(), ..port }
}

/// Makes a port carry all VLANs, tagged.
pub fn trunk_of_all(port: RawPort) -> RawPort {
    RawPort { trunk: Several::All.into(), ..port }
}

/// Makes a port carry one VLAN, untagged.
pub fn access(vlan: i64, port: RawPort) -> RawPort {
    RawPort { vlan: vlan.into(), ..port }
}
