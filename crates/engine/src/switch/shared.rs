//! State that the parts of one port share: its counters, its state, and the setup of its stages.

use super::mapping::Ends;
use super::state::{PortState, Told};
use crate::answers::Answers;
use crate::counters::QueueCounters;
use crate::drops::PortDrops;
use crate::events::Events;
use crate::live::Live;
use crate::port::files::FileUses;
use crate::port::record::Recorder;
use crate::port::{Exchange, ExchangeMember, SessionFault};
use crate::queue_id::QueueId;
use crate::spec::{MOST_SHARING, PortSpec};
use crate::stage::aggregate::{Member, PortTraffic, REFUSALS, Relay};
use crate::stage::order;
use crate::stage::setup::Setup;
use crate::stats::{InterfaceStats, OffloadStats, QueueStats};
use handover::EventNotifier;
use paflow::AggregationRules;
use paflow::vxlan::TunnelEnd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Parts of the switch that all its ports use.
pub(super) struct CommonParts<'s> {
    /// Rules of the ports that aggregate.
    pub(super) rules: &'s Arc<Live<AggregationRules>>,
    /// Signalled when other switches have relayed flows.
    pub(super) relayed: &'s Arc<EventNotifier>,
    /// Signalled when neighbours have asked for the switch's addresses.
    pub(super) asked: &'s Arc<EventNotifier>,
    /// Groups of ports whose functions exchange buffers.
    pub(super) exchanges: &'s [Arc<Exchange>],
    /// The files that the switch uses.
    pub(super) files: &'s Arc<FileUses>,
    /// The log of events.
    pub(super) events: &'s Arc<Events>,
}

/// Counters of the lanes of one queue, apart from the queue: few queues ever have lanes.
type Lanes = Box<[Arc<QueueCounters>; MOST_SHARING]>;

/// Shared state of one port.
pub(super) struct PortShared {
    /// Unique while the switch runs.
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) queues: Vec<Arc<QueueCounters>>,
    /// By queue: counters of what each of its lanes has received, as many as there can be, once it was shared.
    lanes: Vec<Arc<OnceLock<Lanes>>>,
    pub(super) drops: Arc<PortDrops>,
    pub(super) fault: Arc<SessionFault>,
    state: Mutex<(PortState, Told)>,
    /// Ends the present session of a port that serves guests.
    disconnect: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
    #[cfg(feature = "analysis")]
    analysis: crate::port::Analysis,
    /// The files that the switch uses.
    files: Arc<FileUses>,
    /// Files that frames of the port are recorded to.
    recordings: Mutex<Recordings>,
    /// Ends of mappings that its queues are.
    ends: Ends,
    /// Its place in the group whose functions exchange buffers.
    exchange: Option<ExchangeMember>,
    /// Setup of its stages when it opens. The fabric adds to its own copy what changes while the port is open.
    stages: Arc<Setup>,
}

/// Recordings of a port's frames.
#[derive(Default)]
struct Recordings {
    /// Of frames that are sent to the port, if it is a recording port.
    own: Option<Recorder>,
    /// Of all of its frames.
    all: Option<Recorder>,
}

impl PortShared {
    /// Returns the state of a port that is opened; its counters go on from those of `had`, if it is opened again.
    pub(super) fn new(
        id: u64,
        spec: &PortSpec,
        ends: Ends,
        parts: &CommonParts<'_>,
        had: Option<&PortShared>,
    ) -> PortShared {
        let queues = spec.driver.queues();
        let shared = if spec.driver.capabilities().shares { queues } else { 0 };
        let parts_of_queues = queues + shared * MOST_SHARING;
        // Counters of the port as a whole are by queue, too.
        let alike = had.filter(|had| had.queues.len() == queues && had.lanes.len() == shared);
        let anew = || Arc::new(Answers::new(parts_of_queues, crate::neighbour::RING, parts.asked.clone()));
        let neighbours = alike.map_or_else(anew, |had| had.stages.neighbours.clone());
        let traffic = alike.and_then(|had| Some(had.member()?.traffic.clone()));
        let member = spec.aggregate.then(|| Member {
            port: spec.name.as_str().into(),
            rules: parts.rules.clone(),
            traffic: traffic.unwrap_or_else(|| Arc::new(PortTraffic::new(parts_of_queues))),
            relay: Arc::new(Relay::new(parts_of_queues, parts.relayed.clone())),
            neighbours: neighbours.clone(),
            refusals: Arc::new(Answers::new(parts_of_queues, REFUSALS, parts.asked.clone())),
        });
        let drops = had.map_or_else(order::drops, |had| had.drops.clone());
        // Of queues whose number the guest chooses, only those are reported that ever were up.
        let reported =
            if spec.driver.is_asked() { had.map_or(1, |had| had.reported().clamp(1, queues)) } else { queues };
        let counters = kept(had.map(|had| &had.queues[..]), queues);
        let stages = Setup {
            queues,
            counters: counters.clone(),
            drops: drops.clone(),
            reported: Arc::new(AtomicUsize::new(reported)),
            staged: spec.staged,
            faults: spec.fault.clone(),
            recorder: None,
            mirrors: Vec::new(),
            tunnel: spec.vxlan.clone().map(Arc::new),
            member,
            neighbours,
        };
        PortShared {
            id,
            name: spec.name.clone(),
            queues: counters,
            lanes: kept(had.map(|had| &had.lanes[..]), shared),
            drops,
            fault: Arc::default(),
            state: Mutex::new((PortState::default(), Told::new(parts.events.clone()))),
            disconnect: Mutex::default(),
            #[cfg(feature = "analysis")]
            analysis: spec.analysis,
            files: parts.files.clone(),
            recordings: Mutex::default(),
            ends,
            exchange: parts.exchanges.iter().find_map(|exchange| exchange.place(&spec.name)),
            stages: Arc::new(stages),
        }
    }

    /// Returns the settings for measurements.
    #[cfg(feature = "analysis")]
    pub(super) fn analysis(&self) -> crate::port::Analysis {
        self.analysis
    }

    /// Returns its place in the group whose functions exchange buffers, if it is in one.
    pub(super) fn exchange(&self) -> Option<&ExchangeMember> {
        self.exchange.as_ref()
    }

    /// Returns the identity of a queue of the port.
    pub(super) fn queue(&self, queue: usize) -> QueueId {
        QueueId::new(self.id, queue)
    }

    /// Returns the counters of what a queue of the port, or a lane of one, has received.
    pub(super) fn counters(&self, QueueId { queue, lane, .. }: QueueId) -> &Arc<QueueCounters> {
        lane.map_or(&self.queues[queue], |lane| &self.lanes[queue].get_or_init(Lanes::default)[lane])
    }

    /// Returns the counters of a queue, with those of its lanes.
    pub(super) fn queue_stats(&self, queue: usize) -> QueueStats {
        let lanes = self.lanes.get(queue).and_then(|lanes| lanes.get());
        let mut sum = self.queues[queue].stats();
        for lane in lanes.into_iter().flat_map(|lanes| lanes.iter()).map(|lane| lane.stats()) {
            sum.rx_packets += lane.rx_packets;
            sum.rx_bytes += lane.rx_bytes;
            sum.rx_offloaded += lane.rx_offloaded;
            sum.bursts.iter_mut().zip(lane.bursts).for_each(|(sum, bursts)| *sum += bursts);
        }
        sum
    }

    /// Returns the ends of mappings that its queues are.
    pub(super) fn ends(&self) -> &Ends {
        &self.ends
    }

    /// Returns the state for aggregation, if the port aggregates.
    pub(super) fn member(&self) -> Option<&Member> {
        self.stages.member.as_ref()
    }

    /// Returns the tunnel that ends here, if there is one.
    pub(super) fn tunnel(&self) -> Option<&Arc<TunnelEnd>> {
        self.stages.tunnel.as_ref()
    }

    /// Returns how many requests for the switch's addresses were answered here.
    pub(super) fn neighbours_answered(&self) -> u64 {
        self.stages.neighbours.count()
    }

    /// Takes the answers to requests for the switch's addresses here, by the queue or lane that received the requests.
    pub(super) fn neighbours(&self) -> impl Iterator<Item = (QueueId, Vec<Vec<u8>>)> {
        self.stages.neighbours.drain().map(|(index, answers)| (self.stages.at(self.id, index), answers))
    }

    /// Takes the answers to packets that are too long for their next hop behind this port.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (QueueId, Vec<Vec<u8>>)> {
        let answers = self.member().into_iter().flat_map(|member| member.refusals.drain());
        answers.map(|(index, answers)| (self.stages.at(self.id, index), answers))
    }

    /// Returns the setup of the port's stages when it opens.
    pub(super) fn stages(&self) -> &Arc<Setup> {
        &self.stages
    }

    pub(super) fn state(&self) -> PortState {
        self.state.lock().unwrap().0.clone()
    }

    /// Changes the state, and tells followers of the events.
    fn change<R>(&self, change: impl FnOnce(&mut PortState) -> R) -> R {
        let (state, told) = &mut *self.state.lock().unwrap();
        let done = change(state);
        told.tell(&self.name, state);
        done
    }

    /// Tells followers of the events what was held back, as the port changes all the time.
    pub(super) fn renew_told(&self) {
        let (state, told) = &mut *self.state.lock().unwrap();
        told.renew(&self.name, state);
    }

    pub(super) fn set_state(&self, up: bool, detail: impl Into<String>) {
        self.change(|state| (state.up, state.detail) = (up, detail.into()));
    }

    /// Sets whether a guest is connected, or the reason for which it has left.
    pub(super) fn set_guest(&self, guest: Result<(), String>) {
        self.change(|state| {
            state.guest = guest.is_ok();
            state.guest_left = guest.err().unwrap_or_default();
        });
    }

    /// Sets the state of a port that is not open, for this reason.
    pub(super) fn set_closed(&self, why: impl Into<String>) {
        self.set_open(false);
        self.set_state(false, why);
    }

    pub(super) fn set_open(&self, open: bool) {
        self.change(|state| state.open = open);
    }

    /// Sets what the port misses; reports whether that is news.
    pub(super) fn set_missing(&self, missing: Option<String>) -> bool {
        self.change(|state| std::mem::replace(&mut state.missing, missing.clone()) != missing)
    }

    pub(super) fn set_interface(&self, interface: InterfaceStats) {
        self.change(|state| state.interface = Some(interface));
    }

    pub(super) fn set_offloads(&self, offloads: OffloadStats) {
        self.change(|state| state.offloads = Some(offloads));
    }

    /// Reports whether faults are injected into frames from the port.
    pub(super) fn injects_faults(&self) -> bool {
        self.stages.faults.is_some()
    }

    /// Returns the files that the switch uses.
    pub(super) fn files(&self) -> &Arc<FileUses> {
        &self.files
    }

    /// Sets the file that frames to the port go into, if it is a recording port.
    pub(super) fn write_to(&self, file: Recorder) {
        self.recordings.lock().unwrap().own = Some(file);
    }

    /// Sets the file that all frames of the port are recorded to, if they are.
    pub(super) fn record_to(&self, file: Option<Recorder>) {
        self.recordings.lock().unwrap().all = file;
    }

    /// Returns the file that all frames of the port are recorded to, if they are.
    pub(super) fn recorder(&self) -> Option<Recorder> {
        self.recordings.lock().unwrap().all.clone()
    }

    /// Returns all recordings of the port's frames.
    pub(super) fn recordings(&self) -> Vec<Recorder> {
        let recordings = self.recordings.lock().unwrap();
        recordings.own.iter().chain(&recordings.all).cloned().collect()
    }

    /// Sets the function that ends the present session.
    pub(super) fn set_disconnect(&self, disconnect: Box<dyn Fn() + Send + Sync>) {
        *self.disconnect.lock().unwrap() = Some(disconnect);
    }

    /// Ends the present session, if the port serves guests.
    pub(super) fn disconnect(&self) {
        self.disconnect.lock().unwrap().iter().for_each(|disconnect| disconnect());
    }

    /// Returns how many of the queues to report.
    pub(super) fn reported(&self) -> usize {
        self.stages.reported.load(Ordering::Relaxed)
    }
}

/// Returns counters of this many queues: those that the queues `had`, and new ones.
fn kept<C: Default>(had: Option<&[Arc<C>]>, count: usize) -> Vec<Arc<C>> {
    let had = had.unwrap_or_default();
    (0..count).map(|index| had.get(index).cloned().unwrap_or_default()).collect()
}
