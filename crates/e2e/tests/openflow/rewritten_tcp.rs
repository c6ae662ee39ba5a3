//! TCP connections of which flows change the addresses, over a cable whose ends leave work to each other.

use super::{listen, of};
use e2e::cable::two_namespaces;
use e2e::transfer::move_file;
use e2e::{Home, SLEEPER, wait_for};
use lab::netns::Namespace;
use lab::{Result, cpu};

const PORTS: &str = r#"
[[port]]
name = "tap0"
driver = "tap"
interface = "tap0"

[[port]]
name = "up"
driver = "af_packet"
interface = "up0"

[[bridge]]
name = "br0"
openflow = true
ports = ["tap0", "up"]
"#;

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

#[test]
fn tcp_goes_on_once_the_offloads_are_off_that_the_port_names() -> Result<()> {
    let _alone = cpu::alone();
    let ((here, there), home) = (two_namespaces()?, Home::new());
    let millrace = home.start_inside(&here, &[PORTS, &listen(""), SLEEPER].concat());
    millrace.wait_up(&["tap0", "up"]);
    // Each side knows the other one by an address that flows change.
    address(&here, "tap0", "192.0.2.1", &["192.0.2.99"], &mac(&there, "up1")?)?;
    address(&there, "up1", "192.0.2.2", &["192.0.2.98"], &mac(&here, "tap0")?)?;
    for flow in [
        "in_port=1,ip,actions=set_field:192.0.2.98->ip_src,set_field:192.0.2.2->ip_dst,output:2",
        "in_port=2,ip,actions=set_field:192.0.2.99->ip_src,set_field:192.0.2.1->ip_dst,output:1",
    ] {
        of(&home, "add-flow", &[flow]);
    }
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
