//! Tests of queues that several workers share, in a running switch.

use super::*;
use crate::port::HoldBursts;
use crate::spec::{Order, Sharing, SharingSpec, StaticRoles};
use packet::FrameBlock;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers on the source's frames; they repeat.
const NUMBERS: usize = 1 << 16;

/// A source of numbered frames.
struct Source {
    block: Arc<FrameBlock>,
    sent: Cell<u64>,
    /// Number of frames, which may change while it sends.
    frames: Arc<AtomicU64>,
}

impl RxQueue for Source {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let frames = self.frames.load(Ordering::Relaxed);
        while burst.room() > 0 && self.sent.get() < frames {
            burst.push(self.block.frame(self.sent.get() as usize % NUMBERS));
            self.sent.set(self.sent.get() + 1);
        }
        !burst.is_empty()
    }

    fn recycle(&self) {}

    fn arm(&self) -> Wait {
        if self.sent.get() < self.frames.load(Ordering::Relaxed) { Wait::Ready } else { Wait::Event }
    }

    fn holds(&self) -> Option<&dyn HoldBursts> {
        Some(&self.block)
    }
}

/// Counts of frames that have arrived.
#[derive(Default)]
struct Arrived {
    frames: u64,
    /// Frames that did not follow the one before.
    out_of_order: u64,
    last: u16,
    /// How often each number arrived.
    counts: Vec<u32>,
}

/// Counts what arrives.
struct Collector(Arc<Mutex<Arrived>>);

impl TxQueue for Collector {
    fn transmit(&self, frames: Frames<'_>) -> Sent {
        let mut arrived = self.0.lock().unwrap();
        let mut sent = Sent::default();
        for frame in frames.as_slice() {
            let mut bytes = [0; 16];
            assert_eq!(frames.copy_to(frame, &mut bytes), 16);
            let number = u16::from_be_bytes([bytes[14], bytes[15]]);
            arrived.out_of_order += u64::from(arrived.frames > 0 && number != arrived.last.wrapping_add(1));
            arrived.last = number;
            arrived.frames += 1;
            arrived.counts.resize(NUMBERS, 0);
            arrived.counts[usize::from(number)] += 1;
            sent.frames += 1;
            sent.bytes += u64::from(frame.len());
        }
        sent
    }
}

fn static_roles(workers: &[usize], parent: Option<usize>, order: Order) -> Option<SharingSpec> {
    let roles = StaticRoles { parent, order, stalled_after: Duration::from_secs(10) };
    Some(SharingSpec { workers: workers.to_vec(), way: Sharing::StaticRole(roles) })
}

fn per_flow(workers: &[usize]) -> Option<SharingSpec> {
    static_roles(workers, None, Order::PerFlow)
}

fn locked(workers: &[usize]) -> Option<SharingSpec> {
    Some(SharingSpec { workers: workers.to_vec(), way: Sharing::Locked })
}

/// Returns a switch with this number of workers, whose port `wan` goes to `to` and `other` by a patch or a bridge.
fn spec(sharing: Option<SharingSpec>, workers: usize, is_bridge: bool) -> Spec {
    // It sends nothing before the test gives it another receive half.
    let pace = Pace { rate: 1, burst: 1000 };
    let silent = Driver::Generator(generator::Settings { size: 64, pace, frames: 0, mac: None });
    let idle = |worker| [Idle::Backoff, Idle::Sleep, Idle::Poll][worker % 3];
    let bridge = BridgeSpec {
        name: "br".into(),
        ports: ["wan", "to", "other"].map(String::from).to_vec(),
        ageing: Duration::from_secs(300),
        learned_limit: 4096,
        forwards_reserved: false,
        statics: vec![],
        flows: None,
    };
    Spec {
        ports: vec![PortSpec { sharing, ..PortSpec::new("wan", silent) }, sink("to"), sink("other")],
        patches: if is_bridge { vec![] } else { vec![patch("wan", "to")] },
        bridges: if is_bridge { vec![bridge] } else { vec![] },
        workers: (0..workers).map(|index| WorkerSpec { idle: idle(index), ..WorkerSpec::default() }).collect(),
        ..Spec::default()
    }
}

/// Returns the ports that frames of `wan` go to.
fn outputs(switch: &Switch) -> &'static [&'static str] {
    if switch.inner.topology().spec.bridges.is_empty() { &["to"] } else { &["to", "other"] }
}

/// Starts a switch, and has its port `wan` receive this number of frames. Returns what arrives at `to`.
fn start(spec: Spec, frames: u64) -> (Switch, Arc<Mutex<Arrived>>) {
    start_until(spec, Arc::new(AtomicU64::new(frames)))
}

/// The same for a number of frames that may change.
fn start_until(spec: Spec, frames: Arc<AtomicU64>) -> (Switch, Arc<Mutex<Arrived>>) {
    let switch = Switch::start(spec).unwrap();
    let port = |index: usize| switch.inner.topology().layout.ports[index].clone();
    wait_for("the ports", || switch.snapshot().ports.iter().all(|port| port.up).then_some(()));
    let arrived = Arc::<Mutex<Arrived>>::default();
    let fabric = &switch.inner.fabric;
    fabric.detach_transmit(port(1).queue(0)).unwrap().expect("it is up");
    fabric.attach_transmit(port(1).queue(0), Box::new(Collector(arrived.clone()))).unwrap();
    fabric.detach_receive(port(0).queue(0)).unwrap().expect("it is up");
    // To everybody, so that a bridge floods them.
    let block = (0..NUMBERS).map(|number| {
        let mut bytes = vec![0xff; 64];
        bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        bytes[14..16].copy_from_slice(&(number as u16).to_be_bytes());
        bytes
    });
    let source = Source { block: Arc::new(block.collect()), sent: Cell::new(0), frames };
    fabric.attach_receive(port(0).queue(0), Box::new(source)).unwrap();
    (switch, arrived)
}

/// Waits for the last of this number of frames, and checks that each came once.
fn has_all(switch: &Switch, arrived: &Mutex<Arrived>, frames: u64) -> u64 {
    wait_for("all frames", || (arrived.lock().unwrap().frames >= frames).then_some(()));
    let arrived = arrived.lock().unwrap();
    let each = frames / NUMBERS as u64;
    assert!(arrived.counts.iter().all(|&count| u64::from(count) == each), "each once");
    // A bridge floods a burst to one port after the other.
    let has_counted = |port: &&str| switch.port(port).queues[0].tx_packets == frames;
    wait_for("the counters", || outputs(switch).iter().all(has_counted).then_some(()));
    assert!(switch.snapshot().ports.iter().all(|port| port.drops.is_empty()), "{:?}", switch.snapshot().ports);
    arrived.out_of_order
}

#[test]
fn each_frame_arrives_once_however_the_queue_is_shared() {
    const FRAMES: u64 = NUMBERS as u64;
    let unordered = |workers: &[usize]| static_roles(workers, None, Order::None);
    let parent_beside = static_roles(&[0, 1], Some(2), Order::PerFlow);
    let rss = Some(SharingSpec { workers: vec![2, 1], way: Sharing::Rss });
    let ordered = [per_flow(&[0]), per_flow(&[2, 0, 1]), parent_beside, unordered(&[0, 1]), rss, None];
    for (sharing, is_ordered) in ordered.into_iter().map(|sharing| (sharing, true)).chain([(locked(&[0, 1, 2]), false)])
    {
        for is_bridge in [false, true] {
            let (switch, arrived) = start(spec(sharing.clone(), 3, is_bridge), FRAMES);
            let out_of_order = has_all(&switch, &arrived, FRAMES);
            // Both outputs have one queue, so that lanes hand all frames over.
            assert!(!is_ordered || out_of_order == 0, "{sharing:?}: {out_of_order} out of order");
            assert_eq!(switch.port("wan").queues[0].rx_packets, FRAMES);
        }
    }
}

#[test]
fn workers_come_and_go_while_frames_pass() {
    const RELOADS: usize = 15;
    let frames = Arc::new(AtomicU64::new(u64::MAX));
    let (switch, arrived) = start_until(spec(per_flow(&[0, 1]), 4, true), frames.clone());
    let ways = [
        per_flow(&[2, 3]),
        None,
        static_roles(&[3], Some(0), Order::PerFlow),
        per_flow(&[0, 1, 2, 3]),
        static_roles(&[1, 2], Some(3), Order::PerFlow),
    ];
    for (reload, way) in ways.iter().cycle().take(RELOADS).enumerate() {
        let before = arrived.lock().unwrap().frames;
        let report = switch.reload(spec(way.clone(), 4, reload % 2 == 1)).unwrap();
        assert!(report.iter().all(|action| action.step != crate::reload::Step::Reopened), "{report:?}");
        wait_for("frames after a reload", || (arrived.lock().unwrap().frames > before + 1000).then_some(()));
    }
    // More than were sent by now: far fewer than that are under way.
    let last = (arrived.lock().unwrap().frames / NUMBERS as u64 + 20) * NUMBERS as u64;
    frames.store(last, Ordering::Relaxed);
    assert_eq!(has_all(&switch, &arrived, last), 0, "all in order");
}

#[test]
fn a_worker_that_hangs_keeps_no_frames_from_the_others() {
    let mut spec = spec(per_flow(&[0, 1, 2]), 3, false);
    spec.ports.push(sink("trap"));
    spec.workers[2].queues = vec![PortQueues::all("trap")];
    let (switch, arrived) = start(spec, u64::MAX);
    let (trap, is_dropped) = switch.set_trap("trap");
    let passes = || {
        let before = arrived.lock().unwrap().frames;
        wait_for("frames", || (arrived.lock().unwrap().frames > before + 1000).then_some(()));
    };
    passes();
    let hung = wait_for("the watchdog", || switch.snapshot().workers.into_iter().find(|w| w.hung_seconds.is_some()));
    assert_eq!(hung.index, 2);
    passes();
    // Its lane cannot be taken from it.
    let port = switch.inner.topology().layout.ports[0].clone();
    let why = switch.inner.fabric.detach_receive(port.queue(0)).err().expect("a worker has a lane");
    assert_eq!(why.to_string(), "worker 2 does not respond");
    trap.open();
    // It counts as hung until it has made a round, also if it has given its frames back.
    wait_for("worker 2", || switch.snapshot().workers[2].hung_seconds.is_none().then_some(()));
    let half = wait_for("the queue", || switch.inner.fabric.detach_receive(port.queue(0)).ok());
    assert!(half.is_some(), "all frames came back");
    drop(switch);
    is_dropped.recv_timeout(END).unwrap();
    assert_eq!(arrived.lock().unwrap().out_of_order, 0);
}

#[test]
fn the_report_names_parents_and_lanes() {
    let switch = Switch::start(spec(static_roles(&[2, 1], Some(0), Order::PerFlow), 3, false)).unwrap();
    let snapshot = switch.snapshot();
    let queues: Vec<_> = snapshot.workers.iter().map(|worker| worker.queues.join(" ")).collect();
    assert!(queues[0].contains("wan.0:parent"), "{queues:?}");
    assert!(queues[1].contains("wan.0:lane1") && queues[2].contains("wan.0:lane0"), "{queues:?}");
    let wan = &switch.port("wan").queues[0];
    assert_eq!((wan.worker, wan.sharing.as_deref()), (Some(0), Some("static-role")));
    assert_eq!(wan.lanes.iter().map(|lane| lane.worker).collect::<Vec<_>>(), [2, 1]);
}
