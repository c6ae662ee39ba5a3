//! Creation, change and removal of interfaces.

mod common;

use common::{Netns, wait_for};
use netdev::{Error, Event, Link, Links, Monitor, ethtool};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Waits for the next event for which `wanted` returns a value.
fn next<T>(monitor: &Monitor, what: &str, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
    wait_for(what, || {
        let longest = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        poll(&mut [PollFd::new(monitor, PollFlags::IN)], Some(&longest)).unwrap();
        monitor.events().unwrap().iter().find_map(&mut wanted)
    })
}

fn changed(event: &Event, name: &str) -> Option<Link> {
    match event {
        Event::Changed(link) if link.name == name => Some(link.clone()),
        _ => None,
    }
}

#[test]
fn hardware_leaves_tags_in_frames_until_it_may_take_them_again() {
    let netns = Netns::new();
    netns.ip("link add name x type veth peer name y");
    netns.run(|| {
        let link = Link::named("x").unwrap();
        let left = ethtool::leave_tags(&link).unwrap().expect("by default a veth takes them");
        assert!(ethtool::leave_tags(&link).unwrap().is_none());
        // It is found under any name.
        netns.ip("link set dev x name z");
        drop(left);
        let link = Link::named("z").unwrap();
        assert!(ethtool::leave_tags(&link).unwrap().is_some());
        // Loopback has no such hardware.
        assert!(ethtool::leave_tags(&Link::named("lo").unwrap()).unwrap().is_none());
    });
}

#[test]
fn an_interface_comes_changes_and_goes() {
    let netns = Netns::new();
    let (links, monitor) = netns.run(|| (Links::open().unwrap(), Monitor::open().unwrap()));
    assert_eq!(links.find("x").unwrap(), None);
    netns.ip("link add name x type veth peer name y");
    netns.ip("link set dev y up");
    let came = next(&monitor, "the interface", |event| changed(event, "x"));
    assert!(!came.is_up && !came.has_carrier);
    assert!(came.trouble().unwrap().contains("administratively down"), "{came:?}");

    let up = links.bring_up(&came).unwrap();
    assert!(up.is_up, "{up:?}");
    let up = next(&monitor, "up", |event| changed(event, "x").filter(|link| link.trouble().is_none()));
    assert_eq!(up.index, came.index);
    assert_eq!(links.bring_up(&up).unwrap(), up);

    assert_eq!(links.set_mtu(&up, 1280).unwrap().mtu, 1280);
    next(&monitor, "the MTU", |event| changed(event, "x").filter(|link| link.mtu == 1280));
    assert!(matches!(links.set_mtu(&up, usize::MAX), Err(Error::System { .. })));

    netns.ip("link set dev y down");
    let off = next(&monitor, "no carrier", |event| changed(event, "x").filter(|link| !link.has_carrier));
    assert!(off.trouble().unwrap().contains("no carrier"), "{off:?}");

    netns.ip("link del dev x");
    next(&monitor, "the end", |event| matches!(event, Event::Gone(link) if link.name == "x").then_some(()));
    netns.ip("link add name x type veth peer name y");
    let again = next(&monitor, "the next one", |event| changed(event, "x"));
    assert_ne!(again.index, came.index);
    // A change meant for the removed interface does not affect the new one.
    assert!(matches!(links.bring_up(&came), Err(Error::System { .. })));
    assert!(!links.get("x").unwrap().is_up);
}

#[test]
fn the_carrier_of_a_cable_follows_its_other_end() {
    let netns = Netns::with_veth(1500);
    let (links, monitor) = netns.run(|| (Links::open().unwrap(), Monitor::open().unwrap()));
    assert!(links.get("a").unwrap().has_carrier);
    netns.ip("link set dev b down");
    let off = next(&monitor, "no carrier", |event| changed(event, "a").filter(|link| !link.has_carrier));
    assert!(off.is_up);
    netns.ip("link set dev b up");
    next(&monitor, "the carrier", |event| changed(event, "a").filter(|link| link.has_carrier));
}

/// A slow listener learns that it missed something, and continues.
#[test]
fn an_overrun_is_reported() {
    let netns = Netns::new();
    let monitor = netns.run(|| Monitor::open().unwrap());
    netns.ip("link add name x type veth peer name y");
    let script = "for i in $(seq 1000); do ip link set dev x mtu $((1000 + i)); done";
    let all = std::process::Command::new("nsenter")
        .arg(format!("--net=/run/netns/{}", netns.name()))
        .args(["sh", "-c", script])
        .status();
    assert!(all.expect("this test needs `nsenter` (util-linux)").success());
    assert!(monitor.events().unwrap().contains(&Event::Missed));
    netns.ip("link set dev x mtu 1500");
    next(&monitor, "a later change", |event| changed(event, "x").filter(|link| link.mtu == 1500));
}

#[test]
fn drivers_describe_themselves() {
    let netns = Netns::new();
    netns.ip("link add name x mtu 1400 numrxqueues 3 numtxqueues 3 type veth peer name y numrxqueues 3 numtxqueues 3");
    netns.run(|| {
        let x = Link::named("x").unwrap();
        assert_eq!((ethtool::driver(&x).as_deref(), ethtool::rx_queues(&x).unwrap(), x.mtu), (Some("veth"), 3, 1400));
    });
}
