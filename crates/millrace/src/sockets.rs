//! Sockets owned by another user or group than the switch.

use crate::config::Config;
use engine::spec::{Driver, Mode};
use vhost_user::{SocketError, claim};

/// Creates the sockets of vhost-user ports that have an owner or group: a confined switch can't change ownership.
pub(crate) fn claim_all(config: &Config) -> Result<(), SocketError> {
    for port in &config.spec.ports {
        if let Driver::VhostUser { socket, mode: Mode::Server, access, .. } = &port.driver
            && access.is_given()
        {
            claim(socket, access)?;
        }
    }
    Ok(())
}
