//! The stages of a port.

use crate::stage::mirror::Probe;
use crate::stage::running::Running;
use crate::stage::setup::Setup;
use std::sync::Arc;

/// Stages of a port.
pub(super) struct PortStages {
    pub(super) setup: Arc<Setup>,
    /// Transmit queues that are up.
    pub(super) running: Arc<Running>,
    /// The port as mirrors copy to it, while any does.
    pub(super) probe: Option<Arc<Probe>>,
}
