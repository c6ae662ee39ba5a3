//! State that the parts of one port share: counters, state, and the wrappers around its halves.

use super::mapping::Mapping;
use crate::aggregate::{Join, Live, Member, Relay, Split};
use crate::counters::QueueCounters;
use crate::drops::Drops;
use crate::neighbour::Neighbours;
use crate::port::fault::FaultReceive;
use crate::port::record::Recorder;
use crate::port::staged::Staged;
use crate::port::{ReceiveHalf, SessionFault, TransmitHalf};
use crate::punt::Bell;
use crate::spec::{Analysis, Faults, PortSpec};
use crate::tunnel::{Decapsulate, Encapsulate};
use paflow::Rules;
use paflow::vxlan::TunnelEnd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Shared state of one port.
pub(super) struct PortShared {
    /// Unique while the switch runs.
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) queues: Vec<Arc<QueueCounters>>,
    /// Number of queues to report: up to the last one that ever was up, if the guest chooses their number.
    reported: AtomicUsize,
    pub(super) drops: Arc<Drops>,
    pub(super) fault: Arc<SessionFault>,
    state: Mutex<State>,
    /// Ends the present session of a port that serves guests.
    hang_up: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
    faults: Option<Faults>,
    analysis: Analysis,
    /// File that the port writes to, if it is a recording port.
    file: OnceLock<Recorder>,
    mapping: Option<Arc<Mapping>>,
    /// State for aggregation, if the port aggregates.
    member: Option<Member>,
    /// The tunnel that ends here, if there is one.
    tunnel: Option<Arc<TunnelEnd>>,
    /// Answers to requests for the switch's addresses; unused if the port has none.
    neighbours: Arc<Neighbours>,
}

/// Reported state of a port.
#[derive(Clone, Default)]
pub(super) struct State {
    pub(super) up: bool,
    pub(super) detail: String,
}

impl PortShared {
    pub(super) fn new(
        id: u64,
        spec: &PortSpec,
        mapping: Option<Arc<Mapping>>,
        (rules, [relayed, asked]): (&Arc<Live<Rules>>, [&Arc<Bell>; 2]),
    ) -> PortShared {
        let queues = spec.driver.queues();
        let neighbours = Arc::new(Neighbours::new(queues, asked.clone()));
        let member = spec.aggregate.then(|| Member {
            port: spec.name.as_str().into(),
            rules: rules.clone(),
            traffic: (0..queues).map(|_| Default::default()).collect(),
            relay: Arc::new(Relay::new(queues, relayed.clone())),
            neighbours: neighbours.clone(),
        });
        PortShared {
            id,
            name: spec.name.clone(),
            queues: (0..queues).map(|_| Arc::default()).collect(),
            reported: AtomicUsize::new(if spec.driver.is_asked() { 1 } else { queues }),
            drops: Arc::default(),
            fault: Arc::default(),
            state: Mutex::default(),
            hang_up: Mutex::default(),
            faults: spec.fault.clone(),
            analysis: spec.analysis,
            file: OnceLock::new(),
            mapping,
            member,
            tunnel: spec.vxlan.clone().map(Arc::new),
            neighbours,
        }
    }

    /// Returns the settings for analysis.
    pub(super) fn analysis(&self) -> Analysis {
        self.analysis
    }

    /// Returns the mapping that the port is an end of.
    pub(super) fn mapping(&self) -> Option<&Arc<Mapping>> {
        self.mapping.as_ref()
    }

    /// Returns the state for aggregation, if the port aggregates.
    pub(super) fn member(&self) -> Option<&Member> {
        self.member.as_ref()
    }

    /// Returns the tunnel that ends here, if there is one.
    pub(super) fn tunnel(&self) -> Option<&Arc<TunnelEnd>> {
        self.tunnel.as_ref()
    }

    /// Returns the decapsulation for a queue, if a tunnel ends here.
    pub(super) fn decapsulate(&self, queue: usize) -> Option<Decapsulate> {
        self.tunnel.clone().map(|end| Decapsulate::new(end, self.neighbours.clone(), queue))
    }

    /// Returns the answers to requests for the switch's addresses here.
    pub(super) fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    /// Returns the splitting of aggregates for a queue, if the port aggregates.
    pub(super) fn split(&self, queue: usize) -> Option<Split> {
        self.member.clone().map(|member| Split::new(member, queue))
    }

    pub(super) fn state(&self) -> State {
        self.state.lock().unwrap().clone()
    }

    pub(super) fn set_state(&self, up: bool, detail: impl Into<String>) {
        let detail = detail.into();
        *self.state.lock().unwrap() = State { up, detail };
    }

    /// Sets the file that frames to the port go into.
    pub(super) fn write_to(&self, file: Recorder) {
        let _ = self.file.set(file);
    }

    /// Returns the file that frames to the port go into.
    pub(super) fn file(&self) -> Option<&Recorder> {
        self.file.get()
    }

    /// Sets the function that ends the present session.
    pub(super) fn set_hang_up(&self, hang_up: Box<dyn Fn() + Send + Sync>) {
        *self.hang_up.lock().unwrap() = Some(hang_up);
    }

    /// Ends the present session, if the port serves guests.
    pub(super) fn hang_up(&self) {
        self.hang_up.lock().unwrap().iter().for_each(|hang_up| hang_up());
    }

    /// Returns how many of the queues to report.
    pub(super) fn reported(&self) -> usize {
        self.reported.load(Ordering::Relaxed)
    }

    /// Creates the rings of this queue, which is about to be up, perhaps for the first time.
    fn prepare(&self, queue: usize) {
        self.reported.fetch_max(queue + 1, Ordering::Relaxed);
        self.neighbours.prepare(queue);
        self.member.iter().for_each(|member| member.relay.prepare(queue));
    }

    /// Wraps the receive half of this queue as the port requires.
    pub(super) fn wrap_receive(&self, queue: usize, mut half: ReceiveHalf) -> ReceiveHalf {
        self.prepare(queue);
        if self.analysis.staged {
            half = Box::new(Staged::new(half));
        }
        if let Some(faults) = &self.faults {
            half = Box::new(FaultReceive::new(half, faults.clone(), self.drops.clone()));
        }
        half
    }

    /// Wraps the transmit half of this queue as the port requires.
    pub(super) fn wrap_transmit(&self, queue: usize, mut half: TransmitHalf) -> TransmitHalf {
        self.reported.fetch_max(queue + 1, Ordering::Relaxed);
        if let Some(member) = self.member.clone() {
            half = Box::new(Join::new(half, member, queue, self.drops.clone()));
        }
        if let Some(end) = self.tunnel.clone() {
            half = Box::new(Encapsulate::new(half, end));
        }
        half
    }
}
