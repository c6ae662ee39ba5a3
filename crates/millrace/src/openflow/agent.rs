//! State shared by all channels: the protocol state machine and its exchange with the data path.

use super::complaints::Complaints;
use super::ports::Ports;
use crate::serve::Stop;
use api::flow::Flow;
use engine::stats::{AggregationFlow, Snapshot};
use openflow::aggregation::relayed;
use openflow::{ConnectionId, Event, FlowTable, Identity, Millis, ServiceChain, Switch, WantedPackets};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Capacity of each table that forwards, in flows.
const FLOWS: usize = 65_536;

/// Capacity of the aggregation table, in flows.
const CHAINS: usize = 65_536;

/// Interval for looks at the data path while no controller asks for anything.
pub(super) const TICK: Duration = Duration::from_millis(200);

/// Least interval between two looks at the data path, and the least share of time between them: a look takes time in proportion to
/// the number of flows, and a change of one flow must not.
const LOOK: (Duration, u32) = (Duration::from_millis(5), 20);

/// The state machine, and how much of its state the data path has.
struct AgentState {
    switch: Switch,
    ports: Ports,
    /// Versions of the tables that the data path has: those that forward (`set`) and the aggregation table (`laid`).
    set: u64,
    laid: u64,
    /// The reasons for which controllers want packets, as the data path knows them.
    wanted: WantedPackets,
    /// Time from which on a look at the data path is due.
    due: Instant,
    /// Whether a bridge has `openflow`.
    forwards: bool,
    /// An eventfd for each channel, to wake the thread that waits for its controller.
    notifiers: BTreeMap<ConnectionId, Arc<OwnedFd>>,
}

/// The OpenFlow switch that all channels share. Others read its flows; clones have the same ones.
#[derive(Clone)]
pub struct SharedSwitch {
    started: Instant,
    state: Arc<Mutex<AgentState>>,
}

impl SharedSwitch {
    pub(super) fn new(datapath_id: u64) -> Self {
        let identity = Identity {
            datapath_id,
            manufacturer: "Millrace".to_owned(),
            hardware: "none".to_owned(),
            software: env!("CARGO_PKG_VERSION").to_owned(),
            serial: "none".to_owned(),
            datapath: "none".to_owned(),
        };
        let (switch, started) = (Switch::new(identity, 0, CHAINS), Instant::now());
        let (set, laid) = (switch.tables().version(), switch.tables().aggregation().version());
        let state = AgentState {
            switch,
            ports: Ports::default(),
            set,
            laid,
            wanted: WantedPackets::default(),
            due: started,
            forwards: false,
            notifiers: BTreeMap::new(),
        };
        Self { started, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, AgentState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Millis {
        self.started.elapsed().as_millis() as Millis
    }

    /// Returns all flows, those of the highest priority first in each table.
    pub fn flows(&self) -> Vec<Flow> {
        let (mut guard, now) = (self.state(), self.now());
        guard.switch.tables_mut().look(now);
        let show = |table: &FlowTable| -> Vec<Flow> {
            let mut flows: Vec<_> = table.flows().map(|flow| shown(table.number(), flow, now)).collect();
            flows.sort_by_key(|flow| std::cmp::Reverse(flow.priority));
            flows
        };
        guard.switch.tables().all().iter().flat_map(show).collect()
    }
}

/// State shared by all channels, with the data path.
pub(super) struct Agent<'d> {
    shared: SharedSwitch,
    datapath: &'d engine::Switch,
    pub(super) complaints: Complaints,
}

impl<'d> Agent<'d> {
    pub(super) fn new(shared: SharedSwitch, datapath: &'d engine::Switch) -> Self {
        shared.state().switch.tables_mut().count_in(datapath.flow_counters());
        Self { shared, datapath, complaints: Complaints::new() }
    }

    /// Runs `act` on the state machine, after a look at the data path if one is due, and passes the resulting changes to the data
    /// path.
    pub(super) fn act<R>(&self, act: impl FnOnce(&mut Switch, Millis) -> R) -> R {
        let is_due = Instant::now() >= self.shared.state().due;
        let snapshot = is_due.then(|| self.datapath.snapshot());
        let mut guard = self.shared.state();
        let now = self.shared.now();
        if let Some(snapshot) = &snapshot {
            guard.look(self.datapath, snapshot, now);
        }
        let AgentState { switch, set, laid, wanted, forwards, .. } = &mut *guard;
        let done = act(switch, now);
        let tables = switch.tables();
        if *set != tables.version() {
            *set = tables.version();
            self.datapath.set_flows(tables.rules().clone());
        }
        if *laid != tables.aggregation().version() {
            *laid = tables.aggregation().version();
            let aggregation = snapshot.unwrap_or_else(|| self.datapath.snapshot()).aggregation;
            let by_vni = aggregation.is_some_and(|stats| stats.service_chain_id == "vni");
            self.datapath.lay_aggregation_flows(chains(switch.next_hops(), by_vni));
        }
        if *wanted != switch.wanted_packets() {
            *wanted = switch.wanted_packets();
            self.datapath.want_packets(*wanted);
        }
        while let Some(event) = switch.event() {
            match event {
                Event::PacketOut { in_port, actions, data } if *forwards => {
                    self.datapath.packet_out(in_port, &actions, &data);
                }
                Event::PacketOut { in_port, .. } => {
                    tracing::debug!(in_port, "a controller's packet is dropped: no bridge has `openflow`");
                }
                Event::PortConfig { number, config } => self.datapath.configure_port(number, config),
            }
        }
        guard.ring();
        done
    }

    /// Handles timeouts, ports and packets for controllers until `stop`.
    pub(super) fn watch(&self, stop: &Stop) {
        let mut next = Instant::now();
        loop {
            if Instant::now() >= next {
                next = Instant::now() + TICK;
                self.act(|_, _| {});
            }
            let left = Timespec::try_from(next.saturating_duration_since(Instant::now())).ok();
            let notifier = self.datapath.notifier();
            let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::from_borrowed_fd(notifier, PollFlags::IN)];
            let _ = poll(&mut fds, left.as_ref());
            if !fds[0].revents().is_empty() {
                return;
            }
            if !fds[1].revents().is_empty() {
                self.datapath.answer();
                self.show_packets();
                self.take_relayed();
            }
        }
    }

    fn show_packets(&self) {
        let mut guard = self.shared.state();
        self.datapath.packet_ins(|packet| guard.switch.packet_in(packet));
        guard.ring();
    }

    /// Handles relayed flows. Their senders get no answer: there is no way back.
    fn take_relayed(&self) {
        let mut frames = Vec::new();
        self.datapath.relayed_flows(|frame| frames.push(frame.to_vec()));
        if frames.is_empty() {
            return;
        }
        self.act(|switch, now| {
            for frame in &frames {
                match relayed(frame).map(|message| switch.apply_relayed(message, now)) {
                    Some(Ok(())) => {}
                    Some(Err(error)) => tracing::debug!(%error, "a relayed flow is refused"),
                    None => tracing::debug!("a frame that should relay a flow holds none"),
                }
            }
        });
    }

    /// Opens a channel; the eventfd signals that there is output for its controller.
    pub(super) fn connect(&self) -> rustix::io::Result<(ConnectionId, Arc<OwnedFd>)> {
        let notifier = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        // It is to see the present state at once.
        self.shared.state().due = Instant::now();
        let id = self.act(|switch, _| switch.connect());
        self.shared.state().notifiers.insert(id, notifier.clone());
        Ok((id, notifier))
    }

    /// Closes a channel; reports whether the two sides had agreed on a version.
    pub(super) fn disconnect(&self, id: ConnectionId) -> bool {
        self.shared.state().notifiers.remove(&id);
        self.act(|switch, _| {
            let was_ready = switch.is_ready(id);
            switch.disconnect(id);
            was_ready
        })
    }

    /// Takes the output for a controller; reports whether more will follow once it has read that.
    pub(super) fn output(&self, id: ConnectionId) -> (Vec<u8>, bool) {
        let switch = &mut self.shared.state().switch;
        let output = switch.output(id).map(std::mem::take).unwrap_or_default();
        (output, switch.is_busy(id))
    }

    /// Reports whether a controller has agreed on a version.
    pub(super) fn is_ready(&self, id: ConnectionId) -> bool {
        self.shared.state().switch.is_ready(id)
    }

    /// Pings a controller.
    pub(super) fn ping(&self, id: ConnectionId) {
        self.shared.state().switch.ping(id);
    }
}

impl AgentState {
    /// Takes over ports and counters of the data path, and ends flows whose time is over.
    fn look(&mut self, datapath: &engine::Switch, snapshot: &Snapshot, now: Millis) {
        let began = Instant::now();
        let AgentState { switch, ports, .. } = self;
        ports.update(switch, snapshot, now);
        self.forwards = snapshot.datapath.is_some();
        let tables = switch.tables_mut();
        for (table, missed) in tables.forwarding_mut().iter_mut().zip(datapath.missed()) {
            table.set_limit(if self.forwards { FLOWS } else { 0 });
            table.set_missed(missed);
        }
        let hops = snapshot.aggregation.as_ref().map(|stats| stats.next_hops.iter().map(|hop| hop.nfi).collect());
        tables.set_next_hops(hops);
        tables.look(now);
        switch.expire(now);
        let ended = Instant::now();
        let (least, times) = LOOK;
        self.due = ended + least.max(times * (ended - began));
    }

    /// Wakes the threads of all channels that have output.
    fn ring(&mut self) {
        for (id, notifier) in &self.notifiers {
            if self.switch.has_output(*id) {
                let _ = rustix::io::write(notifier, &1u64.to_ne_bytes());
            }
        }
    }
}

/// Returns the flows of the kind that the switch looks up; those of the other kind have no effect.
fn chains(next_hops: BTreeMap<ServiceChain, u16>, by_vni: bool) -> Vec<AggregationFlow> {
    let flow = |(chain, nfi)| match chain {
        ServiceChain::Vid(vid) if !by_vni => Some(AggregationFlow { sc: vid.into(), nfi }),
        ServiceChain::Vni(vni) if by_vni => Some(AggregationFlow { sc: vni, nfi }),
        _ => None,
    };
    next_hops.into_iter().filter_map(flow).collect()
}

/// Describes a flow of a table at time `now`.
fn shown(table: u8, flow: &openflow::Flow, now: Millis) -> Flow {
    Flow {
        table,
        priority: flow.priority,
        matches: flow.matches.to_string(),
        actions: flow.instructions.to_string(),
        cookie: flow.cookie,
        packets: flow.packets,
        bytes: flow.bytes,
        age_seconds: now.saturating_sub(flow.created) as f64 / 1000.0,
        idle_timeout: flow.idle_timeout,
        hard_timeout: flow.hard_timeout,
    }
}
