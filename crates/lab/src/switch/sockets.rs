//! Sockets of vhost-user ports.

use std::path::{Path, PathBuf};

use super::contract::{Setup, SwitchPort};
use crate::{Error, Result};

/// The sockets of a switch, which end with it: a program that is killed leaves them behind, and a new one would refuse to start.
///
/// A running switch has it as its last field, so that its program ends first.
pub(super) struct Sockets(Vec<PathBuf>);

impl Sockets {
    /// Takes care of the sockets of these ports.
    pub(super) fn of(setup: &Setup<'_>) -> Sockets {
        let socket = |port: &SwitchPort| match port {
            SwitchPort::VhostUser(socket) => Some(socket.clone()),
            _ => None,
        };
        Sockets(setup.ports.iter().filter_map(socket).collect())
    }

    /// Takes care of the sockets of a switch that has no ports of another kind.
    pub(super) fn only(setup: &Setup<'_>, switch: &str) -> Result<Sockets> {
        let sockets = Sockets::of(setup);
        if sockets.0.len() == setup.ports.len() {
            return Ok(sockets);
        }
        Err(Error::malformed(format!("the ports of {switch}"), "it has vhost-user ports only"))
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        for socket in &self.0 {
            // Most programs have removed theirs.
            let _ = std::fs::remove_file(socket);
        }
    }
}
