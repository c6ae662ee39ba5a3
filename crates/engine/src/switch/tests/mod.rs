//! Tests that a worker that hangs holds up nobody else, and of queues that several workers share.

mod moving;
mod places;
mod sharing;

use super::*;
use crate::port::{RxQueue, Sent, TxQueue, Wait, generator, sink, vhost_user, virtio_user};
use crate::spec::{BridgeSpec, Driver, FailMode, Idle, Mode, Pace, PortQueues, PortSpec, QueueSizes, WorkerSpec};
use crate::stats::PortStats;
use packet::{Burst, Frames};
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::sync::{Condvar, PoisonError};
use std::time::Duration;

/// Time limit of every wait.
const END: Duration = Duration::from_secs(60);

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < END, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs `does` on a separate thread, which must end.
fn ends<R: Send + 'static>(what: &str, does: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, result) = mpsc::channel();
    let thread = std::thread::spawn(move || drop(done.send(does())));
    let result = result.recv_timeout(END).unwrap_or_else(|error| panic!("{what}: {error}"));
    thread.join().unwrap();
    result
}

/// A place where workers hang until the test releases them.
#[derive(Default)]
struct Trap {
    /// Whether it is open, and the number of workers in it.
    state: Mutex<(bool, usize)>,
    opened: Condvar,
}

impl Trap {
    fn enter(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 += 1;
        while !state.0 {
            state = self.opened.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.1 -= 1;
    }

    fn open(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0 = true;
        self.opened.notify_all();
    }

    fn holds(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 > 0
    }
}

/// Both halves of a queue at which workers hang. Reports when it is dropped.
struct Bad {
    trap: Arc<Trap>,
    dropped: Sender<()>,
}

impl Drop for Bad {
    fn drop(&mut self) {
        let _ = self.dropped.send(());
    }
}

impl RxQueue for Bad {
    fn receive<'q>(&'q self, _: &mut Burst<'_, 'q>) -> bool {
        self.trap.enter();
        false
    }

    fn recycle(&self) {}

    fn arm(&self) -> Wait {
        Wait::Ready
    }
}

impl TxQueue for Bad {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        self.trap.enter();
        Sent { frames: frames.len() as u32, ..Sent::default() }
    }
}

/// Frames in bursts: workers rest between them.
fn pace() -> Pace {
    Pace { rate: 20_000, burst: 32 }
}

fn generator(name: &str) -> PortSpec {
    PortSpec::new(name, Driver::Generator(generator::Settings { size: 64, pace: pace(), frames: 0, mac: None }))
}

fn sink(name: &str) -> PortSpec {
    PortSpec::new(name, Driver::Sink(sink::Settings))
}

fn patch(a: &str, b: &str) -> [String; 2] {
    [a.into(), b.into()]
}

fn worker(ports: &[&str], idle: Idle) -> WorkerSpec {
    let queues = ports.iter().map(|port| PortQueues::all(*port)).collect();
    WorkerSpec { idle, queues, ..WorkerSpec::default() }
}

/// Returns a switch with two guests, at `a` and `c`, each polled by a separate worker, which also polls a sink: `b` or `d`.
fn switch(home: &Path) -> Switch {
    let guest = |name: &str| {
        let socket = home.join(name);
        PortSpec::new(name, Driver::VhostUser(vhost_user::Settings::at(socket)))
    };
    let spec = Spec {
        ports: vec![guest("a"), sink("b"), guest("c"), sink("d")],
        patches: vec![patch("a", "b"), patch("c", "d")],
        workers: vec![worker(&["a", "b"], Idle::Sleep), worker(&["c", "d"], Idle::Backoff)],
        ..Spec::default()
    };
    Switch::start(spec).unwrap()
}

/// Returns a switch that plays both guests, which send.
fn guests(home: &Path) -> Switch {
    let guest = |name: &str| {
        let (socket, queue_sizes) = (home.join(name), QueueSizes::from(64));
        PortSpec::new(
            name,
            Driver::VirtioUser(virtio_user::Settings {
                socket,
                mode: Mode::Client,
                queues: 1,
                queue_sizes,
                packed: false,
                offloads: None,
            }),
        )
    };
    let spec = Spec {
        ports: vec![generator("g"), guest("a"), generator("h"), guest("c")],
        patches: vec![patch("g", "a"), patch("h", "c")],
        ..Spec::default()
    };
    Switch::start(spec).unwrap()
}

impl Switch {
    fn port(&self, name: &str) -> PortStats {
        self.snapshot().ports.into_iter().find(|port| port.name == name).unwrap()
    }

    fn passes(&self, name: &str) {
        let before = self.port(name).queues[0].rx_packets;
        wait_for("frames", || (self.port(name).queues[0].rx_packets > before + 1000).then_some(()));
    }

    /// Makes a worker hang at this port.
    fn set_trap(&self, name: &str) -> (Arc<Trap>, mpsc::Receiver<()>) {
        let (trap, (dropped, is_dropped)) = (Arc::new(Trap::default()), mpsc::channel());
        let topology = self.inner.topology();
        let port = topology.layout.ports.iter().find(|port| port.name == name).unwrap();
        let half = Bad { trap: trap.clone(), dropped };
        self.inner.fabric.attach_receive(port.queue(0), Box::new(half)).unwrap();
        wait_for("the worker to hang", || trap.holds().then_some(()));
        (trap, is_dropped)
    }

    fn fault(&self, name: &str, why: &str) {
        let topology = self.inner.topology();
        topology.layout.ports.iter().find(|port| port.name == name).unwrap().fault.withhold(why.into());
    }
}

#[test]
fn a_worker_that_hangs_takes_nobody_with_it() {
    let home = tempfile::tempdir().unwrap();
    let (switch, guests) = (switch(home.path()), guests(home.path()));
    ["a", "c"].iter().for_each(|port| switch.passes(port));
    let (trap, is_dropped) = switch.set_trap("b");

    // The watchdog reports the place, and others go on.
    let hung = wait_for("the watchdog", || switch.snapshot().workers[0].hung_seconds);
    assert!(hung >= 1.0, "{hung}");
    let workers = switch.snapshot().workers;
    assert_eq!(workers[0].place, "port \"b\" queue 0 (receive)");
    switch.passes("c");

    // Its guest is disconnected, and the port reports that the queue could not be stopped.
    switch.fault("a", "it must go");
    let detail = wait_for("the end of the session", || {
        switch.passes("c");
        Some(switch.port("a").detail).filter(|detail| detail.contains("worker 0 does not respond"))
    });
    assert!(!switch.port("a").up, "{detail}");

    // Other guests come and go.
    switch.fault("c", "it must go");
    wait_for("the guest to go", || (!switch.port("c").up).then_some(()));
    wait_for("the guest to come back", || switch.port("c").up.then_some(()));
    switch.passes("c");

    // Nothing can be changed, and the switch says why.
    let error = switch.reload(Spec::default()).unwrap_err().to_string();
    assert!(error.contains("worker 0 does not respond") && error.contains("\"b\" queue 0 (receive)"), "{error}");
    switch.passes("c");

    // The switch ends, and leaves the worker the resources that it uses.
    ends("to stop", move || drop(switch));
    assert!(trap.holds() && is_dropped.try_recv().is_err(), "the worker still uses it");
    trap.open();
    is_dropped.recv_timeout(END).unwrap();
    drop(guests);
}

/// A change may take long, as it waits for workers and guests.
#[test]
fn readers_do_not_wait_for_a_change() {
    let home = tempfile::tempdir().unwrap();
    let switch = Arc::new(switch(home.path()));
    let reader = switch.clone();
    let _change = switch.inner.open.lock().unwrap();
    let (state, absent) = ends("reading", move || {
        let _ = (reader.snapshot(), reader.macs(), reader.why("a"), reader.aggregation_flows());
        (reader.port_state("a"), reader.port_state("x"))
    });
    let state = state.unwrap();
    assert!(state.open && !state.up && absent.is_none(), "{state:?}");
}

#[test]
fn a_worker_that_goes_on_serves_its_guests_again() {
    let home = tempfile::tempdir().unwrap();
    let (switch, guests) = (switch(home.path()), guests(home.path()));
    switch.passes("a");
    let (trap, is_dropped) = switch.set_trap("b");
    switch.fault("a", "it must go");
    wait_for("the end of the session", || switch.port("a").detail.contains("does not respond").then_some(()));
    wait_for("the watchdog", || switch.snapshot().workers[0].hung_seconds);
    trap.open();
    wait_for("the watchdog", || switch.snapshot().workers[0].hung_seconds.is_none().then_some(()));
    wait_for("the guest to come back", || switch.port("a").up.then_some(()));
    switch.passes("a");
    // Those who follow the events know.
    wait_for("the events", || {
        let kinds: Vec<_> = switch.events().list(None, None).into_iter().map(|event| event.kind).collect();
        let hung = kinds.iter().position(|kind| {
            matches!(kind, EventKind::WorkerHung { worker: 0, place, seconds } if place.contains("\"b\" queue 0") && *seconds >= 1.0)
        })?;
        let recovered = |kind: &EventKind| matches!(kind, EventKind::WorkerRecovered { worker: 0, .. });
        kinds[hung..].iter().any(recovered).then_some(())
    });
    switch.reload(Spec::default()).unwrap();
    is_dropped.recv_timeout(END).unwrap();
    drop(guests);
}

#[test]
fn a_reload_that_does_not_concern_a_worker_that_hangs_leaves_its_ports_alone() {
    let spec = |patches| Spec {
        ports: vec![generator("g"), sink("s"), generator("h"), sink("t")],
        patches,
        workers: vec![worker(&["g", "s"], Idle::Sleep), worker(&["h", "t"], Idle::Sleep)],
        ..Spec::default()
    };
    let switch = Switch::start(spec(vec![patch("g", "s"), patch("h", "t")])).unwrap();
    let (trap, is_dropped) = switch.set_trap("s");
    switch.inner.apply(spec(vec![patch("g", "s")]), Extent::All).unwrap();
    assert!(["g", "s", "h", "t"].iter().all(|name| switch.port(name).up), "{:?}", switch.snapshot().ports);
    assert_eq!(switch.port("h").forwarding, "nowhere");
    trap.open();
    switch.passes("g");
    drop(switch);
    is_dropped.recv_timeout(END).unwrap();
}

#[test]
fn queues_that_a_worker_kept_are_opened_again() {
    let ports = || vec![generator("g"), sink("s"), generator("h"), sink("t")];
    let spec = |patches| Spec {
        ports: ports(),
        patches,
        workers: vec![worker(&["g", "s"], Idle::Sleep), worker(&["h", "t"], Idle::Sleep)],
        ..Spec::default()
    };
    let switch = Switch::start(spec(vec![patch("g", "s"), patch("h", "t")])).unwrap();
    ["g", "h"].iter().for_each(|port| switch.passes(port));
    let (trap, is_dropped) = switch.set_trap("s");
    // A reload checks that all workers respond. This one hangs after that check.
    switch.inner.apply(spec(vec![patch("h", "t")]), Extent::All).unwrap();
    assert!(!switch.port("g").up && !switch.port("s").up, "{:?}", switch.snapshot().ports);
    switch.passes("h");
    trap.open();
    is_dropped.recv_timeout(END).unwrap();
    wait_for("the ports to be opened", || (switch.port("g").up && switch.port("s").up).then_some(()));
    switch.reload(spec(vec![patch("g", "s"), patch("h", "t")])).unwrap();
    switch.passes("g");
}

#[test]
fn frames_avoid_a_queue_that_a_worker_attached_too_late() {
    let home = tempfile::tempdir().unwrap();
    let socket = home.path().join("a");
    let (mode, access) = (Mode::Server, Default::default());
    let guest = Driver::VhostUser(vhost_user::Settings { mode, access, ..vhost_user::Settings::at(socket) });
    let spec = Spec {
        ports: vec![generator("g"), PortSpec::new("a", guest)],
        patches: vec![patch("g", "a")],
        workers: vec![worker(&["g", "a"], Idle::Sleep)],
        ..Spec::default()
    };
    let switch = Switch::start(spec).unwrap();
    let port = switch.inner.topology().layout.ports[1].clone();
    let fabric = &switch.inner.fabric;
    fabric.attach_transmit(port.queue(1), Box::new(sink::Sink)).unwrap();
    let passes = || {
        let sent = || port.queues[1].sent.packets.get();
        let before = sent();
        wait_for("frames to be sent by the second queue", || (sent() > before + 1000).then_some(()));
    };
    passes();
    let (trap, is_dropped) = switch.set_trap("a");
    fabric.attach_transmit(port.queue(0), Box::new(sink::Sink)).unwrap_err();
    trap.open();
    switch.passes("g");
    passes();
    switch.reload(Spec::default()).unwrap();
    is_dropped.recv_timeout(END).unwrap();
}

#[test]
fn packets_of_controllers_wait_in_a_bounded_room() {
    const ROOM: u64 = 512;
    const MORE: u64 = 100;
    let spec = Spec {
        ports: vec![sink("a"), sink("b")],
        bridges: vec![BridgeSpec {
            name: "br".into(),
            ports: ["a", "b"].map(String::from).to_vec(),
            ageing: Duration::from_secs(300),
            learned_limit: 4096,
            forwards_reserved: false,
            statics: vec![],
            flows: Some(FailMode::Secure),
        }],
        workers: vec![worker(&["a", "b"], Idle::Sleep)],
        ..Spec::default()
    };
    let switch = Switch::start(spec).unwrap();
    let (trap, _) = switch.set_trap("a");
    let to = openflow::Action::Output { port: 2, max_len: 0 };
    for _ in 0..(ROOM + MORE) / 2 {
        // One message may ask for several packets.
        switch.packet_out(openflow::ofp::port::CONTROLLER, &[to, to], &[0xff; 100]);
    }
    let drops = || switch.snapshot().datapath.unwrap().packet_out_drops;
    assert_eq!(drops().into_iter().collect::<Vec<_>>(), [("controller-flood".into(), MORE)]);
    trap.open();
    wait_for("the rest to be sent", || (switch.port("b").queues[0].tx_packets == ROOM).then_some(()));
    assert_eq!(drops().values().sum::<u64>(), MORE);
}

#[test]
fn a_worker_that_hangs_where_others_send_does_not_hold_them_up() {
    // Both workers send to `s`: one from `g`, the other from `h`.
    let spec = Spec {
        ports: vec![generator("g"), generator("h"), sink("s"), sink("t")],
        bridges: vec![BridgeSpec {
            name: "br".into(),
            ports: ["g", "h", "s", "t"].map(String::from).to_vec(),
            ageing: Duration::from_secs(300),
            learned_limit: 4096,
            forwards_reserved: false,
            statics: vec![],
            flows: None,
        }],
        workers: vec![worker(&["g", "t"], Idle::Backoff), worker(&["h", "s"], Idle::Backoff)],
        ..Spec::default()
    };
    let switch = Switch::start(spec).unwrap();
    ["g", "h"].iter().for_each(|port| switch.passes(port));
    let (trap, (dropped, is_dropped)) = (Arc::new(Trap::default()), mpsc::channel());
    let key = switch.inner.topology().layout.ports[2].queue(0);
    switch.inner.fabric.detach_transmit(key).unwrap();
    switch.inner.fabric.attach_transmit(key, Box::new(Bad { trap: trap.clone(), dropped })).unwrap();
    let hung =
        wait_for("the watchdog", || switch.snapshot().workers.into_iter().find(|worker| worker.hung_seconds.is_some()));
    assert_eq!(hung.place, "port \"s\" queue 0 (transmit)");
    let other = ["h", "g"][hung.index];
    let lost = || switch.port("s").drops.get("stuck").copied().unwrap_or(0);
    let before = lost();
    switch.passes(other);
    assert!(lost() > before, "what can't be sent is dropped");
    trap.open();
    ["g", "h"].iter().for_each(|port| switch.passes(port));
    // The worker that has the queue may wait for a processor, and the other one for the queue.
    wait_for("frames of both to be sent", || {
        let before = lost();
        switch.passes(other);
        (lost() == before).then_some(())
    });
    drop(switch);
    is_dropped.recv_timeout(END).unwrap();
}
