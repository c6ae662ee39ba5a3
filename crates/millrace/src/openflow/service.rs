//! The sockets and threads of all channels.

use super::agent::{Agent, SharedSwitch};
use super::{channel, seek};
use crate::config::{ListenAddress, Openflow};
use crate::serve::{ListenError, Listener, Stop, serve};
use engine::Switch;
use std::net::SocketAddr;
use std::sync::Arc;

/// Concurrent controllers, per listening socket.
const CONTROLLERS: usize = 8;

/// Listening sockets, and the controllers to connect to.
pub struct Service {
    listeners: Vec<Arc<Listener>>,
    controllers: Vec<ListenAddress>,
    shared: SharedSwitch,
}

impl Service {
    /// Listens on all addresses of `config`.
    pub fn bind(config: &Openflow) -> Result<Self, ListenError> {
        let bind = |address: &ListenAddress| Listener::bind(address, "openflow");
        let listeners = config.listen.iter().map(bind).collect::<Result<_, _>>()?;
        Ok(Self { listeners, controllers: config.controllers.clone(), shared: SharedSwitch::new(config.datapath_id) })
    }

    /// Returns its sockets.
    pub fn listeners(&self) -> &[Arc<Listener>] {
        &self.listeners
    }

    /// Returns the TCP addresses it listens on, with the ports that the system chose for port 0.
    pub fn tcp_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.tcp_address())
    }

    /// Returns the switch, to read its flows.
    pub fn shared(&self) -> SharedSwitch {
        self.shared.clone()
    }

    /// Serves controllers of this switch until `stop`.
    pub fn serve(self, datapath: &Switch, stop: &Stop) {
        let agent = &Agent::new(self.shared, datapath);
        std::thread::scope(|scope| {
            for listener in &self.listeners {
                let converse = |connection| {
                    channel::converse(agent, &connection);
                };
                scope.spawn(move || serve("openflow", listener, CONTROLLERS, stop, converse, drop));
            }
            for address in &self.controllers {
                scope.spawn(move || seek::seek(agent, address, stop));
            }
            agent.watch(stop);
        });
    }
}
