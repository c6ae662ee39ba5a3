//! The peers that Millrace is measured with, and their setup.

use crate::nic::{NULL, Nic, null_arguments};
use crate::ring_format::RingFormat;
use lab::dpdk::{self, AnyPort, Lcores, Pages, Port, Testpmd, VhostPort};
use lab::netns::Namespace;
use lab::ovs::{self, Ovs};
use lab::process::Interrupt;
use std::path::{Path, PathBuf};

/// Bursts of 32 frames that each port of a load sends at the start; they circulate forever.
const BURSTS: u32 = 8;

/// Surroundings of testpmd in a measurement.
#[derive(Clone, Copy)]
pub struct TestpmdSetup<'i> {
    /// Processors of its threads.
    pub lcores: Lcores,
    /// Kind of pages of its memory.
    pub pages: Pages,
    /// Flag that ends the measurement.
    pub interrupt: &'i Interrupt,
}

/// Returns the ports of a switch on these sockets: vhost-user ports. With a NIC, the first one is its driver.
pub fn switch_ports(sockets: &[PathBuf], nic: Option<Nic>) -> Vec<AnyPort> {
    let port = |(index, socket): (usize, &PathBuf)| match nic {
        Some(Nic::Virtio(ring)) if index == 0 => driver(socket, ring).into(),
        Some(Nic::Null(size)) if index == 0 => AnyPort::Alone(NULL, null_arguments(size)),
        _ => VhostPort::new(socket).into(),
    };
    sockets.iter().enumerate().map(port).collect()
}

/// Starts testpmd as a switch with these ports, and waits until it forwards.
pub fn testpmd_switch(ports: Vec<AnyPort>, setup: TestpmdSetup<'_>) -> lab::Result<Testpmd> {
    let mut testpmd = start(ports, setup)?;
    testpmd.start()?;
    Ok(testpmd)
}

/// Starts Open vSwitch with DPDK as a switch between these ports, and waits until it forwards. Its files and the sockets are in
/// `directory`.
pub fn ovs_switch(directory: &Path, ports: Vec<AnyPort>, lcores: Lcores, interrupt: &Interrupt) -> lab::Result<Ovs> {
    Ovs::start(&ovs::Options {
        build: ovs::Build::Dpdk,
        directory,
        // The switch stays in it, and it ends with the switch.
        namespace: &Namespace::create()?,
        ports: &ports.into_iter().map(ovs::Port::Dpdk).collect::<Vec<_>>(),
        forwarding: ovs::Forwarding::Pairs,
        lcores,
        segments: false,
        interrupt,
    })
}

/// Starts testpmd as a load with a port on each of the switch's sockets, between which frames of `size` bytes circulate.
pub fn testpmd_load(sockets: &[PathBuf], ring: RingFormat, size: u16, setup: TestpmdSetup<'_>) -> lab::Result<Testpmd> {
    let mut testpmd = start(sockets.iter().map(|socket| driver(socket, ring).into()).collect(), setup)?;
    testpmd.command(&format!("set txpkts {size}"))?;
    testpmd.start_tx_first(BURSTS)?;
    Ok(testpmd)
}

fn start(ports: Vec<AnyPort>, setup: TestpmdSetup<'_>) -> lab::Result<Testpmd> {
    let TestpmdSetup { lcores, pages, interrupt } = setup;
    let builder = ports.into_iter().fold(Testpmd::switch(), |builder, port| builder.port(port));
    let builder = builder.lcores(lcores).memory(pages, dpdk::MEGABYTES).argument("--record-core-cycles");
    builder.measured(interrupt).spawn_ready()
}

fn driver(socket: &Path, ring: RingFormat) -> Port {
    let port = Port::new(socket).in_order();
    if ring == RingFormat::Packed { port.packed() } else { port }
}
