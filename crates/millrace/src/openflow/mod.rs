//! The OpenFlow 1.3 channel: controllers set the aggregation table over it, and read ports and what they have counted.
//!
//! The protocol is the `openflow` crate's; here are sockets, clocks, and the way to the switch. Table 0, which would
//! forward, has no room for flows: a controller that sets one is told that the table is full.

mod ports;

use crate::config::{ListenAddress, Openflow};
use crate::serve::{Connection, ListenError, Listener, Stop, serve};
use engine::stats::{AggregationFlow, Snapshot};
use openflow::{ConnectionId, Identity, Millis, ServiceChain, Switch};
use ports::Ports;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Controllers at a time, on each socket.
const CONTROLLERS: usize = 8;

/// Flows that the aggregation table has room for.
const CHAINS: usize = 65_536;

/// How often notices are looked for, and flows whose time is over.
const TICK: Duration = Duration::from_millis(200);

/// Silence after which a controller is asked for a sign of life, and after which it is taken to be gone.
const ASK_AFTER: Duration = Duration::from_secs(15);
/// See above.
const GONE_AFTER: Duration = Duration::from_secs(60);

/// Time that a controller has to read an answer.
const WRITE: Duration = Duration::from_secs(5);

/// The switch, as controllers act on it. Called from several threads, one at a time.
pub trait Datapath: Send + Sync {
    /// All that is counted, now.
    fn snapshot(&self) -> Snapshot;
    /// Lays these flows over those of the configuration, in place of all that were laid before. NFI 0 stands for no
    /// next hop.
    fn lay_flows(&self, flows: Vec<AggregationFlow>);
}

/// Channels that listen.
pub struct Service {
    listeners: Vec<Listener>,
    datapath_id: u64,
}

impl Service {
    /// Listens wherever `config` says.
    pub fn bind(config: &Openflow) -> Result<Self, ListenError> {
        let bind = |address: &ListenAddress| Listener::bind(address, "openflow");
        let listeners = config.listen.iter().map(bind).collect::<Result<_, _>>()?;
        Ok(Self { listeners, datapath_id: config.datapath_id })
    }

    /// The TCP addresses that it listens on, with the ports that the system chose for port 0.
    pub fn tcp_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.listeners.iter().filter_map(Listener::tcp_address)
    }

    /// Serves controllers until `stop`.
    pub fn serve(self, datapath: &dyn Datapath, stop: &Stop) {
        let agent = Agent::new(self.datapath_id, datapath);
        std::thread::scope(|scope| {
            for listener in &self.listeners {
                let agent = &agent;
                scope.spawn(move || {
                    serve("openflow", listener, CONTROLLERS, stop, |connection| agent.converse(&connection), drop);
                });
            }
            while !stop.sleep(TICK) {
                agent.act(|_, _| {});
            }
        });
    }
}

/// What all channels share.
struct Agent<'d> {
    datapath: &'d dyn Datapath,
    started: Instant,
    state: Mutex<State>,
}

struct State {
    switch: Switch,
    ports: Ports,
    /// Version of the aggregation table that the data path has.
    laid: u64,
}

impl<'d> Agent<'d> {
    fn new(datapath_id: u64, datapath: &'d dyn Datapath) -> Self {
        let identity = Identity {
            datapath_id,
            manufacturer: "Millrace".to_owned(),
            hardware: "none".to_owned(),
            software: env!("CARGO_PKG_VERSION").to_owned(),
            serial: "none".to_owned(),
            datapath: "aggregation table only".to_owned(),
        };
        let switch = Switch::new(identity, 0, CHAINS);
        let laid = switch.aggregation().version();
        let state = Mutex::new(State { switch, ports: Ports::default(), laid });
        Self { datapath, started: Instant::now(), state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the switch as it is now, and lets the data path have what that changed.
    fn act<R>(&self, act: impl FnOnce(&mut Switch, Millis) -> R) -> R {
        let now = self.started.elapsed().as_millis() as Millis;
        let snapshot = self.datapath.snapshot();
        let mut guard = self.state();
        let State { switch, ports, laid } = &mut *guard;
        ports.update(switch, &snapshot, now);
        switch.expire(now);
        let done = act(switch, now);
        let version = switch.aggregation().version();
        if *laid != version {
            *laid = version;
            let by_vni = snapshot.aggregation.is_some_and(|stats| stats.service_chain_id == "vni");
            self.datapath.lay_flows(flows(switch.next_hops(), by_vni));
        }
        while let Some(event) = switch.event() {
            tracing::debug!(?event, "a controller's packet is dropped: this switch sends none");
        }
        done
    }

    /// Serves one controller until it goes, or does what it must not.
    fn converse(&self, connection: &Connection) {
        let id = self.act(|switch, _| switch.connect());
        self.talk(connection, id);
        self.act(|switch, _| switch.disconnect(id));
    }

    fn talk(&self, connection: &Connection, id: ConnectionId) {
        let mut buffer = vec![0; 64 << 10];
        let mut open = true;
        let (mut heard, mut asked) = (Instant::now(), false);
        loop {
            let output = self.state().switch.output(id).map(std::mem::take).unwrap_or_default();
            if connection.write_all(&output, Instant::now() + WRITE).is_err() || !open {
                return;
            }
            match connection.read(&mut buffer, Instant::now() + TICK) {
                Ok(0) => return,
                Ok(len) => {
                    (heard, asked) = (Instant::now(), false);
                    if let Err(reason) = self.act(|switch, now| switch.receive(id, &buffer[..len], now)) {
                        tracing::warn!(%reason, "a controller is disconnected");
                        open = false;
                    }
                }
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    if heard.elapsed() > GONE_AFTER {
                        return;
                    }
                    if !asked && heard.elapsed() > ASK_AFTER {
                        self.state().switch.ping(id);
                        asked = true;
                    }
                }
                Err(_) => return,
            }
        }
    }
}

/// Flows of the kind that the switch looks up; those of the other kind have no effect.
fn flows(next_hops: BTreeMap<ServiceChain, u16>, by_vni: bool) -> Vec<AggregationFlow> {
    let flow = |(chain, nfi)| match chain {
        ServiceChain::Vid(vid) if !by_vni => Some(AggregationFlow { sc: vid.into(), nfi }),
        ServiceChain::Vni(vni) if by_vni => Some(AggregationFlow { sc: vni, nfi }),
        _ => None,
    };
    next_hops.into_iter().filter_map(flow).collect()
}

#[cfg(test)]
mod tests;
