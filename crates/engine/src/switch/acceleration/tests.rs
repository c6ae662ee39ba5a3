//! Tests of the choices: each rule, and what stays as it was.

use super::*;
use crate::port::{af_xdp, sink, tap, vhost_user, virtio_user};
use crate::spec::{
    AggregationSpec, BridgeSpec, Chains, Driver, ExchangeMode, ExchangeSpec, FailMode, Faults, Idle, MappingSpec,
    MirrorDirection, MirrorPoint, MirrorSpec, Mode, PortQueues, PortSpec, QueueSizes, Sharing, SharingSpec, Tenancy,
    Vlan, WorkerSpec, XdpMode,
};
use crate::switch::difference::{exchange_name, mapping_name};
use crate::switch::layout::assignment;
use ::vhost_user::backend::Holes;
use packet::MacAddr;
use std::time::Duration;

fn guest(name: &str) -> PortSpec {
    PortSpec::new(name, Driver::VhostUser(vhost_user::Settings::at(name)))
}

fn xdp(name: &str, queues: u16) -> PortSpec {
    let settings =
        af_xdp::Settings { interface: name.into(), queues, mode: XdpMode::Auto, queue_size: 1024, steer: vec![] };
    PortSpec::new(name, Driver::AfXdp(settings))
}

fn virtio(name: &str) -> PortSpec {
    let queue_sizes = QueueSizes::from(256);
    let settings = virtio_user::Settings {
        socket: name.into(),
        mode: Mode::Client,
        queues: 1,
        queue_sizes,
        packed: false,
        offloads: None,
    };
    PortSpec::new(name, Driver::VirtioUser(settings))
}

fn other(name: &str) -> PortSpec {
    PortSpec::new(name, Driver::Tap(tap::Settings { interface: None, mtu: None, queues: 1, offloads: None }))
}

fn of_group(group: &str, port: PortSpec) -> PortSpec {
    PortSpec { group: Some(group.into()), ..port }
}

fn patched(ports: impl Into<Vec<PortSpec>>, patches: &[[&str; 2]]) -> Spec {
    let patches = patches.iter().map(|pair| pair.map(String::from)).collect();
    Spec { ports: ports.into(), patches, ..Spec::default() }
}

fn bridge(ports: &[PortSpec]) -> BridgeSpec {
    BridgeSpec {
        name: "br0".into(),
        ports: ports.iter().map(|port| port.name.clone()).collect(),
        ageing: Duration::from_secs(300),
        learned_limit: 4096,
        forwards_reserved: false,
        statics: vec![],
        flows: None,
    }
}

fn bridged(ports: impl Into<Vec<PortSpec>>) -> Spec {
    let ports = ports.into();
    Spec { bridges: vec![bridge(&ports)], ports, ..Spec::default() }
}

/// Returns the choices in `spec` for a switch that starts: mappings, and exchanges.
fn started(spec: Spec) -> (Vec<String>, Vec<String>) {
    let (spec, chosen) = fresh(spec);
    shown(&spec, &chosen)
}

fn fresh(spec: Spec) -> (Spec, Chosen) {
    let workers = assignment(&spec, None);
    choose(spec, &workers, &Running { spec: &Spec::default(), chosen: &Chosen::default(), up: [].into() })
}

fn shown(spec: &Spec, chosen: &Chosen) -> (Vec<String>, Vec<String>) {
    let mapping = |mapping: &MappingSpec| match mapping.tenancy {
        Tenancy::Held(_) => format!("{} held", mapping_name(mapping)),
        _ => format!("{} {}", mapping_name(mapping), mapping.mode()),
    };
    (chosen.mappings(spec).iter().map(mapping).collect(), chosen.exchanges(spec).iter().map(exchange_name).collect())
}

fn mappings(spec: Spec) -> Vec<String> {
    started(spec).0
}

/// Returns why the first two ports of `spec` are not mapped.
fn refusal(spec: Spec) -> Reason {
    assert_eq!(mappings(spec.clone()), [""; 0]);
    let chosen = fresh(spec.clone()).1;
    let workers = assignment(&spec, None);
    let facts = Facts::of(&spec, &workers, &chosen);
    let [a, b] = [&spec.ports[0], &spec.ports[1]];
    facts.may_map(a, b, facts.joint(&a.name, &b.name).expect("they are joined")).expect_err("it is not allowed")
}

#[test]
fn a_patch_of_a_physical_port_and_a_guest_is_mapped() {
    let wire = ["wan -> fw pass-through"];
    assert_eq!(mappings(patched([xdp("wan", 1), guest("fw")], &[["wan", "fw"]])), wire);
    assert_eq!(mappings(patched([guest("fw"), xdp("wan", 1)], &[["fw", "wan"]])), wire);
}

#[test]
fn a_guest_alone_with_a_physical_port_in_a_bridge_is_mapped() {
    let mapped = ["wan -> fw bridge"];
    assert_eq!(mappings(bridged([xdp("wan", 1), guest("fw")])), mapped);
    let all = Vlan::Trunk(vec![]);
    let trunk = |port| PortSpec { vlan: all.clone(), ..port };
    assert_eq!(mappings(bridged([trunk(xdp("wan", 1)), trunk(guest("fw"))])), mapped);
}

#[test]
fn others_in_the_bridge_keep_it_from_being_mapped() {
    let sink = PortSpec::new("sink", Driver::Sink(sink::Settings));
    for third in [guest("dns"), other("tap"), xdp("lan", 1), sink] {
        let why = refusal(bridged([xdp("wan", 1), guest("fw"), third]));
        assert_eq!(why, Reason::Others { bridge: "br0".into(), physical: "wan".into() });
        assert!(why.remedy().is_some_and(|remedy| remedy.contains("`trust`")));
    }
}

#[test]
fn a_program_gets_a_guests_memory_only_if_it_is_trusted_or_of_the_same_owner() {
    let patch = |wan, fw| patched([wan, fw], &[["wan", "fw"]]);
    let untrusted = Reason::Untrusted { physical: "wan".into(), guest: "fw".into() };
    assert_eq!(refusal(patch(virtio("wan"), guest("fw"))), untrusted);
    assert_eq!(refusal(patch(of_group("a", virtio("wan")), guest("fw"))), untrusted);
    assert_eq!(refusal(patch(of_group("a", virtio("wan")), of_group("b", guest("fw")))), untrusted);
    let wire = ["wan -> fw pass-through"];
    assert_eq!(mappings(patch(of_group("a", virtio("wan")), of_group("a", guest("fw")))), wire);
    assert_eq!(mappings(patch(PortSpec { trusted: true, ..virtio("wan") }, guest("fw"))), wire);
}

#[test]
fn nothing_is_chosen_where_it_is_off() {
    let off = |port| PortSpec { acceleration: Acceleration::Off, ..port };
    let wire = |wan, fw| patched([wan, fw], &[["wan", "fw"]]);
    assert_eq!(refusal(wire(off(xdp("wan", 1)), guest("fw"))), Reason::Off(Some("wan".into())));
    assert_eq!(refusal(wire(xdp("wan", 1), off(guest("fw")))), Reason::Off(Some("fw".into())));
    let spec = Spec { acceleration: Acceleration::Off, ..wire(xdp("wan", 1), guest("fw")) };
    assert_eq!(refusal(spec), Reason::Off(None));
}

#[test]
fn what_the_file_says_is_left_alone() {
    let pinned = MappingSpec {
        from: PortQueues::all("wan"),
        to: PortQueues::all("fw"),
        pass_through: false,
        copy_break: Some(64),
        tenancy: Tenancy::TrustAll,
    };
    let spec = Spec { mappings: vec![pinned], ..bridged([xdp("wan", 1), guest("fw")]) };
    assert_eq!(refusal(spec.clone()), Reason::MappedElsewhere("wan".into()));
    assert_eq!(fresh(spec.clone()).0, spec);
    let pinned = MappingSpec { from: PortQueues::one("lan", 1), ..spec.mappings[0].clone() };
    let ports = [xdp("wan", 1), guest("fw"), xdp("lan", 2)];
    let spec = Spec { mappings: vec![pinned], ..patched(ports, &[["wan", "fw"]]) };
    assert_eq!(refusal(spec), Reason::MappedElsewhere("fw".into()));
}

#[test]
fn nothing_between_the_two_may_have_to_see_or_change_frames() {
    let name = || "fw".to_owned();
    let with = |change: fn(&mut PortSpec)| {
        let mut fw = guest("fw");
        change(&mut fw);
        refusal(patched([xdp("wan", 1), fw], &[["wan", "fw"]]))
    };
    assert_eq!(with(|fw| fw.record = Some("fw.pcap".into())), Reason::Recorded(name()));
    assert_eq!(with(|fw| fw.fault = Some(Faults::default())), Reason::Faults(name()));
    assert_eq!(with(|fw| fw.staged = true), Reason::Faults(name()));
    assert_eq!(with(|fw| fw.aggregate = true), Reason::Aggregates(name()));
    let mirror = MirrorSpec {
        from: vec!["wan".into()],
        to: "monitor".into(),
        direction: MirrorDirection::In,
        at: MirrorPoint::Wire,
    };
    let spec = patched([xdp("wan", 1), guest("fw"), other("monitor")], &[["wan", "fw"]]);
    assert_eq!(refusal(Spec { mirrors: vec![mirror], ..spec }), Reason::Mirrored("wan".into()));
}

/// A guest that can write a frame that relays flows could set next hops, and one that can write a request could have others answered.
#[test]
fn frames_that_the_switch_itself_obeys_are_not_received_into_a_guests_memory() {
    let aggregation = AggregationSpec {
        mtu: 1500,
        chains: Chains::Vlan,
        receiver: paflow::Receiver::default(),
        mac: MacAddr([2, 0, 0, 0, 0, 9]),
        addresses: Vec::new(),
        drop_unknown: false,
        relay: Some(MacAddr([2, 0, 0, 0, 0, 9])),
        next_hops: Vec::new(),
        flows: Vec::new(),
    };
    let wan = PortSpec { aggregate: true, ..xdp("wan", 1) };
    let spec = Spec { aggregation: Some(aggregation), ..patched([wan, guest("fw")], &[["wan", "fw"]]) };
    assert_eq!(refusal(spec), Reason::Aggregates("wan".into()));
}

#[test]
fn bridges_that_keep_frames_from_the_guest_or_obey_controllers_are_not_mapped() {
    let vlan = |vlan, port| PortSpec { vlan, ..port };
    let [all, one] = [Vlan::Trunk(vec![]), Vlan::Access(5)];
    let vlans = Reason::Vlans { bridge: "br0".into(), guest: "fw".into() };
    assert_eq!(refusal(bridged([vlan(all.clone(), xdp("wan", 1)), vlan(one.clone(), guest("fw"))])), vlans);
    assert_eq!(refusal(bridged([vlan(one.clone(), xdp("wan", 1)), vlan(one, guest("fw"))])), vlans);
    assert_eq!(refusal(bridged([vlan(all, xdp("wan", 1)), vlan(Vlan::Trunk(vec![5]), guest("fw"))])), vlans);
    let mut spec = bridged([xdp("wan", 1), guest("fw")]);
    spec.bridges[0].flows = Some(FailMode::Standalone);
    assert_eq!(refusal(spec), Reason::Flows("br0".into()));
}

#[test]
fn a_guest_whose_pages_come_and_go_is_not_mapped() {
    let settings = vhost_user::Settings { holes: Holes::Allow, ..vhost_user::Settings::at("fw") };
    let fw = PortSpec::new("fw", Driver::VhostUser(settings));
    let why = refusal(patched([xdp("wan", 1), fw], &[["wan", "fw"]]));
    assert_eq!(why.to_string(), "\"fw\" has a guest whose pages come and go (holes = \"allow\")");
}

#[test]
fn one_worker_sends_to_a_mapped_guest() {
    let workers = |spec| Spec { workers: vec![WorkerSpec::default(); 2], ..spec };
    // The physical port's worker alone sends along a patch.
    let wire = patched([xdp("wan", 1), guest("fw")], &[["wan", "fw"]]);
    assert_eq!(mappings(workers(wire)), ["wan -> fw pass-through"]);
    let several = Reason::SeveralWorkers { guest: "fw".into(), workers: vec![0, 1] };
    assert_eq!(refusal(workers(bridged([xdp("wan", 1), guest("fw")]))), several);
    assert!(several.to_string().contains("workers 0, 1 send to \"fw\""), "{several}");
    let shared = |way| PortSpec { sharing: Some(SharingSpec { workers: vec![0, 1], way }), ..xdp("wan", 2) };
    let wire = |wan| workers(patched([wan, guest("fw")], &[["wan", "fw"]]));
    assert_eq!(refusal(wire(shared(Sharing::Rss))), several);
    assert_eq!(refusal(wire(shared(Sharing::Locked))), Reason::Locked("wan".into()));
    let locked = SharingSpec { workers: vec![0, 1], way: Sharing::Locked };
    let fw = PortSpec { sharing: Some(locked), ..guest("fw") };
    assert_eq!(refusal(workers(patched([xdp("wan", 1), fw], &[["wan", "fw"]]))), Reason::Locked("fw".into()));
}

#[test]
fn a_worker_that_sleeps_lends_nothing_by_itself() {
    let worker = |idle| WorkerSpec { idle, ..WorkerSpec::default() };
    let wire = |idle| {
        let workers = vec![worker(idle)];
        Spec { workers, ..patched([xdp("wan", 1), guest("fw")], &[["wan", "fw"]]) }
    };
    assert_eq!(refusal(wire(Idle::Sleep)), Reason::Sleeps { worker: 0, guest: "fw".into() });
    for idle in [Idle::Poll, Idle::Backoff] {
        assert_eq!(mappings(wire(idle)), ["wan -> fw pass-through"]);
    }
}

/// Its guest may run fewer queues than the physical port has.
#[test]
fn a_physical_port_with_several_queues_is_not_mapped() {
    let why = refusal(patched([xdp("wan", 2), guest("fw")], &[["wan", "fw"]]));
    assert_eq!(why, Reason::SeveralQueues { physical: "wan".into(), guest: "fw".into() });
}

#[test]
fn other_pairs_say_why_they_are_copied() {
    let pair = |a, b| {
        let spec = patched([a, b], &[["a", "b"]]);
        refusal(spec).to_string()
    };
    assert!(pair(guest("a"), guest("b")).contains("may not access each other's memory"));
    assert!(pair(guest("a"), other("b")).contains("\"b\" is of driver tap"));
    assert!(pair(other("a"), guest("b")).contains("\"a\" is of driver tap"));
    assert!(pair(other("a"), xdp("b", 1)).contains("neither \"a\" nor \"b\" has a guest"));
}

#[test]
fn functions_of_a_group_that_reach_each_other_exchange() {
    let of = |name: &str| of_group("g", guest(name));
    let exchanges = |spec| started(spec).1;
    assert_eq!(exchanges(patched([of("a"), of("b")], &[["a", "b"]])), ["a, b"]);
    assert_eq!(exchanges(bridged([of("a"), xdp("wan", 1), of("b"), guest("c")])), ["a, b"]);
    // A function with several ports needs all of them in one exchange.
    let chain = [xdp("wan", 1), of("fw1"), of("fw2"), of("dpi"), of_group("h", guest("x")), guest("y")];
    let spec = patched(chain, &[["wan", "fw1"], ["fw2", "dpi"], ["x", "y"]]);
    assert_eq!(started(spec.clone()), (vec!["wan -> fw1 pass-through".into()], vec!["fw1, fw2, dpi".into()]));
    assert_eq!(fresh(spec).0.exchanges[0].mode, ExchangeMode::Group { buffers: 16_384, buffer_size: 2048 });
    // Nobody to exchange with.
    assert_eq!(exchanges(patched([of("a"), xdp("wan", 1), of("b")], &[["a", "wan"]])), [""; 0]);
    assert_eq!(exchanges(patched([of("a"), of_group("h", guest("b"))], &[["a", "b"]])), [""; 0]);
}

#[test]
fn ports_that_cannot_or_must_not_exchange_are_left_out() {
    let of = |name: &str| of_group("g", guest(name));
    let way = Sharing::Locked;
    let shared = PortSpec { sharing: Some(SharingSpec { workers: vec![0], way }), ..of("c") };
    let off = PortSpec { acceleration: Acceleration::Off, ..of("d") };
    let spec = bridged([of("a"), of("b"), shared, off, of_group("g", other("tap"))]);
    assert_eq!(started(spec).1, ["a, b"]);
    let mut spec = bridged([of("a"), of("b"), of("c")]);
    spec.exchanges = vec![ExchangeSpec {
        ports: vec!["a".into(), "b".into()],
        mode: ExchangeMode::Zcopy { device: "/dev/zcopy".into() },
        threshold: None,
    }];
    assert_eq!(started(spec.clone()).1, [""; 0]);
    let chosen = fresh(spec.clone()).1;
    let workers = assignment(&spec, None);
    let why =
        Facts::of(&spec, &workers, &chosen).may_map(&spec.ports[0], &spec.ports[2], facts::Joint::Patch).unwrap_err();
    assert_eq!(why, Reason::ExchangesElsewhere("a".into()));
}

/// Reloads from one specification to the next, while these ports are in use. Returns the choices, and the ports left.
fn reloaded(before: &Spec, up: &[&str], after: Spec) -> (Vec<String>, Vec<String>, Vec<String>) {
    let (spec, chosen) = fresh(before.clone());
    let workers = assignment(&after, None);
    let (after, next) =
        choose(after, &workers, &Running { spec: &spec, chosen: &chosen, up: up.iter().copied().collect() });
    let (mappings, exchanges) = shown(&after, &next);
    (mappings, exchanges, next.left)
}

const ALL: [&str; 5] = ["wan", "fw", "dns", "a", "b"];

#[test]
fn a_mapping_stays_while_its_ports_do() {
    let none: Vec<String> = vec![];
    let held = || (vec!["wan -> fw held".into()], none.clone(), none.clone());
    let ports = [xdp("wan", 1), guest("fw"), guest("dns")];
    let before = bridged(&ports[..2]);
    // The bridge grows, or the guest is patched to another port: its connection stays.
    assert_eq!(reloaded(&before, &ALL, bridged(ports.clone())), held());
    assert_eq!(reloaded(&before, &ALL, patched(ports.clone(), &[["wan", "dns"]])), held());
    assert_eq!(reloaded(&before, &ALL, patched(ports.clone(), &[["wan", "fw"]])), held());
    let (spec, chosen) = fresh(before.clone());
    let running = Running { spec: &spec, chosen: &chosen, up: ALL.into() };
    let (grown, _) = choose(bridged(ports.clone()), &assignment(&bridged(ports.clone()), None), &running);
    let Tenancy::Held(why) = &grown.mappings[0].tenancy else { panic!("{:?}", grown.mappings) };
    assert!(why.contains("bridge \"br0\" has other ports"), "{why}");
    // Without a guest, nobody is disconnected: the other one gets the mapping.
    let other = vec!["wan -> dns pass-through".to_owned()];
    assert_eq!(reloaded(&before, &["wan"], patched(ports.clone(), &[["wan", "dns"]])).0, other);
    // A port that is gone, reopened, or named in the file ends it.
    assert_eq!(reloaded(&before, &ALL, bridged(&ports[1..])).0, none);
    let pinned = MappingSpec { copy_break: Some(0), ..spec.mappings[0].clone() };
    assert_eq!(reloaded(&before, &ALL, Spec { mappings: vec![pinned], ..before.clone() }).0, none);
    let off = Spec { acceleration: Acceleration::Off, ..before.clone() };
    assert_eq!(reloaded(&before, &ALL, off.clone()).0, none);
    // It comes back where the user asks for it, also while the guest is connected.
    assert_eq!(reloaded(&off, &ALL, before).0, ["wan -> fw bridge"]);
}

#[test]
fn a_port_in_use_gets_no_mapping() {
    let ports = [xdp("wan", 1), guest("fw"), guest("dns")];
    let [both, one] = [bridged(ports.clone()), bridged(&ports[..2])];
    let (none, left) = (Vec::<String>::new(), vec!["fw".to_owned()]);
    assert_eq!(reloaded(&both, &ALL, one.clone()), (none.clone(), none.clone(), left));
    // Without a guest, but with others at the physical port.
    assert_eq!(reloaded(&both, &["wan", "dns"], one.clone()), (none.clone(), none.clone(), vec!["wan".into()]));
    // A physical port by which no frames came, and a guest that is new.
    let idle = patched([xdp("wan", 1)], &[]);
    assert_eq!(reloaded(&idle, &ALL, one.clone()).0, ["wan -> fw bridge"]);
    // A physical port that is mapped already.
    let next = patched(ports, &[["wan", "dns"]]);
    assert_eq!(reloaded(&one, &["wan"], next).0, ["wan -> dns pass-through"]);
    // A pinned mapping that the switch would choose, too.
    let pinned = MappingSpec { tenancy: Tenancy::TrustAll, ..fresh(one.clone()).0.mappings[0].clone() };
    let pinned = Spec { mappings: vec![pinned], ..one.clone() };
    assert_eq!(reloaded(&pinned, &ALL, one).0, ["wan -> fw bridge"]);
}

#[test]
fn an_exchange_stays_while_its_ports_do() {
    let of = |name: &str| of_group("g", guest(name));
    let none: Vec<String> = vec![];
    let before = bridged([of("a"), of("b")]);
    let grown = bridged([of("a"), of("b"), of("c")]);
    assert_eq!(reloaded(&before, &ALL, grown.clone()), (none.clone(), vec!["a, b".into()], vec!["c".into()]));
    assert_eq!(reloaded(&before, &[], grown.clone()).1, ["a, b, c"]);
    assert_eq!(reloaded(&before, &ALL, bridged([of("a")])).1, ["a, b"]);
    let moved = bridged([of("a"), of_group("h", guest("b"))]);
    assert_eq!(reloaded(&before, &ALL, moved).1, none);
    // Functions in use that reach each other only now.
    let apart = patched([of("a"), of("b")], &[]);
    assert_eq!(reloaded(&apart, &ALL, before.clone()), (none.clone(), none.clone(), vec!["a".into(), "b".into()]));
    assert_eq!(reloaded(&apart, &[], before).1, ["a, b"]);
}
