//! A configuration: plain values.

use super::value::ListenAddress;
use engine::spec::Spec;
use std::path::PathBuf;

/// A whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The switch.
    pub spec: Spec,
    /// Path of the control socket.
    pub control: PathBuf,
    /// Directory of parts that are added at run time, if they are kept.
    pub kept: Option<PathBuf>,
    /// Whether directories of sockets are made.
    pub makes_directories: bool,
    /// Address of the metrics endpoint, if any.
    pub metrics: Option<ListenAddress>,
    /// OpenFlow settings, if any.
    pub openflow: Option<Openflow>,
    /// Settings of DPDK, if any.
    pub dpdk: Option<Dpdk>,
    /// Confinement settings.
    pub confinement: Confinement,
}

/// The OpenFlow channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Openflow {
    /// Addresses to listen on.
    pub listen: Vec<ListenAddress>,
    /// Controllers to connect to. At least one of the two lists is not empty.
    pub controllers: Vec<ListenAddress>,
    /// Its datapath id.
    pub datapath_id: u64,
}

/// DPDK, for ports of driver `dpdk`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dpdk {
    /// Devices that ports may have, with their arguments.
    pub devices: Vec<String>,
    /// Memory of DPDK's own, in bytes.
    pub memory: u64,
}

/// Confinement settings of the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Whether the switch confines itself.
    pub enabled: bool,
    /// User that the switch becomes, if not the one that started it.
    pub user: Option<String>,
    /// Directories that a changed configuration may use.
    pub directories: Vec<PathBuf>,
}
