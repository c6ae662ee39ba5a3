//! Joints of ports.

use super::*;

fn names<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Field<Vec<At<String>>> {
    names.into_iter().map(Into::into).collect()
}

/// Returns a patch between two ports.
pub fn patch(a: &str, b: &str) -> RawPatch {
    RawPatch { ports: names([a, b]) }
}

/// Returns two ports of guests and a patch between them.
pub fn patched(a: &str, b: &str) -> RawFile {
    file(([a, b].map(vhost_user), patch(a, b)))
}

/// Returns a bridge between ports.
pub fn bridge<N: Into<String>>(name: &str, ports: impl IntoIterator<Item = N>) -> RawBridge {
    RawBridge { name: name.into(), ports: names(ports), ..RawBridge::default() }
}

/// Makes controllers say where the frames of a bridge go, by flows.
pub fn by_flows(bridge: RawBridge) -> RawBridge {
    RawBridge { openflow: true.into(), ..bridge }
}

/// Returns a channel that waits for controllers at this address.
pub fn listen(address: &str) -> RawOpenflow {
    RawOpenflow { listen: names([address]), ..RawOpenflow::default() }
}

/// Returns an address that is behind a port of a bridge forever.
pub fn stationed(mac: &str, port: &str) -> RawStatic {
    RawStatic { mac: mac.into(), port: port.into(), ..RawStatic::default() }
}

/// Returns a mapping of a physical port to a guest's, in the bridge that both are in.
pub fn mapping(from: &str, to: &str) -> RawMapping {
    RawMapping { from: from.into(), to: to.into(), ..RawMapping::default() }
}

/// Returns a mapping that makes the two ports one wire.
pub fn pass_through(from: &str, to: &str) -> RawMapping {
    RawMapping { mode: MappingMode::PassThrough.into(), ..mapping(from, to) }
}

/// Returns an exchange between the functions of these ports.
pub fn exchange<N: Into<String>>(ports: impl IntoIterator<Item = N>) -> RawExchange {
    RawExchange { ports: names(ports), ..RawExchange::default() }
}

/// Returns a mirror of these ports.
pub fn mirror<N: Into<String>>(from: impl IntoIterator<Item = N>, to: &str) -> RawMirror {
    RawMirror { from: names(from), to: to.into(), ..RawMirror::default() }
}
