//! The link between two nodes.

use super::node::driver;
use super::{Rig, RigError};
use crate::peers::{TestpmdSetup, ovs_switch, switch_ports, testpmd_switch};
use clap::ValueEnum;
use lab::dpdk::{self, Lcores, Testpmd};
use lab::millrace::config::{RawPort, VhostUser, af_packet, af_xdp, port, socket};
use lab::netns::{Namespace, cable};
use lab::ovs::{self, Ovs};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Size of the queues between the nodes, where it is configurable.
const QUEUE: u16 = 1024;

/// Medium of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Between {
    /// A cable of the kernel, with packet sockets at its ends
    AfPacket,
    /// A cable of the kernel, with AF_XDP sockets at its ends
    AfXdp,
    /// Shared rings: virtio-user to vhost-user
    Rings,
    /// The same the other way round: the second node is the driver, as of a virtio NIC
    Virtio,
    /// Open vSwitch with DPDK, a vhost-user port for each node
    Ovs,
    /// DPDK's testpmd, a vhost-user port for each node
    Testpmd,
}

impl Between {
    /// Returns the huge pages that it needs, in MiB, if it is a program.
    pub fn megabytes(self) -> u64 {
        match self {
            Between::Ovs => ovs::MEGABYTES,
            Between::Testpmd => dpdk::MEGABYTES,
            Between::AfPacket | Between::AfXdp | Between::Rings | Between::Virtio => 0,
        }
    }

    /// Reports whether it is a program, which polls and needs a processor.
    pub fn is_program(self) -> bool {
        self.megabytes() > 0
    }
}

impl fmt::Display for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Between::AfPacket => "af_packet",
            Between::AfXdp => "af_xdp",
            Between::Rings => "rings",
            Between::Virtio => "virtio",
            Between::Ovs => "ovs",
            Between::Testpmd => "testpmd",
        })
    }
}

/// The program that forwards between the nodes, if there is one.
enum Forwarder {
    Ovs(Box<Ovs>),
    Testpmd(Box<Testpmd>),
}

impl Forwarder {
    /// Starts it with a port on each socket; all its files are in `directory`.
    fn start(
        rig: &Rig,
        between: Between,
        directory: &Path,
        sockets: &[PathBuf; 2],
        lcores: Lcores,
    ) -> Result<Forwarder, RigError> {
        let (pages, interrupt, ports) = (rig.pages, rig.interrupt(), switch_ports(sockets, None));
        if between == Between::Testpmd {
            let setup = TestpmdSetup { lcores, pages, interrupt };
            return Ok(Forwarder::Testpmd(Box::new(testpmd_switch(ports, setup)?)));
        }
        ovs::Build::Dpdk.available(pages)?;
        Ok(Forwarder::Ovs(Box::new(ovs_switch(directory, ports, lcores, interrupt)?)))
    }
}

/// The link between two nodes.
pub struct Link {
    forwarder: Option<Forwarder>,
    /// Separate namespaces of the first and the second node, if needed.
    namespaces: Option<[Namespace; 2]>,
    ports: [RawPort; 2],
    _directory: TempDir,
}

impl Link {
    /// Creates a link. `name` is the name of its port at each node; a program between them runs on `lcores`.
    pub fn make(rig: &Rig, between: Between, name: &str, lcores: Lcores) -> Result<Link, RigError> {
        let directory = tempfile::Builder::new().prefix("link-").tempdir_in(rig.directory.path());
        let directory =
            directory.map_err(|source| RigError::System { action: "a temporary directory can't be made", source })?;
        let sockets = ["a.sock", "b.sock"].map(|socket| directory.path().join(socket));
        let (mut forwarder, mut namespaces) = (None, None);
        let ports = match between {
            Between::AfPacket | Between::AfXdp => {
                let names = ["up0", "up1"];
                let both = [Namespace::create()?, Namespace::create()?];
                cable([(&both[0], names[0]), (&both[1], names[1])])?;
                namespaces = Some(both);
                let end = if between == Between::AfXdp { af_xdp } else { af_packet };
                names.map(|interface| end(name, interface))
            }
            Between::Rings | Between::Virtio => {
                let driver = driver(name, &sockets[0], QUEUE);
                let device = port(name, VhostUser { socket: socket(&sockets[0]), ..VhostUser::default() });
                if between == Between::Rings { [driver, device] } else { [device, driver] }
            }
            Between::Ovs | Between::Testpmd => {
                forwarder = Some(Forwarder::start(rig, between, directory.path(), &sockets, lcores)?);
                sockets.each_ref().map(|socket| driver(name, socket, QUEUE))
            }
        };
        Ok(Link { forwarder, namespaces, ports, _directory: directory })
    }

    /// Returns the port of the first (0) or the second node (1).
    pub fn port(&self, node: usize) -> RawPort {
        self.ports[node].clone()
    }

    /// Returns the namespace in which the first (0) or the second node (1) must run.
    pub fn namespace(&self, node: usize) -> Option<&Namespace> {
        self.namespaces.as_ref().map(|namespaces| &namespaces[node])
    }

    /// Returns the cycles per frame of the program between the nodes since the last call, in rounds that moved frames.
    pub fn take_cycles(&mut self) -> lab::Result<Option<f64>> {
        match &mut self.forwarder {
            None => Ok(None),
            Some(Forwarder::Ovs(ovs)) => ovs.take_cycles(),
            Some(Forwarder::Testpmd(testpmd)) => testpmd.take_cycles(),
        }
    }

    /// Returns the version of the program between the nodes.
    pub fn version(&self) -> Option<String> {
        match self.forwarder.as_ref()? {
            Forwarder::Ovs(ovs) => ovs.version(),
            Forwarder::Testpmd(testpmd) => testpmd.version(),
        }
    }
}
