//! Open vSwitch with its datapath in user space, with DPDK or without.

use super::contract::{PortKind, Running, Setup, SwitchKind, SwitchPort, Unavailable};
use super::sockets::Sockets;
use crate::dpdk::{self, Lcores, Pages};
use crate::ovs::{Build, Forwarding, MEGABYTES, Options, Ovs, Port};
use crate::{Error, Result};

/// Open vSwitch, which learns addresses.
pub struct OpenVswitch(pub Build);

impl SwitchKind for OpenVswitch {
    fn name(&self) -> &'static str {
        match self.0 {
            Build::Dpdk => "ovs-dpdk",
            Build::Sockets => "ovs-userspace",
        }
    }

    fn about(&self) -> &'static str {
        match self.0 {
            Build::Dpdk => "Open vSwitch with DPDK, which learns addresses",
            Build::Sockets => "Open vSwitch in user space over the kernel's packet sockets, which learns addresses",
        }
    }

    fn ports(&self) -> &'static [PortKind] {
        match self.0 {
            Build::Dpdk => &[PortKind::VhostUser, PortKind::Interface],
            Build::Sockets => &[PortKind::Interface],
        }
    }

    fn learns(&self) -> bool {
        true
    }

    /// Without DPDK it sleeps when there is nothing to do, but forwards in a single thread, too.
    fn processors(&self) -> usize {
        1
    }

    fn megabytes(&self) -> u64 {
        match self.0 {
            Build::Dpdk => MEGABYTES,
            Build::Sockets => 0,
        }
    }

    fn available(&self) -> std::result::Result<String, Unavailable> {
        let with = |pages| self.0.available(pages).map_err(|error| Unavailable(error.to_string()));
        // A machine without it keeps its memory: huge pages stay when they were asked for.
        let version = with(Pages::Huge)?;
        match self.megabytes() {
            0 => Ok(version),
            megabytes => with(Pages::for_dpdk(megabytes)),
        }
    }

    fn start(&self, setup: &Setup<'_>) -> Result<Box<dyn Running>> {
        let sockets = Sockets::of(setup);
        let ports = setup.ports.iter().map(|port| self.port(port)).collect::<Result<Vec<Port>>>()?;
        let switch = Ovs::start(&Options {
            build: self.0,
            directory: setup.directory,
            namespace: setup.namespace,
            ports: &ports,
            forwarding: Forwarding::Learning,
            lcores: Lcores { forwarding: setup.processors[0], others: Some(setup.others) },
            segments: false,
            interrupt: setup.interrupt,
        })?;
        Ok(Box::new(Bridge { switch, _sockets: sockets }))
    }
}

impl OpenVswitch {
    fn port(&self, port: &SwitchPort) -> Result<Port> {
        match port {
            SwitchPort::VhostUser(socket) if self.0 == Build::Dpdk => {
                Ok(Port::Dpdk(dpdk::VhostPort::new(socket).into()))
            }
            SwitchPort::Interface(name) => Ok(Port::Interface(name.clone())),
            _ => Err(Error::malformed(format!("a port of {}", self.name()), "it has none of this kind")),
        }
    }
}

struct Bridge {
    // Ends before its sockets.
    switch: Ovs,
    _sockets: Sockets,
}

impl Running for Bridge {
    fn check(&mut self) -> Result<()> {
        self.switch.daemon().check("the end of a measurement")
    }

    fn is_up(&mut self) -> Result<bool> {
        self.switch.is_up()
    }

    fn processes(&self) -> Vec<u32> {
        self.switch.processes()
    }

    fn commands(&self) -> Vec<String> {
        self.switch.commands()
    }

    fn openflow(&self) -> Option<String> {
        Some(self.switch.openflow())
    }

    fn take_cycles(&mut self) -> Result<Option<f64>> {
        self.switch.take_cycles()
    }
}
