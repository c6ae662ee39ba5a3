//! Tests of layouts.

use super::*;
use crate::events::Events;
use crate::live::Live;
use crate::port::{MAX_QUEUES, tap, vhost_user, virtio_user};
use crate::spec::{Driver, MappingSpec, Mode, Order, PortQueues, PortSpec, QueueSizes, StaticRoles};
use crate::switch::mapping::Ends;
use crate::switch::shared::CommonParts;
use handover::EventNotifier;
use paflow::AggregationRules;
use std::time::Duration;

/// Lays out `spec`, which has no bridges.
fn layout(spec: &Spec) -> Layout {
    let rules = Arc::new(Live::new(AggregationRules::none()));
    let notifier = Arc::new(EventNotifier::new().unwrap());
    let parts = CommonParts {
        rules: &rules,
        relayed: &notifier,
        asked: &notifier,
        exchanges: &[],
        files: &Arc::default(),
        events: &Arc::new(Events::new()),
    };
    let shared = |(id, port)| Arc::new(PortShared::new(id, port, Ends::None, &parts, None));
    Layout::new(spec, (1..).zip(&spec.ports).map(shared).collect(), vec![], assignment(spec, None))
}

/// Returns a queue of the port with this index.
fn at(port: u64, queue: usize) -> QueueId {
    QueueId::new(port + 1, queue)
}

/// Returns which workers send to a queue: none, one, or several.
fn senders(layout: &Layout, to: QueueId) -> usize {
    match layout.senders(to) {
        Senders::None => 0,
        Senders::One(_) => 1,
        Senders::Several => 2,
    }
}

#[test]
fn queues_are_spread_evenly_around_those_that_are_named() {
    let port = |name| {
        PortSpec::new(name, Driver::Tap(tap::Settings { interface: None, mtu: None, queues: 2, offloads: None }))
    };
    let pinned = WorkerSpec { queues: vec![PortQueues::one("b", 1)], ..WorkerSpec::default() };
    let spec = Spec {
        ports: vec![port("a"), port("b")],
        patches: vec![["a".into(), "b".into()]],
        workers: vec![pinned, WorkerSpec::default()],
        ..Spec::default()
    };
    let layout = layout(&spec);
    assert_eq!(layout.poller(at(1, 1)), Some(0));
    assert_eq!(layout.polled_by(0).count(), 2);
    assert_eq!(layout.polled_by(1).count(), 2);
    assert_eq!(senders(&layout, at(0, 1)), 2);
}

/// Two queues of a NIC are patched with two guests, the second with one queue of its guest.
#[test]
fn queues_of_a_port_are_patched_with_different_ports() {
    let tap = |name: &str| {
        PortSpec::new(name, Driver::Tap(tap::Settings { interface: None, mtu: None, queues: 2, offloads: None }))
    };
    let mapping = |queue, to| MappingSpec {
        from: PortQueues::one("wan", queue),
        to,
        pass_through: true,
        copy_break: None,
        tenancy: crate::spec::Tenancy::TrustAll,
    };
    let worker = |port, queue| WorkerSpec { queues: vec![PortQueues { port, queue }], ..WorkerSpec::default() };
    let spec = Spec {
        ports: vec![tap("wan"), tap("fw"), tap("dpi")],
        mappings: vec![mapping(1, PortQueues::all("fw")), mapping(0, PortQueues::one("dpi", 1))],
        workers: vec![
            worker("wan".into(), None),
            worker("fw".into(), None),
            worker("dpi".into(), Some(0)),
            worker("dpi".into(), Some(1)),
        ],
        ..Spec::default()
    };
    let layout = layout(&spec);
    let to = |queue| match layout.destination(queue) {
        Destination::Port(queues) => queues,
        _ => panic!("it is patched"),
    };
    let from = |port| [0, 1].map(|queue| to(at(port, queue)));
    assert_eq!(from(0), [Queues::one(at(2, 1)), Queues::all(2)]);
    assert_eq!(from(1), [Queues::one(at(0, 1)); 2]);
    // Its first queue is not mapped, and has nowhere else to go.
    assert_eq!(from(2), [Queues::one(at(0, 0)); 2]);
    let senders = |port| [0, 1].map(|queue| senders(&layout, at(port, queue)));
    assert_eq!((senders(0), senders(1), senders(2)), ([2, 1], [1, 1], [0, 1]));
    let lenders = [at(0, 0), at(0, 1), at(1, 0), at(2, 1)].map(|queue| layout.rx_buffers_from(queue));
    assert_eq!(lenders, [Some(at(2, 1)), Some(at(1, 0)), None, None]);
    let senders = [at(0, 0), at(1, 0), at(1, 1), at(2, 1)].map(|queue| layout.tx_in_place_via(queue));
    assert_eq!(senders, [None, Some(at(0, 1)), None, Some(at(0, 0))]);
}

#[test]
fn queues_that_a_guest_decides_on_stay_together() {
    let driver = Driver::VhostUser(vhost_user::Settings::at("g.sock"));
    let pinned = WorkerSpec { queues: vec![PortQueues::one("a", 1)], ..WorkerSpec::default() };
    let ports = ["a", "b"].map(|name| PortSpec::new(name, driver.clone()));
    let workers = vec![WorkerSpec::default(), pinned];
    let spec = Spec { ports: ports.into(), workers, ..Spec::default() };
    let most = usize::from(MAX_QUEUES);
    let [a, b]: [Pollers; 2] = assignment(&spec, None).try_into().unwrap();
    assert_eq!(([0, 1, 2, most - 1].map(|queue| a.of_queue(queue)), a.queues()), ([0, 1, 0, 0], most));
    assert_eq!(b.workers().len(), 1);
}

/// While the workers are the same, ports stay at theirs, and new ones go where there is room.
#[test]
fn ports_that_come_and_go_move_no_others() {
    let ports = |names: &[&str]| {
        names.iter().map(|name| PortSpec::new(*name, Driver::VhostUser(vhost_user::Settings::at(name)))).collect()
    };
    let two = |names: &[&str]| Spec { ports: ports(names), workers: vec![WorkerSpec::default(); 2], ..Spec::default() };
    let worker = |pollers: &Pollers| pollers.of_queue(0);
    let workers = |assignment: &Assignment| assignment.iter().map(worker).collect::<Vec<_>>();
    let before = two(&["a", "b", "c", "d"]);
    let had = assignment(&before, None);
    assert_eq!(workers(&had), [0, 1, 0, 1]);
    let fewer = two(&["b", "c", "d"]);
    let has = assignment(&fewer, Some((&before, &had)));
    assert_eq!((workers(&has), workers(&assignment(&fewer, None))), (vec![1, 0, 1], vec![0, 1, 0]));
    let more = two(&["e", "b", "c", "d", "f"]);
    assert_eq!(workers(&assignment(&more, Some((&fewer, &has)))), [0, 1, 0, 1, 0]);
    let three = Spec { workers: vec![WorkerSpec::default(); 3], ..two(&["b", "c", "d"]) };
    assert_eq!(workers(&assignment(&three, Some((&before, &had)))), [0, 1, 2]);
}

/// A lane sends to a queue of its own, but the lanes of two queues share it.
#[test]
fn lanes_without_order_send_to_the_queue_of_their_number() {
    let spec = |queues| {
        let nic = virtio_user::Settings {
            socket: "nic.sock".into(),
            mode: Mode::Client,
            queues,
            queue_sizes: QueueSizes::from(64),
            packed: false,
            offloads: None,
        };
        let roles = StaticRoles { parent: None, order: Order::None, stalled_after: Duration::from_secs(1) };
        let sharing = Some(SharingSpec { workers: vec![0, 1], way: Sharing::StaticRole(roles) });
        Spec {
            ports: vec![
                PortSpec { sharing, ..PortSpec::new("wan", Driver::VirtioUser(nic)) },
                PortSpec::new("guest", Driver::VhostUser(vhost_user::Settings::at("g.sock"))),
            ],
            patches: vec![["wan".into(), "guest".into()]],
            workers: vec![WorkerSpec::default(), WorkerSpec::default()],
            ..Spec::default()
        }
    };
    let one = layout(&spec(1));
    let output = |lane| OutputKey { to: Queues::all(2), lane };
    assert_eq!(one.senders(at(1, 0)), Senders::One(Sender { worker: 0, output: output(None) }));
    let lane = one.senders(at(1, 1));
    assert_eq!(lane, Senders::Several, "the parent's worker sends everywhere, too");
    let crew = one.crew_wiring(at(0, 0)).unwrap();
    assert_eq!(crew.parent.unwrap().outputs, [output(None)]);
    assert_eq!(crew.lanes[1].outputs, [output(Some(at(0, 0).lane(1)))]);
    // Lanes have outputs only while their queue is up.
    let outputs = |is_up: bool| one.of_worker(1, |_| is_up).outputs.into_keys().collect::<Vec<_>>();
    assert!(!outputs(false).contains(&output(Some(at(0, 0).lane(1)))));
    assert!(outputs(true).contains(&output(Some(at(0, 0).lane(1)))));
    assert_eq!(layout(&spec(2)).senders(at(1, 1)), Senders::Several);
}
