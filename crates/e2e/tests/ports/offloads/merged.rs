//! Segments of TCP from a port without offloads become messages for a tap.

use super::{Host, KINDS, Kind, host_behind, stream, tap_with, tunnel};
use e2e::virtio::Options;
use e2e::{Home, Millrace, wait_for};
use lab::Result;
use lab::millrace::config::*;
use lab::netns::Namespace;
use packet::checksum;
use packet::{Segment, unfinished};

/// Payload of a segment.
const PAYLOAD: usize = 1448;

fn kind(name: &str) -> &'static Kind {
    KINDS.iter().find(|kind| kind.name == name).expect("a kind of port")
}

/// Returns how many frames to the tap were merged, and into how many messages.
fn merged(millrace: &Millrace) -> [u64; 2] {
    let offloads = millrace.port("tap").0.offloads.unwrap_or_default();
    [offloads.merged, offloads.messages]
}

/// Has a host behind an interface without offloads send to one behind a tap, in a switch with these ports and bridges.
fn an_interface_sends_to_a_tap(here: &Namespace, bridges: RawFile) -> Result<()> {
    let home = Home::new();
    let hosts = [(kind("xdp0"), 1), (kind("tap"), 2)].map(|(kind, number)| host_behind(here, kind, number));
    let [far, near] = hosts;
    let (far, near) = (far?, near?);
    let millrace = home.start_inside(here, bridges);
    here.run("ip", &["link", "set", "tap", "netns", near.namespace().name(), "name", "eth0"])?;
    near.set_up()?;
    far.set_up()?;
    let ports = millrace.stats().ports;
    millrace.wait_up(&ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>());
    for (from, to) in [(&far, &near), (&near, &far)] {
        for address in to.addresses() {
            stream(from, to, address)?;
        }
    }
    // A worker that is faster than the sender may find one segment at a time.
    wait_for("segments that come together", || {
        near.addresses().into_iter().for_each(|address| stream(&far, &near, address).expect("a stream"));
        (merged(&millrace)[0] > 0).then_some(())
    });
    let [frames, messages] = merged(&millrace);
    assert!(frames >= 2 * messages && messages > 0, "{frames} in {messages}");
    for host in [&far, &near] {
        assert_eq!(host.wrong()?, 0, "checksums at {}", host.number);
    }
    for port in millrace.stats().ports {
        let harmless = ["hairpin", "down", "not-tunnel"];
        assert!(port.drops.keys().all(|reason| harmless.contains(&reason.as_str())), "{}: {:?}", port.name, port.drops);
        if port.name != "tap" {
            let offloads = port.offloads.unwrap_or_default();
            assert_eq!((offloads.merged, offloads.messages), (0, 0), "{}", port.name);
        }
    }
    millrace.stop();
    Ok(())
}

#[test]
fn of_an_interface() -> Result<()> {
    let ports = [kind("xdp0"), kind("tap")].map(|kind| (kind.port)(kind.name));
    let here = Namespace::create()?;
    an_interface_sends_to_a_tap(&here, file((ports, bridge("br0", ["xdp0", "tap"]), sleeper())))
}

#[test]
fn out_of_a_tunnel() -> Result<()> {
    let here = Namespace::create()?;
    let ports = [kind("xdp0"), kind("tap")].map(|kind| (kind.port)(kind.name));
    let bridges = [bridge("br0", ["xdp0", "up0"]), bridge("br1", ["tap", "up1"])];
    let trunks = tunnel(&here)?;
    an_interface_sends_to_a_tap(&here, file((ports, trunks, bridges, sleeper())))
}

/// Returns a segment of TCP to the host of this number.
fn segment(number: u8, index: u32) -> Vec<u8> {
    let len = (40 + PAYLOAD) as u16;
    let mut frame = [MAC, [2, 0, 0, 0, 0, 9]].concat();
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(len.to_be_bytes());
    frame.extend([0, index as u8, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 77, 192, 0, 2, number]);
    let sum = checksum::of(&frame[14..]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend([0x30, 0, 0, 80]);
    frame.extend((1 + index * PAYLOAD as u32).to_be_bytes());
    frame.extend([0, 0, 0, 1, 0x50, 0x10, 2, 0, 0, 0, 0, 0]);
    frame.extend((0..PAYLOAD).map(|at| (at * 7) as u8 ^ index as u8));
    let patch = unfinished::renew([Segment::from(&frame[..])].into_iter()).expect("a wrong checksum");
    patch.apply(&mut frame);
    frame
}

/// Address of the host behind the tap.
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

#[test]
fn a_wrong_checksum_stays_wrong_and_alone() -> Result<()> {
    let (home, here) = (Home::new(), Namespace::create()?);
    let near = Host { namespace: Some(Namespace::create()?), here: &here, number: 2 };
    let ports = (vhost_user("guest"), tap_with("tap", None));
    let millrace = home.start_inside(&here, file((ports, patch("guest", "tap"), sleeper())));
    here.run("ip", &["link", "set", "tap", "netns", near.namespace().name(), "name", "eth0"])?;
    near.namespace().run("ip", &["link", "set", "eth0", "address", "02:00:00:00:00:02"])?;
    near.set_up()?;
    millrace.wait_up(&["tap"]);
    let mut guest = Options::new(home.socket("guest")).connect()?;
    millrace.wait_up(&["guest"]);
    let (before, [had, made]) = (millrace.port("tap").tx(), merged(&millrace));
    // One burst, as it is published at once: of eight segments, the fourth was damaged on its way.
    for index in 0..8 {
        let mut frame = segment(near.number, index);
        if index == 3 {
            frame[1000] ^= 1;
        }
        assert!(guest.send(&[&frame], 1)?);
    }
    guest.flush();
    wait_for("the segments", || (millrace.port("tap").tx() >= before + 8).then_some(()));
    assert_eq!(merged(&millrace), [had + 7, made + 2]);
    wait_for("the kernel to find it wrong", || (near.wrong().expect("counters") == 1).then_some(()));
    assert_eq!(millrace.port("tap").dropped(), 0);
    millrace.stop();
    Ok(())
}
