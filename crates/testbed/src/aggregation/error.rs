//! Errors of measurements.

use super::rig::{Between, Packets, Placement, RigError};
use loadgen::cpu::PinError;
use nf::OpenError;
use std::path::PathBuf;
use virtqueue::Fatal;

/// Error of a measurement.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum AggregationError {
    #[error(transparent)]
    Rig(#[from] RigError),
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error("{path}, {size} B, {placement}: {source}")]
    Measure { path: Between, size: u16, placement: Placement, source: RigError },
    #[error("{path}, {packets}, {placement}: {source}")]
    Mapped { path: Between, packets: Packets, placement: Placement, source: RigError },
    #[error("{path}, {placement}: {source}")]
    Traffic { path: Between, placement: Placement, source: SingleNodeError },
    #[error(
        "{placement} is not for this network function: testpmd takes none, vhost and ethdev; others take none, vhost, nf and native"
    )]
    Placement { placement: Placement },
    #[error("{} can't be read: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the results can't be written to {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

/// Error of measuring traffic.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum SingleNodeError {
    #[error(transparent)]
    Rig(#[from] RigError),
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error("a NIC for the node: {0}")]
    Nic(#[from] vhost_user::backend::Error),
    #[error("the network function: {0}")]
    Function(#[from] OpenError),
    #[error("the far end of the cable: {0}")]
    Kernel(#[from] netdev::Error),
    #[error("the node broke a ring: {0}")]
    Broken(#[from] Fatal),
    #[error("packets leave the node by rings, af_packet or af_xdp, not by {0}")]
    Exit(Between),
    #[error(
        "the function here is of the nf library, and ethdev is for DPDK applications: `throughput --function testpmd` has one"
    )]
    Ethdev,
    #[error("no packet came through: is the node forwarding?")]
    Nothing,
}

impl SingleNodeError {
    /// Reports whether a signal caused it.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, SingleNodeError::Rig(error) if error.is_interrupt())
    }
}
