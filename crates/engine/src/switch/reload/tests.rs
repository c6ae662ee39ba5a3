//! Tests that parts that are the same in both specifications go on, and that a reload reports what it did.

mod world;

use crate::Switch;
use crate::forward::bridge::Bridge;
use crate::port::{generator, pcap, tap};
use crate::reload::{ReloadAction, Step, Subject};
use crate::spec::{Driver, MappedQueues, Pace, PortSpec, Spec, Vlan};
use crate::stats::{PortStats, Snapshot};
use crate::switch::difference::{exchange_name, mapping_name, mirror_name};
use crate::switch::mapping::{Ends, Mapping, MappingSlot};
use crate::switch::shared::PortShared;
use proptest::prelude::*;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use world::{FRAMES, HONEST, Outsiders, World, outsiders};

/// Waits for a condition; it takes long only if it never comes.
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn port<'s>(snapshot: &'s Snapshot, name: &str) -> &'s PortStats {
    snapshot.ports.iter().find(|port| port.name == name).unwrap_or_else(|| panic!("there is no port {name}"))
}

/// Returns a switch with only the honest ports running.
fn start(world: &World) -> Switch {
    let switch = Switch::start(world.before()).unwrap();
    wait_for("the ring to be up", || ["driver", "device"].iter().all(|name| port(&switch.snapshot(), name).up));
    let actions = switch.reload(world.spec(&Outsiders::default())).unwrap();
    let taken: Vec<_> = actions.iter().filter(|action| action.step == Step::Added).map(|a| a.name.as_str()).collect();
    assert_eq!(taken, ["talker", "source", "early", "source - driver"], "{actions:?}");
    switch
}

/// Observed of a switch, to compare with its later parts.
struct Observed {
    spec: Spec,
    ports: HashMap<String, Arc<PortShared>>,
    bridges: HashMap<String, Arc<Bridge>>,
    mappings: HashMap<String, Arc<Mapping>>,
    /// Mappings of the queues of physical ports, by address; none of other ports.
    seated: HashMap<String, Vec<Option<usize>>>,
    workers: Vec<Arc<crate::worker::Pulse>>,
    queues: Vec<Vec<String>>,
    /// Jobs that workers were asked for.
    jobs: Vec<u64>,
    recorded: Vec<std::path::PathBuf>,
}

impl Observed {
    fn of(switch: &Switch) -> Observed {
        let topology = switch.inner.topology();
        let workers = topology.workers.clone();
        let ports = &topology.layout.ports;
        let polled = |worker| {
            let queues = topology.layout.polled_by(worker);
            let mut queues: Vec<_> =
                queues.map(|id| format!("{}.{}", topology.layout.port(id.port).unwrap().name, id.queue)).collect();
            queues.sort();
            queues
        };
        let recorders = ports.iter().filter_map(|port| port.recorder());
        let mut recorded: Vec<_> = recorders.map(|recorder| recorder.path().to_owned()).collect();
        recorded.sort();
        // The other pairs of a mapping of whole ports stay or go with the first.
        let is_first = |mapping: &&Arc<Mapping>| {
            mapping.spec().is_of_one() || mapping.queues() == MappedQueues { physical: 0, guest: 0 }
        };
        let named = |mapping: &Arc<Mapping>| (mapping_name(mapping.spec()), mapping.clone());
        Observed {
            ports: ports.iter().map(|port| (port.name.clone(), port.clone())).collect(),
            bridges: topology.bridges().map(|(spec, bridge, _)| (spec.name.clone(), bridge.clone())).collect(),
            mappings: topology.mappings.iter().filter(is_first).map(named).collect(),
            seated: ports.iter().map(|port| (port.name.clone(), seated(port, &topology.mappings))).collect(),
            queues: (0..workers.len()).map(polled).collect(),
            jobs: workers.iter().map(|pulse| pulse.jobs.load(Ordering::Relaxed)).collect(),
            workers,
            recorded,
            spec: topology.spec.clone(),
        }
    }

    /// Compares the reported actions with the parts before and now.
    fn check(&self, now: &Observed, actions: &[ReloadAction]) {
        let told = |subject: Subject, name: &str| {
            let mut of = actions.iter().filter(|action| action.subject == subject && action.name == name);
            let action = of.next().unwrap_or_else(|| panic!("nothing is told of {subject} {name}: {actions:?}"));
            assert!(of.next().is_none(), "{subject} {name} is told of twice: {actions:?}");
            action
        };
        let compare = |subject, name: &str, before: Option<usize>, after: Option<usize>, same: bool| {
            let action = told(subject, name);
            let expected: &[Step] = match (before, after) {
                (None, None) => &[],
                (None, Some(_)) => &[Step::Added],
                (Some(_), None) => &[Step::Removed],
                (Some(a), Some(b)) if a == b && same => &[Step::Kept],
                // A bridge that changes is replaced by one that adopts its addresses.
                (Some(a), Some(b)) if a == b || subject == Subject::Bridge => &[Step::Changed],
                _ => &[Step::Reopened],
            };
            assert!(expected.contains(&action.step), "{action} is told, but {expected:?} is right: {actions:?}");
            assert_eq!(action.why.is_empty(), matches!(action.step, Step::Added | Step::Removed | Step::Kept));
            assert_eq!(action.error, None);
        };
        fn address<T>(of: Option<&Arc<T>>) -> Option<usize> {
            of.map(|it| Arc::as_ptr(it).addr())
        }
        fn names<'a, T>(a: &'a HashMap<String, T>, b: &'a HashMap<String, T>) -> Vec<&'a String> {
            a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))).collect()
        }
        for name in names(&self.ports, &now.ports) {
            let spec = |parts: &Observed| parts.spec.ports.iter().find(|p| p.name == *name).cloned();
            let exchange = |parts: &Observed| parts.spec.exchanges.iter().find(|of| of.ports.contains(name)).cloned();
            let same_exchange = exchange(self) == exchange(now);
            let same = spec(self) == spec(now) && self.seated.get(name) == now.seated.get(name) && same_exchange;
            compare(Subject::Port, name, address(self.ports.get(name)), address(now.ports.get(name)), same);
        }
        for name in names(&self.bridges, &now.bridges) {
            let (before, after) = (address(self.bridges.get(name)), address(now.bridges.get(name)));
            compare(Subject::Bridge, name, before, after, true);
        }
        for name in names(&self.mappings, &now.mappings) {
            let spec = |parts: &Observed| parts.spec.mappings.iter().find(|m| mapping_name(m) == *name).cloned();
            let (before, after) = (address(self.mappings.get(name)), address(now.mappings.get(name)));
            compare(Subject::Mapping, name, before, after, spec(self) == spec(now));
        }
        let mirrors = |parts: &Observed| -> HashMap<_, _> {
            parts.spec.mirrors.iter().map(|mirror| (mirror_name(mirror), mirror.clone())).collect()
        };
        let (had, has) = (mirrors(self), mirrors(now));
        for name in names(&had, &has) {
            let (before, after) = (had.get(name), has.get(name));
            compare(Subject::Mirror, name, before.map(|_| 0), after.map(|_| 0), before == after);
        }
        let exchanges = |parts: &Observed| -> HashMap<_, _> {
            parts.spec.exchanges.iter().map(|exchange| (exchange_name(exchange), exchange.clone())).collect()
        };
        let (had, has) = (exchanges(self), exchanges(now));
        for name in names(&had, &has) {
            let [before, after] =
                [&had, &has].map(|of| of.get(name).map(|exchange| exchange.threshold.unwrap_or(0) as usize));
            compare(Subject::Exchange, name, before, after, before == after);
        }
        for index in 0..self.workers.len().max(now.workers.len()) {
            let (before, after) = (address(self.workers.get(index)), address(now.workers.get(index)));
            let same = self.queues.get(index) == now.queues.get(index);
            compare(Subject::Worker, &index.to_string(), before, after, same);
        }
        let concerned = self.concerned(now, actions);
        for index in 0..self.workers.len().min(now.workers.len()) {
            let is_same = address(self.workers.get(index)) == address(now.workers.get(index));
            let polls = |parts: &Observed| parts.queues[index].iter().any(|queue| concerned.contains(port_of(queue)));
            if is_same && !polls(self) && !polls(now) {
                assert_eq!(self.jobs[index], now.jobs[index], "nothing concerns worker {index}: {actions:?}");
            }
        }
        let wanted: BTreeSet<_> = now.spec.ports.iter().filter_map(|p| p.record.clone()).collect();
        assert!(wanted.iter().eq(&now.recorded), "{:?} are to be recorded, and {:?} are", wanted, now.recorded);
    }
}

impl Observed {
    /// Returns the ports that these actions concern: those that they name, and those that are connected with them before or now.
    fn concerned(&self, now: &Observed, actions: &[ReloadAction]) -> BTreeSet<String> {
        let mut groups: Vec<Vec<String>> = Vec::new();
        for spec in [&self.spec, &now.spec] {
            groups.extend(spec.patches.iter().map(|pair| pair.to_vec()));
            groups.extend(spec.bridges.iter().map(|bridge| bridge.ports.clone()));
            groups.extend(spec.mappings.iter().map(|mapping| vec![mapping.from.port.clone(), mapping.to.port.clone()]));
        }
        let mut ports = BTreeSet::new();
        for action in actions.iter().filter(|action| action.step != Step::Kept) {
            ports.insert(action.name.clone());
            ports.extend(action.name.split([' ', ',']).map(str::to_owned));
            let bridges = [&self.spec, &now.spec].into_iter().flat_map(|spec| &spec.bridges);
            let of_bridge = bridges.filter(|bridge| action.subject == Subject::Bridge && bridge.name == action.name);
            ports.extend(of_bridge.flat_map(|bridge| bridge.ports.clone()));
        }
        // Workers that begin or cease to send to a port change how others send there.
        for index in 0..self.queues.len().max(now.queues.len()) {
            let [had, has]: [BTreeSet<_>; 2] =
                [self, now].map(|of| of.queues.get(index).into_iter().flatten().collect());
            let is_same = self.workers.get(index).map(Arc::as_ptr) == now.workers.get(index).map(Arc::as_ptr);
            let moved = had.union(&has).filter(|queue| !is_same || !had.contains(**queue) || !has.contains(**queue));
            ports.extend(moved.map(|queue| port_of(queue).to_owned()));
        }
        loop {
            let before = ports.len();
            for group in groups.iter().filter(|group| group.iter().any(|name| ports.contains(name))).collect::<Vec<_>>()
            {
                ports.extend(group.clone());
            }
            if ports.len() == before {
                return ports;
            }
        }
    }
}

/// Returns the port of a queue by its name.
fn port_of(queue: &str) -> &str {
    queue.rsplit_once('.').map_or(queue, |(port, _)| port)
}

/// Returns the mapping of each queue of a physical port, by address: they must be these.
fn seated(port: &PortShared, mappings: &[Arc<Mapping>]) -> Vec<Option<usize>> {
    let Ends::Physical(seats) = port.ends() else { return Vec::new() };
    let seated = |(queue, seat): (usize, &MappingSlot)| {
        let is_end = |m: &&Arc<Mapping>| m.spec().from.port == port.name && m.queues().physical == queue;
        let [wanted, seated] = [mappings.iter().find(is_end).cloned(), seat.mapping()]
            .map(|mapping| mapping.map(|mapping| Arc::as_ptr(&mapping).addr()));
        assert_eq!(seated, wanted, "{} has another mapping at queue {queue}", port.name);
        seated
    };
    seats.iter().enumerate().map(seated).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_did_not_change_is_not_touched(changes in prop::collection::vec(outsiders(), 2..6)) {
        let home = tempfile::tempdir().unwrap();
        let world = World::new(home.path());
        let switch = start(&world);
        let early = |switch: &Switch| switch.macs().into_iter().find(|entry| entry.port == "early").map(|e| e.mac);
        wait_for("the first address to be learned", || early(&switch).is_some());
        let mut counted = switch.snapshot();
        for outsiders in &changes {
            let before = Observed::of(&switch);
            let actions = switch.reload(world.spec(outsiders)).unwrap();
            let now = Observed::of(&switch);
            before.check(&now, &actions);
            for name in HONEST {
                let kept = actions.iter().any(|a| a.subject == Subject::Port && a.name == name && a.step == Step::Kept);
                assert!(kept, "{name} did not change: {actions:?}");
            }
            assert!(early(&switch).is_some(), "an address is forgotten: {actions:?}");
            let snapshot = switch.snapshot();
            for name in HONEST {
                let count = |of: &Snapshot| port(of, name).queues.iter().map(|q| (q.rx_packets, q.tx_packets)).collect::<Vec<_>>();
                let went_on = count(&counted).iter().zip(count(&snapshot)).all(|(a, b)| a.0 <= b.0 && a.1 <= b.1);
                assert!(went_on && port(&snapshot, name).drops.is_empty(), "{name}: {:?}", port(&snapshot, name));
            }
            counted = snapshot;
            let before = Observed::of(&switch);
            let actions = switch.reload(world.spec(outsiders)).unwrap();
            let is_kept = |action: &ReloadAction| action.step == Step::Kept || action.error.is_some() || action.why == ["opened again"];
            assert!(actions.iter().all(is_kept), "the specification is the same: {actions:?}");
            let now = Observed::of(&switch);
            let failed = actions.iter().any(|action| action.step != Step::Kept);
            assert!(failed || before.jobs == now.jobs, "{:?} and {:?} jobs: {actions:?}", before.jobs, now.jobs);
        }
        let sent = |name| port(&switch.snapshot(), name).queues[0].tx_packets;
        wait_for("every frame by the ring", || sent("sink") >= FRAMES);
        wait_for("every frame by the bridge", || sent("listener") >= FRAMES + world::EARLY);
        let end = switch.snapshot();
        for (name, frames) in [("sink", FRAMES), ("listener", FRAMES + world::EARLY)] {
            prop_assert_eq!(port(&end, name).queues[0].tx_packets, frames);
        }
        prop_assert!(HONEST.iter().all(|name| port(&end, name).drops.is_empty()), "{:?}", end.ports);
    }
}

/// Returns the number of frames in a capture, which has to be whole.
fn frames(path: &Path) -> usize {
    capture::Reader::open(path).unwrap().collect::<Result<Vec<_>, _>>().unwrap().len()
}

#[test]
fn a_recording_comes_and_goes_while_frames_pass() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(home.path());
    let switch = start(&world);
    let plain = world.spec(&Outsiders::default());
    let before = Observed::of(&switch);
    let path = |round: usize| home.path().join(format!("{round}.pcap"));
    for (round, name) in ["device", "driver", "listener", "talker", "device"].into_iter().enumerate() {
        let mut spec = plain.clone();
        let recorded = spec.ports.iter_mut().find(|port| port.name == name).unwrap();
        recorded.record = Some(path(round));
        let actions = switch.reload(spec).unwrap();
        let done: Vec<_> = actions.iter().filter(|a| a.step != Step::Kept).map(|a| a.to_string()).collect();
        assert!(done.iter().all(|done| done.ends_with(" (record-to)")), "{done:?}");
        assert!(done.contains(&format!("changed port {name} (record-to)")), "{done:?}");
        if round == 0 {
            // All frames may have passed before this thread gets a processor again.
            let sent = || port(&switch.snapshot(), "sink").queues[0].tx_packets;
            wait_for("frames in the file", || path(round).metadata().unwrap().len() > 1000 || sent() >= FRAMES);
        }
    }
    switch.reload(plain).unwrap();
    let ended: Vec<_> = (0..5).map(path).map(|path| (frames(&path), path)).collect();
    let end = Observed::of(&switch);
    assert!(before.ports.iter().all(|(name, port)| Arc::ptr_eq(port, &end.ports[name])), "a port was opened again");
    wait_for("every frame", || port(&switch.snapshot(), "sink").queues[0].tx_packets >= FRAMES);
    assert!(HONEST.iter().all(|name| port(&switch.snapshot(), name).drops.is_empty()), "{:?}", switch.snapshot().ports);
    assert_eq!(
        ended.iter().map(|(_, path)| frames(path)).collect::<Vec<_>>(),
        ended.iter().map(|e| e.0).collect::<Vec<_>>()
    );
}

#[test]
fn who_looks_at_a_file_sees_frames_while_it_is_recorded() {
    let home = tempfile::tempdir().unwrap();
    let [of_port, of_file] = ["port.pcap", "file.pcap"].map(|name| home.path().join(name));
    let makes = Driver::Generator(generator::Settings { size: 64, pace: Pace::default(), frames: 10, mac: None });
    let takes = Driver::Pcap(pcap::Settings {
        replay: None,
        record: Some(of_file.clone()),
        repeat: false,
        pace: Pace::default(),
    });
    let maker = PortSpec { record: Some(of_port.clone()), ..PortSpec::new("maker", makes) };
    let patches = vec![["maker".into(), "taker".into()]];
    let spec = Spec { ports: vec![maker, PortSpec::new("taker", takes)], patches, ..Spec::default() };
    let _switch = Switch::start(spec).unwrap();
    // Sizes of the file's header, and of each frame with its header.
    let whole = 24 + 10 * (16 + 64);
    wait_for("both files to be whole", || {
        [&of_port, &of_file].iter().all(|path| path.metadata().unwrap().len() == whole)
    });
    assert_eq!([frames(&of_port), frames(&of_file)], [10, 10]);
}

#[test]
fn a_recording_that_cant_be_is_told_and_the_port_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let world = World::new(home.path());
    let switch = start(&world);
    let mut spec = world.spec(&Outsiders::default());
    spec.ports.iter_mut().find(|port| port.name == "device").unwrap().record = Some("/nonexistent/a.pcap".into());
    let before = Observed::of(&switch);
    let actions = switch.reload(spec.clone()).unwrap();
    let failed: Vec<_> = actions.iter().filter(|action| action.error.is_some()).map(|a| a.to_string()).collect();
    assert_eq!(failed.len(), 1);
    assert!(failed[0].starts_with("changed port device (record-to), which FAILED: "), "{failed:?}");
    assert!(failed[0].contains("cannot record to /nonexistent/a.pcap"), "{failed:?}");
    let again = switch.reload(spec).unwrap();
    assert!(again.iter().any(|action| action.error.is_some()), "it is tried again, and told again: {again:?}");
    assert!(Arc::ptr_eq(&before.ports["device"], &Observed::of(&switch).ports["device"]));
}

#[test]
fn a_port_that_is_opened_again_says_so_beside_other_changes() {
    let home = tempfile::tempdir().unwrap();
    let missing = home.path().join("missing.pcap");
    let spec = |vlan| {
        let settings =
            pcap::Settings { replay: Some(missing.clone()), record: None, repeat: false, pace: Pace::default() };
        Spec { ports: vec![PortSpec { vlan, ..PortSpec::new("file", Driver::Pcap(settings)) }], ..Spec::default() }
    };
    let switch = Switch::start(Spec::default()).unwrap();
    let reload = |vlan| switch.reload(spec(vlan)).unwrap().swap_remove(0).to_string();
    for (vlan, told) in [
        (Vlan::Ignore, "added port file, which FAILED: "),
        (Vlan::Ignore, "changed port file (opened again), which FAILED: "),
        (Vlan::Access(5), "changed port file (VLANs, opened again), which FAILED: "),
    ] {
        let action = reload(vlan);
        assert!(action.starts_with(told), "{action}");
    }
}

#[test]
fn an_interface_is_let_go_of_before_it_is_opened_again() {
    let spec = |mtu| {
        let driver = Driver::Tap(tap::Settings {
            interface: Some("mrtap-reload".into()),
            mtu: Some(mtu),
            queues: 1,
            offloads: None,
        });
        Spec { ports: vec![PortSpec::new("tap", driver)], ..Spec::default() }
    };
    let switch = Switch::start(spec(1500)).unwrap_or_else(|error| panic!("this test needs CAP_NET_ADMIN: {error}"));
    let actions = switch.reload(spec(1400)).unwrap();
    assert_eq!(actions[0].to_string(), "reopened port tap (options of its driver)");
    assert!(port(&switch.snapshot(), "tap").up);
}
