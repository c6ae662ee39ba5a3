//! TCP connections whose addresses are changed by flows, over a cable whose ends leave work to each other.

use super::{channel, of};
use e2e::cable::two_namespaces;
use e2e::transfer::move_file;
use e2e::{Home, Millrace, wait_for};
use engine::port::offloads::OffloadsKey;
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;

/// Gives an interface an address, and tells it the address of the other end.
fn address(namespace: &Namespace, interface: &str, address: &str, others: &[&str], mac: &str) -> Result<()> {
    namespace.run("ip", &["address", "add", &format!("{address}/24"), "dev", interface])?;
    others.iter().try_for_each(|other| {
        namespace.run("ip", &["neighbour", "add", other, "lladdr", mac, "dev", interface]).map(drop)
    })
}

fn mac(namespace: &Namespace, interface: &str) -> Result<String> {
    namespace.run("cat", &[&format!("/sys/class/net/{interface}/address")]).map(|text| text.trim().to_owned())
}

/// Starts a switch whose flows change the addresses between the ends: each side knows the other one by an address that flows change.
fn changed_on_the_way(home: &Home, here: &Namespace, there: &Namespace, up: RawPort) -> Result<Millrace> {
    let bridge = by_flows(bridge("br0", ["tap0", "up"]));
    let millrace = home.start_inside(here, (tap("tap0", "tap0"), up, bridge, channel(), sleeper()));
    millrace.wait_up(&["tap0", "up"]);
    address(here, "tap0", "192.0.2.1", &["192.0.2.99"], &mac(there, "up1")?)?;
    address(there, "up1", "192.0.2.2", &["192.0.2.98"], &mac(here, "tap0")?)?;
    for flow in [
        "in_port=1,ip,actions=set_field:192.0.2.98->ip_src,set_field:192.0.2.2->ip_dst,output:2",
        "in_port=2,ip,actions=set_field:192.0.2.99->ip_src,set_field:192.0.2.1->ip_dst,output:1",
    ] {
        of(home, "add-flow", &[flow]);
    }
    Ok(millrace)
}

/// Frames are completed before flows change what their checksums cover.
#[test]
fn tcp_is_changed_by_flows_though_its_ends_leave_work() -> Result<()> {
    let ((here, there), home) = (two_namespaces()?, Home::new());
    let millrace = changed_on_the_way(&home, &here, &there, af_packet("up", "up0"))?;
    there.run("ethtool", &["-K", "up1", "tx", "on", "tso", "on", "gso", "on"])?;
    move_file(&home, &there, &here, "192.0.2.98")?;
    move_file(&home, &here, &there, "192.0.2.99")?;
    for port in ["tap0", "up"] {
        let offloads = millrace.port(port).0.offloads.expect("what the port offers");
        assert!(offloads.received > 0 && offloads.passed_on == 0, "{port}: {offloads:?}");
    }
    Ok(())
}

#[test]
fn tcp_continues_once_the_named_offloads_are_off() -> Result<()> {
    let ((here, there), home) = (two_namespaces()?, Home::new());
    let none = AfPacket { interface: "up0".into(), offloads: OffloadsKey::None.into() };
    let millrace = changed_on_the_way(&home, &here, &there, port("up", none))?;
    there.run("ethtool", &["-K", "up1", "tso", "on", "gso", "on"])?;
    std::thread::scope(|scope| {
        let moved = scope.spawn(|| move_file(&home, &there, &here, "192.0.2.98"));
        let detail = wait_for("what to switch off", || {
            Some(millrace.port("up").0.detail).filter(|detail| detail.contains("tso off gso off"))
        });
        assert!(detail.contains("longer frames have arrived"), "{detail}");
        there.run("ethtool", &["-K", "up1", "tso", "off", "gso", "off"])?;
        moved.join().unwrap()
    })?;
    move_file(&home, &here, &there, "192.0.2.99")
}
