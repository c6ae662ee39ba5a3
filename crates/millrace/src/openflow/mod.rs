//! The OpenFlow 1.3 channel: controllers set the flows of a bridge and the aggregation table over it, send and receive
//! packets, and read ports and what they have counted.
//!
//! The protocol is the `openflow` crate's; here are sockets, clocks, and the way to the switch: `agent` is what all
//! channels share, `channel` serves one, `seek` keeps the one to a controller that is connected to.

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

/// Controllers at a time, on each socket.
const CONTROLLERS: usize = 8;

/// How often ports and counters are looked at, and flows whose time is over.
const TICK: Duration = Duration::from_millis(200);

/// The switch, as controllers act on it. Called from several threads, one at a time.
pub trait Datapath: Send + Sync {
    /// All that is counted, now.
    fn snapshot(&self) -> Snapshot;
    /// Lays these flows over those of the configuration, in place of all that were laid before. NFI 0 stands for no
    /// next hop.
    fn lay_flows(&self, flows: Vec<AggregationFlow>);
    /// Puts flows in force.
    fn set_flows(&self, rules: Classifier<Rule>);
    /// Tells of packets and bytes that flows were taken for since this was called last; how many packets were looked up,
    /// and for how many of them there was a flow.
    fn harvest_flows(&self, account: &mut dyn FnMut(FlowId, u64, u64)) -> (u64, u64);
    /// Does `actions` to a packet, as if it had come in at `in_port`.
    fn packet_out(&self, in_port: u32, actions: &[Action], data: &[u8]);
    /// Hands packets for controllers to `take`.
    fn packet_ins(&self, take: &mut dyn FnMut(&PacketIn<'_>));
    /// Hands frames to `take` in which other switches relay flows.
    fn relayed_flows(&self, take: &mut dyn FnMut(&[u8]));
    /// Readable when there is something for the last two, until [`Self::answer`].
    fn bell(&self) -> BorrowedFd<'_>;
    /// To be called before they are.
    fn answer(&self);
}

/// Channels that listen, and those that are to be.
pub struct Service {
    listeners: Vec<Listener>,
    controllers: Vec<ListenAddress>,
    book: Book,
}

impl Service {
    /// Listens wherever `config` says.
    pub fn bind(config: &Openflow) -> Result<Self, ListenError> {
        let bind = |address: &ListenAddress| Listener::bind(address, "openflow");
        let listeners = config.listen.iter().map(bind).collect::<Result<_, _>>()?;
        Ok(Self { listeners, controllers: config.controllers.clone(), book: Book::new(config.datapath_id) })
    }

    /// The TCP addresses that it listens on, with the ports that the system chose for port 0.
    pub fn tcp_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.listeners.iter().filter_map(Listener::tcp_address)
    }

    /// The flows, for others to look at.
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
