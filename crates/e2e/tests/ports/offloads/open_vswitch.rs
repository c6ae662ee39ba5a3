//! Open vSwitch with segmentation offload in user space, between two hosts behind a Millrace that is its driver: messages pass whole.
//!
//! Needs root and huge pages, as Open vSwitch runs with DPDK.

use super::{Host, counts, stream, tap_with};
use e2e::{Home, wait_for};
use lab::dpdk::{Lcores, VhostPort};
use lab::millrace::config::*;
use lab::netns::Namespace;
use lab::ovs::{self, Ovs};
use lab::process::Interrupt;
use lab::{Result, cpu};

/// Whether it has segmentation offload, and its ports connect. It gives no segmentation to ports that listen (its manual, "Userspace
/// Datapath - TSO").
#[derive(Clone, Copy, Debug)]
struct Case {
    segments: bool,
    connects: bool,
}

const CASES: [Case; 3] = [
    Case { segments: true, connects: true },
    Case { segments: false, connects: true },
    Case { segments: false, connects: false },
];

const PORTS: [&str; 2] = ["left", "right"];

/// Starts it with ports that connect to those of a switch in `home`, or that listen in `own`.
fn start(own: &Home, home: &Home, namespace: &Namespace, case: Case) -> Result<Ovs> {
    let socket = |name: &str| match case.connects {
        true => VhostPort::new(home.socket(name)).client(),
        false => VhostPort::new(own.socket(name)),
    };
    let plan = cpu::Plan::detect();
    Ovs::start(&ovs::Options {
        build: ovs::Build::Dpdk,
        directory: own.path("").as_path(),
        namespace,
        ports: &PORTS.map(|name| ovs::Port::Dpdk(socket(name).into())),
        forwarding: ovs::Forwarding::Pairs,
        lcores: Lcores { forwarding: plan.switch, others: Some(plan.guest()) },
        segments: case.segments,
        interrupt: &Interrupt::never(),
    })
}

#[test]
fn messages_pass_open_vswitch_whole_if_it_takes_them() -> Result<()> {
    for case in CASES {
        let (home, far, here) = (Home::new(), Home::new(), Namespace::create()?);
        let mut ovs = start(&far, &home, &here, case)?;
        let taps = ["tap0", "tap1"];
        let rings = PORTS.map(|name| {
            let (at, mode) = if case.connects { (&home, Side::Server) } else { (&far, Side::Client) };
            let (socket, mode) = (socket(&at.socket(name)), mode.into());
            port(name, VirtioUser { socket, mode, queue_size: 1024.into(), ..VirtioUser::default() })
        });
        let patches = [patch("tap0", "left"), patch("tap1", "right")];
        let millrace = home.start_inside(&here, (taps.map(|name| tap_with(name, None)), rings, patches, sleeper()));
        millrace.wait_up(&PORTS);
        wait_for("Open vSwitch", || ovs.is_up().expect("it answers").then_some(()));
        let mut hosts = Vec::new();
        for (tap, number) in taps.iter().zip(1..) {
            let host = Host { namespace: Namespace::create()?, number };
            here.run("ip", &["link", "set", tap, "netns", host.namespace.name(), "name", "eth0"])?;
            host.set_up()?;
            hosts.push(host);
        }
        let [left, right] = &hosts[..] else { unreachable!("there are two") };
        for (from, to) in [(left, right), (right, left)] {
            for address in to.addresses() {
                stream(from, to, address)?;
            }
        }
        for (port, host) in PORTS.iter().zip(&hosts) {
            assert_eq!(host.wrong()?, 0);
            let expected = if case.segments { [true, true, false] } else { [false, false, true] };
            assert_eq!(counts(&millrace, port), expected, "{case:?}: {:?}", millrace.port(port).0.offloads);
        }
        millrace.stop();
    }
    Ok(())
}
