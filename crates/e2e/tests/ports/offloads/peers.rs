//! Two hosts behind a Millrace that is the driver of other switches, which join the hosts: messages pass whole where the other switch takes
//! them, and complete where it does not.
//!
//! Needs root and huge pages, as the others run with DPDK.

use super::{Host, counts, offered, stream, tap_with};
use e2e::{Home, wait_for};
use engine::port::offloads::OffloadsKey;
use lab::dpdk::{Lcores, Testpmd, VhostPort};
use lab::millrace::config::*;
use lab::netns::Namespace;
use lab::ovs::{self, Ovs};
use lab::process::Interrupt;
use lab::{Result, cpu};
use std::path::PathBuf;

const PORTS: [&str; 2] = ["left", "right"];
const TAPS: [&str; 2] = ["tap0", "tap1"];

/// Returns a port for the other switch.
fn rings(name: &str, path: PathBuf, mode: Side, offloads: Option<OffloadsKey>) -> RawPort {
    let offloads = offloads.map(Into::into).unwrap_or_default();
    port(
        name,
        VirtioUser {
            socket: socket(&path),
            mode: mode.into(),
            queue_size: 1024.into(),
            offloads,
            ..VirtioUser::default()
        },
    )
}

/// Starts a switch with these ports, each with a host behind it. Streams of both versions of IP go from host to host once the other
/// switch `is_up`. Returns what the ports agreed on, if it is the same, and what came with work, went with it, and was completed.
fn talk(home: &Home, ports: [RawPort; 2], mut is_up: impl FnMut() -> bool) -> Result<(Vec<String>, [bool; 3])> {
    let here = Namespace::create()?;
    let patches = [patch(TAPS[0], PORTS[0]), patch(TAPS[1], PORTS[1])];
    let millrace = home.start_inside(&here, (TAPS.map(|name| tap_with(name, None)), ports, patches, sleeper()));
    millrace.wait_up(&PORTS);
    wait_for("the other switch", || is_up().then_some(()));
    let mut hosts = Vec::new();
    for (tap, number) in TAPS.iter().zip(1..) {
        let host = Host { namespace: Some(Namespace::create()?), here: &here, number };
        here.run("ip", &["link", "set", tap, "netns", host.namespace().name(), "name", "eth0"])?;
        host.set_up()?;
        hosts.push(host);
    }
    millrace.wait_up(&TAPS);
    let [left, right] = &hosts[..] else { unreachable!("there are two") };
    for (from, to) in [(left, right), (right, left)] {
        for address in to.addresses() {
            stream(from, to, address)?;
        }
    }
    for host in &hosts {
        assert_eq!(host.wrong()?, 0);
    }
    let [left, right] = PORTS.map(|port| (offered(&millrace, port).0, counts(&millrace, port)));
    assert_eq!(left, right);
    millrace.stop();
    Ok(left)
}

/// How Open vSwitch is set up.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// Whether it has segmentation offload.
    segments: bool,
    /// Whether its ports connect.
    connects: bool,
    /// The `offloads` of Millrace's ports.
    offloads: Option<OffloadsKey>,
    /// The offloads that both switches agree on.
    agreed: &'static [&'static str],
}

const CASES: [Case; 4] = [
    Case { segments: true, connects: true, offloads: None, agreed: &["checksum", "tcp4", "tcp6"] },
    Case { segments: false, connects: true, offloads: None, agreed: &[] },
    Case { segments: false, connects: false, offloads: None, agreed: &[] },
    // With segmentation, ports that listen offer checksums, and what is left on frames for another of them is lost.
    Case { segments: true, connects: false, offloads: Some(OffloadsKey::None), agreed: &[] },
];

#[test]
fn open_vswitch() -> Result<()> {
    for case in CASES {
        let (home, far, there) = (Home::new(), Home::new(), Namespace::create()?);
        let (at, mode) = if case.connects { (&home, Side::Server) } else { (&far, Side::Client) };
        let port = |name: &str| {
            let port = VhostPort::new(at.socket(name));
            ovs::Port::Dpdk(if case.connects { port.client() } else { port }.into())
        };
        let plan = cpu::Plan::detect();
        let mut ovs = Ovs::start(&ovs::Options {
            build: ovs::Build::Dpdk,
            directory: far.path("").as_path(),
            namespace: &there,
            ports: &PORTS.map(port),
            forwarding: ovs::Forwarding::Pairs,
            lcores: Lcores { forwarding: plan.switch, others: Some(plan.guest()) },
            segments: case.segments,
            interrupt: &Interrupt::never(),
        })?;
        let ports = PORTS.map(|name| rings(name, at.socket(name), mode, case.offloads));
        let (agreed, counts) = talk(&home, ports, || ovs.is_up().expect("it answers"))?;
        assert_eq!(agreed, case.agreed, "{case:?}");
        let is_whole = !agreed.is_empty();
        assert_eq!(counts, [is_whole, is_whole, !is_whole], "{case:?}");
    }
    Ok(())
}

/// DPDK's vhost driver finishes checksums itself for an application that asks for none.
#[test]
fn testpmd() -> Result<()> {
    let (home, far) = (Home::new(), Home::new());
    let [left, right] = PORTS.map(|name| VhostPort::new(far.socket(name)));
    let mut switch = Testpmd::switch().port(left).port(right).spawn_ready()?;
    switch.start()?;
    let ports = PORTS.map(|name| rings(name, far.socket(name), Side::Client, None));
    let (agreed, counts) = talk(&home, ports, || true)?;
    assert_eq!((agreed, counts), (vec!["checksum".to_owned()], [false, true, true]));
    Ok(())
}
