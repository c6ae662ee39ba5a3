//! Taps that others rename, and hand to containers: the port stays with its device.

use e2e::cable::quiet_namespace;
use e2e::live::Live;
use e2e::{poller, wait_for};
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;
use std::net::UdpSocket;

/// Waits until the port's detail has these words.
fn wait_for_word(live: &Live, port: &str, word: &str) {
    let detail = || live.millrace.port(port).0.detail;
    wait_for(&format!("\"{word}\" of {port}, not {:?}", detail()), || detail().contains(word).then_some(()));
}

/// Gives an interface this address, and brings it up.
fn address(namespace: &Namespace, interface: &str, address: &str) -> Result<()> {
    namespace.run("ip", &["address", "add", address, "dev", interface])?;
    namespace.run("ip", &["link", "set", interface, "up"])?;
    Ok(())
}

/// Sends a packet there and back.
fn exchange(near: &UdpSocket, far: &UdpSocket) {
    for (from, to) in [(near, far), (far, near)] {
        to.set_read_timeout(Some(e2e::SOON)).unwrap();
        from.send_to(b"hello", to.local_addr().unwrap()).unwrap();
        let mut bytes = [0; 16];
        assert_eq!(to.recv(&mut bytes).expect("the packet"), 5);
    }
}

#[test]
fn a_tap_can_be_renamed_and_handed_to_a_container() -> Result<()> {
    let (here, container) = (quiet_namespace()?, quiet_namespace()?);
    let taps = (tap("host", "tap0"), tap("guest", "tap1"), patch("host", "guest"));
    let live = Live::inside(&here, poller(), taps);
    live.millrace.wait_up(&["host", "guest"]);
    address(&here, "tap0", "10.9.9.1/24")?;

    here.run("ip", &["link", "set", "tap1", "name", "eth7"])?;
    wait_for_word(&live, "guest", "interface eth7, MTU 1500");
    here.run("ip", &["link", "set", "eth7", "name", "eth0", "netns", container.name()])?;
    wait_for_word(&live, "guest", "interface eth0 in another network namespace is administratively down");
    address(&container, "eth0", "10.9.9.2/24")?;
    live.millrace.wait_up(&["guest"]);
    assert_eq!(live.millrace.port("guest").0.detail, "interface eth0 in another network namespace");
    let bind = |address| move || UdpSocket::bind((address, 0)).unwrap();
    let (near, far) = (here.within(bind("10.9.9.1"))?, container.within(bind("10.9.9.2"))?);
    exchange(&far, &near);
    let before = live.millrace.port("guest");
    assert!(before.rx() >= 2 && before.tx() >= 2, "ARP, and a packet: {before:?}");

    // Neither a reload nor a new owner of its old name changes anything.
    here.run("ip", &["link", "add", "tap1", "type", "veth", "peer", "name", "other"])?;
    assert_eq!(live.millrace.reload().items()[0], "nothing changed");
    exchange(&near, &far);
    assert!(live.millrace.port("guest").rx() > before.rx());
    let log = live.millrace.daemon.log().since(0);
    let moved = "interface tap1 is interface eth7 now";
    assert_eq!(log.iter().filter(|line| line.contains(moved)).count(), 1, "{log:?}");

    // The container hands it back, under another name.
    container.run("ip", &["link", "set", "eth0", "name", "back", "netns", here.name()])?;
    wait_for_word(&live, "guest", "interface back is administratively down");
    here.run("ip", &["link", "set", "back", "up"])?;
    wait_for_word(&live, "guest", "interface back, MTU 1500");
    live.finish();
    Ok(())
}

#[test]
fn a_tap_that_ends_with_its_container_is_made_again() -> Result<()> {
    let (here, container) = (quiet_namespace()?, quiet_namespace()?);
    let taps = (tap("host", "tap0"), tap("guest", "tap1"), patch("host", "guest"));
    let live = Live::inside(&here, poller(), taps);
    live.millrace.wait_up(&["host", "guest"]);
    here.run("ip", &["link", "set", "tap1", "netns", container.name()])?;
    wait_for_word(&live, "guest", "interface tap1 in another network namespace");
    drop(container);
    wait_for_word(&live, "guest", "interface tap1, MTU 1500");
    live.millrace.wait_up(&["guest"]);
    live.finish();
    Ok(())
}
