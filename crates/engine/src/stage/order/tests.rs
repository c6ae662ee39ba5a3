//! Tests of the order of stages.

use super::*;
use crate::aggregate::{Live, Member, Relay};
use crate::neighbour::Neighbours;
use crate::port::frames::to_vec;
use crate::port::record::Recorder;
use crate::port::sink::{Nothing, Sink};
use crate::punt::Bell;
use crate::spec::Faults;
use crate::stage::stopwatch::RECEIVE;
use paflow::Rules;
use paflow::outer::{Addresses, Checksum};
use paflow::vxlan::{Endpoints, TunnelEnd};
use std::sync::Arc;
use virtqueue::{Burst, BurstStorage, Segment};

fn bell() -> Arc<Bell> {
    Arc::new(Bell::new().unwrap())
}

/// Returns a setup that asks for no stage.
fn plain() -> Setup {
    let neighbours = Arc::new(Neighbours::new(1, bell()));
    Setup {
        drops: Arc::default(),
        reported: Arc::default(),
        staged: false,
        faults: None,
        recorder: None,
        tunnel: None,
        member: None,
        neighbours,
    }
}

fn member(setup: &Setup) -> Member {
    Member {
        port: "wan".into(),
        rules: Arc::new(Live::new(Rules::none())),
        traffic: Arc::new([Default::default()]),
        relay: Arc::new(Relay::new(1, bell())),
        neighbours: setup.neighbours.clone(),
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

fn names(stages: impl Iterator<Item = usize>) -> Vec<&'static str> {
    let all: Vec<_> = INGRESS.iter().map(|row| row.name).chain(EGRESS.iter().map(|row| row.name)).collect();
    stages.map(|slot| all[slot - INGRESS_SLOT]).collect()
}

fn ingress_names(ingress: &Ingress) -> Vec<&'static str> {
    names(ingress.stages.as_slice().iter().map(|placed| placed.slot))
}

fn egress_names(egress: &Egress) -> Vec<&'static str> {
    names(egress.stages.as_slice().iter().map(|placed| placed.slot))
}

/// Receives these frames, and returns what is forwarded.
fn receive(ingress: &Ingress, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut storage, watch, mut forwarded) = (Box::<BurstStorage>::default(), Stopwatch::default(), Vec::new());
    let mut burst = storage.start();
    frames.iter().for_each(|frame| burst.push(Segment::from(&frame[..])));
    ingress.process(&mut burst, &watch, &mut |burst: &Burst<'_, '_>| {
        let frames = burst.frames();
        forwarded.extend(frames.as_slice().iter().map(|frame| to_vec(&frames, frame)));
    });
    forwarded
}

#[test]
fn a_queue_has_the_stages_that_its_port_needs_in_their_order() {
    let home = tempfile::tempdir().unwrap();
    let mut setup = plain();
    let (ingress, egress) =
        (Ingress::with_stages(Box::new(Nothing), &setup, 0), Egress::with_stages(Box::new(Sink), &setup, 0));
    assert!(!ingress.has_stages() && egress_names(&egress).is_empty());
    setup.staged = true;
    setup.faults = Some(Faults::default());
    setup.recorder = Some(Recorder::create(&home.path().join("a.pcap")).unwrap());
    setup.tunnel = Some(Arc::new(end(1, 2)));
    setup.member = Some(member(&setup));
    let ingress = Ingress::with_stages(Box::new(Nothing), &setup, 0);
    let all = ["staged", "fault", "record", "decapsulate", "split"];
    assert_eq!(ingress_names(&ingress), all);
    let egress = Egress::with_stages(Box::new(Sink), &setup, 0);
    assert_eq!(egress_names(&egress), ["join", "encapsulate", "record"]);
}

#[test]
fn stages_come_and_go_while_others_stay() {
    let home = tempfile::tempdir().unwrap();
    let faults = Some(Faults { delay: std::time::Duration::from_secs(3600), ..Faults::default() });
    let mut setup = Setup { faults, tunnel: Some(Arc::new(end(1, 2))), ..plain() };
    let mut ingress = Ingress::with_stages(Box::new(Nothing), &setup, 0);
    let mut egress = Egress::with_stages(Box::new(Sink), &setup, 0);
    assert!(receive(&ingress, &[vec![7; 60]]).is_empty(), "the frame is delayed");
    for recorded in [true, false, true] {
        setup.recorder = recorded.then(|| Recorder::create(&home.path().join("a.pcap")).unwrap());
        ingress.refresh(&setup, 0);
        egress.refresh(&setup, 0);
        let [receives, sends]: [&[&str]; 2] = match recorded {
            true => [&["fault", "record", "decapsulate"], &["encapsulate", "record"]],
            false => [&["fault", "decapsulate"], &["encapsulate"]],
        };
        assert_eq!((ingress_names(&ingress).as_slice(), egress_names(&egress).as_slice()), (receives, sends));
    }
    drop(ingress);
    assert_eq!(setup.drops.named(), [("down".to_owned(), 1)].into(), "the stage that delays it stayed");
}

#[test]
fn frames_that_are_recorded_or_changed_do_not_lie_in_a_guests_buffers() {
    let home = tempfile::tempdir().unwrap();
    let needs = |setup: &Setup| {
        let ingress = Ingress::with_stages(Box::new(Nothing), setup, 0);
        let egress = Egress::with_stages(Box::new(Sink), setup, 0);
        let ingress = ingress.stages.iter().any(|stage| stage.needs_private_frames());
        (ingress, egress.stages.iter().any(|stage| stage.needs_private_frames()))
    };
    let recorder = Recorder::create(&home.path().join("a.pcap")).unwrap();
    assert_eq!(needs(&Setup { recorder: Some(recorder), ..plain() }), (true, true));
    assert_eq!(needs(&Setup { staged: true, ..plain() }), (true, false));
    assert_eq!(needs(&Setup { faults: Some(Faults::default()), ..plain() }), (true, false));
    assert_eq!(needs(&Setup { tunnel: Some(Arc::new(end(1, 2))), ..plain() }), (false, false));
}

#[test]
fn cycles_are_told_of_steps_and_of_stages_that_ran() {
    let setup = Setup { tunnel: Some(Arc::new(end(1, 2))), staged: true, ..plain() };
    let ingress = Ingress::with_stages(Box::new(Nothing), &setup, 0);
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
