//! Interfaces of the kernel as ports, in any network namespace.

use super::contract::{EndpointError, Setup, Technique};
use netdev::Link;
use packet::header_len::ETHERNET;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;

/// Opens something on the interface that a port names: `NAME`, or `NAME@FILE` in the network namespace of this file. Sockets
/// that are opened there stay there.
pub(super) fn open_on<T: Send>(
    port: &str,
    technique: Technique,
    setup: &Setup,
    open: impl FnOnce(&Link) -> Result<T, String> + Send,
) -> Result<T, EndpointError> {
    let here = |name| usable(name, setup).and_then(|link| open(&link));
    let opened = match port.split_once('@') {
        None => here(port),
        Some((name, file)) => within(file, || here(name)),
    };
    opened.map_err(|reason| EndpointError { port: port.to_owned(), technique, reason })
}

/// Runs `work` in a network namespace, on a thread of its own.
fn within<T: Send>(file: &str, work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    let namespace = File::open(file).map_err(|error| format!("can't open the network namespace {file}: {error}"))?;
    let enter = || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| format!("can't enter the network namespace {file}: {error}; this needs root"))?;
        work()
    };
    std::thread::scope(|scope| scope.spawn(enter).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns the interface of this name, if it carries frames of the setup's lengths.
fn usable(name: &str, setup: &Setup) -> Result<Link, String> {
    let link = Link::named(name).map_err(|error| error.to_string())?;
    let (longest, needed, mtu) = (setup.longest, usize::from(setup.longest) - ETHERNET, link.mtu);
    if !link.is_up {
        return Err(format!("the interface is down: `ip link set {name} up`"));
    }
    if mtu < needed {
        return Err(format!(
            "frames of {longest} bytes need an MTU of {needed}, and it has {mtu}: `ip link set {name} mtu {needed}`"
        ));
    }
    Ok(link)
}
