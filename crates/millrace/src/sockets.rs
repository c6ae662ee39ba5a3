//! Sockets that are to belong to somebody else than the switch.

use crate::config::Config;
use engine::spec::{Driver, Mode};
use vhost_user::{SocketError, claim};

/// Makes the sockets of vhost-user ports with an owner or group: once the switch is confined, it can't give them away.
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
