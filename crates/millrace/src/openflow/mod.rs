//! The OpenFlow 1.3 channel: through it controllers set the flows of a bridge and of the aggregation table, send and receive
//! packets, and read ports and their counters.
//!
//! The `openflow` crate implements the protocol; this module adds sockets, clocks and access to the switch: `agent` is shared
//! by all channels, `channel` serves one, `seek` keeps one open to a controller.

mod agent;
mod channel;
mod ports;
mod seek;

pub use agent::Book;

use crate::config::{ListenAddress, Openflow};
use crate::serve::{ListenError, Listener, Stop, serve};
use agent::Agent;
use engine::stats::{AggregationFlow, Snapshot};
use openflow::{Action, Classifier, FlowId, PacketIn, Rule};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Concurrent controllers, per listening socket.
const CONTROLLERS: usize = 8;

/// Interval for updating ports and counters, and for expiring flows.
const TICK: Duration = Duration::from_millis(200);

/// The switch as controlled by controllers. Called from several threads, one at a time.
pub trait Datapath: Send + Sync {
    /// Returns all counters as they are now.
    fn snapshot(&self) -> Snapshot;
    /// Overlays the configured flows with these, replacing all flows set this way before. NFI 0 means no next hop.
    fn lay_flows(&self, flows: Vec<AggregationFlow>);
    /// Puts flows in force.
    fn set_flows(&self, rules: Classifier<Rule>);
    /// Reports packets and bytes per flow since the last call; returns how many packets were looked up, and how many of them
    /// matched a flow.
    fn harvest_flows(&self, account: &mut dyn FnMut(FlowId, u64, u64)) -> (u64, u64);
    /// Applies `actions` to a packet, as if it had arrived at `in_port`.
    fn packet_out(&self, in_port: u32, actions: &[Action], data: &[u8]);
    /// Passes packets for controllers to `take`.
    fn packet_ins(&self, take: &mut dyn FnMut(&PacketIn<'_>));
    /// Passes to `take` the frames in which other switches relay flows.
    fn relayed_flows(&self, take: &mut dyn FnMut(&[u8]));
    /// Returns a descriptor that is readable when there is something for the last two, until [`Self::answer`].
    fn bell(&self) -> BorrowedFd<'_>;
    /// Clears the bell. Call it before those two.
    fn answer(&self);
}

/// Listening sockets, and the controllers to connect to.
pub struct Service {
    listeners: Vec<Listener>,
    controllers: Vec<ListenAddress>,
    book: Book,
}

impl Service {
    /// Listens on all addresses of `config`.
    pub fn bind(config: &Openflow) -> Result<Self, ListenError> {
        let bind = |address: &ListenAddress| Listener::bind(address, "openflow");
        let listeners = config.listen.iter().map(bind).collect::<Result<_, _>>()?;
        Ok(Self { listeners, controllers: config.controllers.clone(), book: Book::new(config.datapath_id) })
    }

    /// Returns the TCP addresses it listens on, with the ports that the system chose for port 0.
    pub fn tcp_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.listeners.iter().filter_map(Listener::tcp_address)
    }

    /// Returns shared read access to the flows.
    pub fn book(&self) -> Book {
        self.book.clone()
    }

    /// Serves controllers until `stop`.
    pub fn serve(self, datapath: &dyn Datapath, stop: &Stop) {
        let agent = &Agent::new(self.book, datapath);
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

#[cfg(test)]
mod tests;
