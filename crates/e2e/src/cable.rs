//! Namespaces and the cables between them.

use crate::wait_for;
use lab::Result;
use lab::netns::Namespace;

/// Creates a namespace in which the kernel sends nothing by itself.
pub fn quiet_namespace() -> Result<Namespace> {
    let namespace = Namespace::create()?;
    let off = "for scope in all default; do echo 1 >/proc/sys/net/ipv6/conf/$scope/disable_ipv6; done";
    namespace.run("sh", &["-c", off])?;
    Ok(namespace)
}

/// Creates the switch's namespace and another one, joined by a cable: `up0` here, `up1` there.
pub fn two_namespaces() -> Result<(Namespace, Namespace)> {
    two_namespaces_with(1)
}

/// Does the same with `queues` queues each way.
pub fn two_namespaces_with(queues: u32) -> Result<(Namespace, Namespace)> {
    let (here, there) = (quiet_namespace()?, quiet_namespace()?);
    let queues = queues.to_string();
    let queues = ["numrxqueues", &queues, "numtxqueues", &queues];
    let (one, other) = (["link", "add", "up0"], ["type", "veth", "peer", "name", "up1", "netns", there.name()]);
    here.run("ip", &[&one[..], &queues, &other, &queues].concat())?;
    // The kernel must not answer on the switch's own interface for addresses of the taps.
    here.run("ip", &["link", "set", "up0", "arp", "off", "up"])?;
    there.run("ip", &["link", "set", "up1", "up"])?;
    // On a virtual cable the kernel leaves segmentation to the other end.
    there.run("ethtool", &["-K", "up1", "tso", "off", "gso", "off"])?;
    // The kernel attaches a queue to a device when it notices the carrier, and drops frames until then.
    for (namespace, end) in [(&here, "up0"), (&there, "up1")] {
        wait_for("the cable", || namespace.run("ip", &["link", "show", end]).ok()?.contains("state UP").then_some(()));
    }
    Ok((here, there))
}

/// Creates two namespaces joined by a cable, `up0` here and `up1` there, in which the kernel sends nothing by itself.
pub fn cable() -> Result<[Namespace; 2]> {
    let ends = [quiet_namespace()?, quiet_namespace()?];
    lay_cable([&ends[0], &ends[1]], ["up0", "up1"])?;
    Ok(ends)
}

/// Joins two namespaces by a cable whose ends have these names; it carries no packet beyond 1500 bytes.
pub fn lay_cable([here, there]: [&Namespace; 2], [near, far]: [&str; 2]) -> Result<()> {
    let add = ["link", "add", near, "mtu", "1500", "type", "veth", "peer", "name", far, "mtu", "1500", "netns"];
    here.run("ip", &[&add[..], &[there.name()]].concat())?;
    for (namespace, end) in [(here, near), (there, far)] {
        namespace.run("ip", &["link", "set", end, "arp", "off", "up"])?;
    }
    Ok(())
}
