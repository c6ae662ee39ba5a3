//! Tests of the order of stages, and of the frames that each position sees.

use super::*;
use crate::answers::Answers;
use crate::drops::Drops;
use crate::live::Live;
use crate::port::Sent;
use crate::port::frames::to_vec;
use crate::port::record::Recorder;
use crate::port::sink::Sink;
use crate::queue_id::QueueId;
use crate::spec::{Faults, MirrorDirection, MirrorPoint};
use crate::stage::aggregate::{Member, PortTraffic, Relay};
use crate::stage::complete::tests::segments;
use crate::stage::egress::Outgoing;
use crate::stage::mirror::{MirrorTo, Probe};
use crate::stage::running::Running;
use crate::stage::shared::Shared;
use crate::stage::stopwatch::RECEIVE;
use handover::EventNotifier;
use packet::offload::Offloads;
use packet::{Burst, BurstStorage, Frames, Segment};
use paflow::AggregationRules;
use paflow::outer::{Addresses, Checksum};
use paflow::vxlan::{Endpoints, TunnelEnd};
use std::sync::{Arc, Mutex};

/// Takes at most this many frames of each burst, and remembers them.
struct Link(Taken, usize);

type Taken = Arc<Mutex<Vec<Vec<u8>>>>;

impl TxQueue for Link {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        let some = &frames.as_slice()[..frames.len().min(self.1)];
        self.0.lock().unwrap().extend(some.iter().map(|frame| to_vec(&frames, frame)));
        let bytes = some.iter().map(|frame| u64::from(frame.len())).sum();
        Sent { frames: some.len() as u32, bytes, rest: Some(crate::drops::Reason::NoBuffers), ..Sent::default() }
    }
}

fn notifier() -> Arc<EventNotifier> {
    Arc::new(EventNotifier::new().unwrap())
}

const QUEUE: QueueId = QueueId::new(1, 0);

/// Returns a setup that asks for no stage.
fn plain() -> Setup {
    let neighbours = Arc::new(Answers::new(1, crate::neighbour::RING, notifier()));
    Setup {
        queues: 1,
        counters: vec![Arc::default()],
        drops: drops(),
        reported: Arc::default(),
        staged: false,
        faults: None,
        recorder: None,
        mirrors: Vec::new(),
        tunnel: None,
        member: None,
        neighbours,
    }
}

fn member(setup: &Setup) -> Member {
    Member {
        port: "wan".into(),
        rules: Arc::new(Live::new(AggregationRules::none())),
        traffic: Arc::new(PortTraffic::new(1)),
        relay: Arc::new(Relay::new(1, notifier())),
        neighbours: setup.neighbours.clone(),
        refusals: setup.neighbours.clone(),
    }
}

fn end(from: u8, to: u8) -> TunnelEnd {
    let addresses = Addresses::V4 { source: [192, 0, 2, from].into(), destination: [192, 0, 2, to].into() };
    let (source, destination) = ([2, 0, 0, 0, 0, from], [2, 0, 0, 0, 0, to]);
    let checksum = Checksum::Zero;
    let endpoints = Endpoints {
        source: source.into(),
        destination: destination.into(),
        addresses,
        port: 4789,
        vni: 100,
        hop_limit: 64,
        checksum,
    };
    TunnelEnd::new(&endpoints, 1500).unwrap()
}

/// Returns a port for copies, of which one queue is up if `most` frames of a burst have room there.
fn probe(most: Option<usize>) -> (Arc<Probe>, Taken, Arc<Drops>) {
    let (taken, drops, running) = (Taken::default(), Arc::<Drops>::default(), Arc::<Running>::default());
    let egress = most.map(|most| Egress::new(Box::new(Link(taken.clone(), most))));
    running.set(0, egress.is_some());
    let queues = vec![(Arc::new(Shared::new(egress)), Arc::default())];
    (Arc::new(Probe::new(queues, running, drops.clone())), taken, drops)
}

/// Returns a mirror of both directions at this point.
fn mirror(at: MirrorPoint, to: &Arc<Probe>) -> MirrorTo {
    MirrorTo { direction: MirrorDirection::Both, at, to: to.clone() }
}

fn names_of(stages: impl Iterator<Item = usize>) -> Vec<&'static str> {
    let all: Vec<_> = names().collect();
    stages.map(|slot| all[slot - INGRESS_SLOT]).collect()
}

/// Checks that the stages of a port dropped these frames.
fn assert_dropped(setup: &Setup, wanted: &[(&str, &str, u64)]) {
    let told = setup.drops.named();
    let told: Vec<_> = told.iter().flat_map(|(stage, reasons)| reasons.iter().map(move |of| (stage, of))).collect();
    let told: Vec<_> = told.into_iter().map(|(stage, (reason, frames))| (&**stage, &**reason, *frames)).collect();
    assert_eq!(told, wanted);
}

fn ingress_names(ingress: &IngressStages) -> Vec<&'static str> {
    names_of(ingress.0.as_slice().iter().map(|placed| placed.slot))
}

fn egress_names(egress: &Egress) -> Vec<&'static str> {
    names_of(egress.stages.as_slice().iter().map(|placed| placed.slot))
}

/// Receives these frames, and returns the forwarded ones.
fn receive(ingress: &IngressStages, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut storage, watch, mut forwarded) = (Box::<BurstStorage>::default(), Stopwatch::default(), Vec::new());
    let mut burst = storage.start();
    frames.iter().for_each(|frame| burst.push(Segment::from(&frame[..])));
    ingress.process(&mut burst, &watch, &mut |burst: &Burst<'_, '_>| {
        let frames = burst.frames();
        forwarded.extend(frames.as_slice().iter().map(|frame| to_vec(&frames, frame)));
    });
    forwarded
}

fn send(frames: &[Vec<u8>], send: impl FnOnce(Frames<'_>) -> Sent) -> Sent {
    let mut storage = Box::<BurstStorage>::default();
    let mut burst = storage.start();
    frames.iter().for_each(|frame| burst.push(Segment::from(&frame[..])));
    send(burst.frames())
}

fn take(taken: &Taken) -> Vec<Vec<u8>> {
    std::mem::take(&mut *taken.lock().unwrap())
}

/// Returns a recording whose file is not open.
fn recorder(home: &tempfile::TempDir) -> Recorder {
    Recorder::new("a", &home.path().join("a.pcap"), &Arc::default())
}

#[test]
fn a_queue_has_the_stages_that_its_port_needs_in_their_order() {
    let home = tempfile::tempdir().unwrap();
    let mut setup = plain();
    let (ingress, egress) = (IngressStages::of(&setup, QUEUE), Egress::with_stages(Box::new(Sink), &setup, QUEUE));
    assert!(ingress.is_empty() && egress_names(&egress).is_empty());
    let (probe, ..) = probe(None);
    setup.mirrors = vec![mirror(Wire, &probe), mirror(Forward, &probe)];
    setup.staged = true;
    setup.faults = Some(Faults::default());
    setup.recorder = Some(recorder(&home));
    setup.tunnel = Some(Arc::new(end(1, 2)));
    setup.member = Some(member(&setup));
    let ingress = IngressStages::of(&setup, QUEUE);
    let all = ["staged", "fault", "record", "mirror", "decapsulate", "split", "mirror"];
    assert_eq!(ingress_names(&ingress), all);
    let egress = Egress::with_stages(Box::new(Sink), &setup, QUEUE);
    assert_eq!(egress_names(&egress), ["mirror", "join", "encapsulate", "record", "mirror"]);
}

#[test]
fn stages_come_and_go_while_others_stay() {
    let home = tempfile::tempdir().unwrap();
    let faults = Some(Faults { delay: std::time::Duration::from_secs(3600), ..Faults::default() });
    let mut setup = Setup { faults, tunnel: Some(Arc::new(end(1, 2))), ..plain() };
    let mut ingress = IngressStages::of(&setup, QUEUE);
    let mut egress = Egress::with_stages(Box::new(Sink), &setup, QUEUE);
    assert!(receive(&ingress, &[vec![7; 60]]).is_empty(), "the frame is delayed");
    for recorded in [true, false, true] {
        setup.recorder = recorded.then(|| recorder(&home));
        ingress.refresh(&setup, QUEUE);
        egress.refresh(&setup, QUEUE);
        let [receives, sends]: [&[&str]; 2] = match recorded {
            true => [&["fault", "record", "decapsulate"], &["encapsulate", "record"]],
            false => [&["fault", "decapsulate"], &["encapsulate"]],
        };
        assert_eq!((ingress_names(&ingress).as_slice(), egress_names(&egress).as_slice()), (receives, sends));
    }
    drop(ingress);
    // The stage that delays the frame stayed.
    assert_dropped(&setup, &[("fault", "down", 1)]);
}

#[test]
fn frames_that_are_recorded_or_changed_do_not_lie_in_a_guests_buffers() {
    let home = tempfile::tempdir().unwrap();
    let needs = |setup: &Setup| {
        let ingress = IngressStages::of(setup, QUEUE);
        let egress = Egress::with_stages(Box::new(Sink), setup, QUEUE);
        let ingress = ingress.0.iter().any(|stage| stage.needs_private_frames());
        (ingress, egress.stages.iter().any(|stage| stage.needs_private_frames()))
    };
    let recorder = recorder(&home);
    assert_eq!(needs(&Setup { recorder: Some(recorder), ..plain() }), (true, true));
    assert_eq!(needs(&Setup { staged: true, ..plain() }), (true, false));
    assert_eq!(needs(&Setup { faults: Some(Faults::default()), ..plain() }), (true, false));
    assert_eq!(needs(&Setup { tunnel: Some(Arc::new(end(1, 2))), ..plain() }), (false, false));
    let (probe, ..) = probe(None);
    assert_eq!(needs(&Setup { mirrors: vec![mirror(Wire, &probe)], ..plain() }), (false, false));
}

/// Takes messages, and remembers lengths.
struct Host(Arc<Mutex<Vec<u32>>>);

impl TxQueue for Host {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        self.0.lock().unwrap().extend(frames.as_slice().iter().map(|frame| frame.len()));
        Sent { frames: frames.len() as u32, ..Sent::default() }
    }

    fn takes(&self) -> Offloads {
        Offloads::ALL
    }
}

#[test]
fn segments_are_merged_behind_all_stages() {
    let ((wire, outside, _), (forward, inside, _)) = (probe(Some(32)), probe(Some(32)));
    let setup = Setup { mirrors: vec![mirror(Wire, &wire), mirror(Forward, &forward)], ..plain() };
    let got = Arc::<Mutex<Vec<u32>>>::default();
    let egress = Egress::with_stages(Box::new(Host(got.clone())), &setup, QUEUE);
    let frames = segments(3000, 1000);
    let outcome = send(&frames, |frames| egress.transmit(Outgoing::Frames(frames), false, &Stopwatch::default()));
    assert_eq!((outcome.frames, outcome.passed_on, outcome.completed), (3, 0, 0));
    assert_eq!((take(&outside), take(&inside)), (frames.clone(), frames));
    assert_eq!(std::mem::take(&mut *got.lock().unwrap()), [3054]);
    assert_eq!((setup.counters[0].merged.get(), setup.counters[0].messages.get()), (3, 1));
}

#[test]
fn each_point_sees_frames_as_they_are_there() {
    let ((wire, outside, _), (forward, inside, _)) = (probe(Some(32)), probe(Some(32)));
    let mirrors = vec![mirror(Wire, &wire), mirror(Forward, &forward)];
    let setup = Setup { mirrors, tunnel: Some(Arc::new(end(1, 2))), ..plain() };
    let sent = Taken::default();
    let egress = Egress::with_stages(Box::new(Link(sent.clone(), 32)), &setup, QUEUE);
    let ingress = IngressStages::of(&setup, QUEUE);
    let frames = [vec![1; 60], vec![2; 200]];
    let watch = Stopwatch::default();
    let outcome = send(&frames, |frames| egress.transmit(Outgoing::Frames(frames), false, &watch));
    assert_eq!((outcome.frames, outcome.bytes), (2, 260), "bytes of what is inside");
    let on_wire = take(&sent);
    assert_eq!(on_wire.iter().map(Vec::len).collect::<Vec<_>>(), [110, 250]);
    assert_eq!((take(&outside), take(&inside)), (on_wire, frames.to_vec()));
    // Frames of the switch's own are not encapsulated, and leave by the wire.
    let own = [vec![3; 60]];
    assert_eq!(send(&own, |frames| egress.transmit_bare(frames, &watch)).frames, 1);
    assert_eq!((take(&sent), take(&outside), take(&inside)), (own.to_vec(), own.to_vec(), vec![]));
    // Frames of the tunnel arrive, and others are dropped.
    let other = Egress::with_stages(
        Box::new(Link(sent.clone(), 32)),
        &Setup { tunnel: Some(Arc::new(end(2, 1))), ..plain() },
        QUEUE,
    );
    send(&frames, |frames| other.transmit(Outgoing::Frames(frames), false, &watch));
    let arriving = [take(&sent), vec![vec![4; 60]]].concat();
    assert_eq!(receive(&ingress, &arriving), frames);
    assert_eq!((take(&outside), take(&inside)), (arriving, frames.to_vec()));
    assert_dropped(&setup, &[("decapsulate", "not-tunnel", 1)]);
}

#[test]
fn each_stage_counts_what_it_drops() {
    let faults = Some(Faults { drop: 1.0, ..Faults::default() });
    let setup = Setup { faults, tunnel: Some(Arc::new(end(1, 2))), ..plain() };
    let ingress = IngressStages::of(&setup, QUEUE);
    assert!(receive(&ingress, &[vec![1; 60], vec![2; 60]]).is_empty());
    assert_dropped(&setup, &[("fault", "injected", 2)]);
    let egress = Egress::with_stages(Box::new(Link(Taken::default(), 1)), &setup, QUEUE);
    let frames = [vec![1; 60], vec![2; 1500], vec![3; 60], vec![4; 60]];
    let sent = send(&frames, |frames| egress.transmit(Outgoing::Frames(frames), false, &Stopwatch::default()));
    // The sender to the port counts the frames that its queue did not take.
    sent.count_drops(frames.len(), &setup.drops.queue);
    let wanted = [("encapsulate", "too-long", 1), ("fault", "injected", 2), ("queue", "no-buffers", 2)];
    assert_dropped(&setup, &wanted);
}

#[test]
fn each_stage_is_explained() {
    let page = include_str!("../../../../../docs/troubleshooting.md");
    for name in names().chain(["queue", "forward"]) {
        assert!(page.contains(&format!("| `{name}` |")), "docs/troubleshooting.md does not explain `{name}`");
    }
}

#[test]
fn copies_that_find_no_room_are_dropped_at_their_destination_only() {
    let ((some, taken, full), (none, _, down)) = (probe(Some(1)), probe(None));
    let setup = Setup { mirrors: vec![mirror(Wire, &some), mirror(Wire, &none)], ..plain() };
    let frames = vec![vec![5; 60]; 3];
    let ingress = IngressStages::of(&setup, QUEUE);
    assert_eq!(receive(&ingress, &frames), frames);
    let sent = Taken::default();
    let egress = Egress::with_stages(Box::new(Link(sent.clone(), 32)), &setup, QUEUE);
    let outcome = send(&frames, |frames| egress.transmit(Outgoing::Frames(frames), false, &Stopwatch::default()));
    assert_eq!((outcome.frames, take(&sent).len()), (3, 3));
    assert_eq!(take(&taken).len(), 2, "one of each burst");
    assert_eq!(full.named(), [("no-buffers".to_owned(), 4)].into());
    assert_eq!(down.named(), [("down".to_owned(), 6)].into());
    assert_dropped(&setup, &[]);
}

#[test]
fn cycles_are_reported_for_steps_and_for_stages_that_ran() {
    let setup = Setup { tunnel: Some(Arc::new(end(1, 2))), staged: true, ..plain() };
    let ingress = IngressStages::of(&setup, QUEUE);
    let watch = Stopwatch::default();
    let told = |watch: &Stopwatch| cycles(watch).into_keys().collect::<Vec<_>>();
    assert_eq!(told(&watch), ["forward", "receive", "recycle"]);
    let (mut storage, frame) = (Box::<BurstStorage>::default(), [7; 60]);
    let mut burst = storage.start();
    burst.push(Segment::from(&frame[..]));
    watch.start(RECEIVE, crate::clock::Cycles::new().now());
    ingress.process(&mut burst, &watch, &mut |_| ());
    watch.stop();
    assert_eq!(told(&watch), ["decapsulate", "forward", "receive", "recycle", "staged"]);
}
