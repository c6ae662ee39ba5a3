//! The contract of switches.

use crate::Result;
use crate::dpdk::Pages;
use crate::netns::Namespace;
use crate::process::Interrupt;
use std::path::{Path, PathBuf};

/// A kind of switch.
pub trait SwitchKind {
    /// Returns its name, as in scenarios: `ovs-dpdk`.
    fn name(&self) -> &'static str;

    /// Describes it in a line, for a reader who does not know it.
    fn about(&self) -> &'static str;

    /// Returns the kinds of ports that it can have.
    fn ports(&self) -> &'static [PortKind];

    /// Reports whether it forwards by learned addresses. If not, it joins ports 0 and 1, 2 and 3, and so on.
    fn learns(&self) -> bool;

    /// Reports whether it differs from others only where frames leave a host, so that it runs between two hosts and not on one.
    fn only_between_hosts(&self) -> bool {
        false
    }

    /// Returns the number of processors that it polls on: none if it runs in the kernel.
    fn processors(&self) -> usize;

    /// Returns the memory in huge pages that it needs, in MiB.
    fn megabytes(&self) -> u64 {
        0
    }

    /// Returns its version if it can run here, and otherwise the reason, with a remedy.
    fn available(&self) -> std::result::Result<String, Unavailable>;

    /// Starts it with these ports, and waits until guests can connect.
    fn start(&self, setup: &Setup<'_>) -> Result<Box<dyn Running>>;
}

impl SwitchPort {
    /// Returns the kind of the port.
    pub fn kind(&self) -> PortKind {
        match self {
            SwitchPort::VhostUser(_) => PortKind::VhostUser,
            SwitchPort::Interface(_) => PortKind::Interface,
            SwitchPort::Netmap(_) => PortKind::Netmap,
            SwitchPort::VirtualFunction(_) => PortKind::VirtualFunction,
        }
    }
}

/// Reason why a switch or a technique can't be used here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// Kind of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// A vhost-user device.
    VhostUser,
    /// An interface of the kernel.
    Interface,
    /// A port of netmap.
    Netmap,
    /// A virtual function of a network card.
    VirtualFunction,
}

/// A port that a switch is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwitchPort {
    /// A vhost-user device, whose socket the switch makes and listens on.
    VhostUser(PathBuf),
    /// An interface of the kernel, in the switch's namespace. Frames that it gets must have their checksums: most switches do not
    /// complete them (`ethtool --offload IF tx off` at the other end of a cable).
    Interface(String),
    /// A port of netmap with this name, such as `vale0:1`.
    Netmap(String),
    /// A virtual function of a network card, which the switch gives to its namespace as an interface of this name.
    VirtualFunction(String),
}

/// The conditions under which a switch starts.
pub struct Setup<'s> {
    /// Directory for its files, which is empty at first and has a short path. The sockets of its ports are in it.
    pub directory: &'s Path,
    /// Number of its host, from 0, which tells it from the switch of another host.
    pub host: u8,
    /// Its ports.
    pub ports: &'s [SwitchPort],
    /// Namespace that it runs in, where its interfaces are.
    pub namespace: &'s Namespace,
    /// Processors of its threads that poll, as many as [`SwitchKind::processors`] says.
    pub processors: &'s [usize],
    /// Processor of its other threads, which sleep nearly all the time.
    pub others: usize,
    /// Kind of pages of DPDK's memory.
    pub pages: Pages,
    /// Flag that ends the measurement.
    pub interrupt: &'s Interrupt,
}

/// A running switch; dropping it ends it, with all that it made.
pub trait Running {
    /// Checks that it still runs.
    fn check(&mut self) -> Result<()>;

    /// Reports whether its ports can pass frames. A switch that can't tell says yes.
    fn is_up(&mut self) -> Result<bool> {
        Ok(true)
    }

    /// Returns its processes, whose CPU time is measured, too.
    fn processes(&self) -> Vec<u32>;

    /// Returns the command lines that started and set it up, as a reader could type them.
    fn commands(&self) -> Vec<String>;

    /// Returns where `ovs-ofctl` finds its OpenFlow datapath, if it has one.
    fn openflow(&self) -> Option<String> {
        None
    }

    /// Returns the cycles per frame that it counted itself since the last call, in rounds with frames.
    fn take_cycles(&mut self) -> Result<Option<f64>> {
        Ok(None)
    }
}
