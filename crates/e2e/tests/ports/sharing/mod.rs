//! Receive queues that several workers share, between real guests and ports.

mod attacks;
mod devices;
mod files;
mod guests;
mod hangs;
mod in_place;
mod interfaces;
mod reload;
mod stages;

use e2e::virtio::{Exchange, Guest, Options, Sizes};
use e2e::wire::Wire;
use e2e::{Home, Millrace, Port, wait_for};
use lab::Result;
use lab::millrace::config::*;

/// Returns the keys of a port whose workers share its queues in this way.
fn sharing(way: RxSharing, workers: &[i64]) -> RawPort {
    RawPort { rx_sharing: way.into(), workers: workers.iter().copied().collect(), ..RawPort::default() }
}

/// Returns the keys of static roles, whose workers count as stalled only after a long time.
fn roles(workers: &[i64]) -> RawPort {
    RawPort { stalled_after: "10s".into(), ..sharing(RxSharing::StaticRole, workers) }
}

/// Returns the same with a parent.
fn parented(parent: i64, keys: RawPort) -> RawPort {
    RawPort { parent: parent.into(), ..keys }
}

/// Returns the keys of three workers, the first of which is the parent.
fn static_roles() -> RawPort {
    roles(&[0, 1, 2])
}

/// Returns the keys of three workers under a lock.
fn locked() -> RawPort {
    sharing(RxSharing::Locked, &[0, 1, 2])
}

/// Returns a port with these keys of sharing.
fn shared(keys: &RawPort, port: RawPort) -> RawPort {
    let RawPort { rx_sharing, workers, parent, order, stalled_after, .. } = keys.clone();
    RawPort { rx_sharing, workers, parent, order, stalled_after, ..port }
}

/// Reports whether workers share in this way.
fn is(way: RxSharing, keys: &RawPort) -> bool {
    keys.rx_sharing.iter().any(|at| at.value == way)
}

/// Returns a patch of the shared port with a guest's.
fn joined() -> RawFile {
    file((patch("wan", "fw"), Acceleration::Off))
}

/// Every size that fits the usual MTU.
const SIZES: Sizes = 60..=1514;

/// Frames on their way in each direction: fewer than a guest has buffers for, so that none is dropped.
const WINDOW: u64 = 64;

/// Returns `count` workers: some sleep at once, some poll for a while first.
fn workers(count: usize) -> Vec<RawWorker> {
    (0..count).map(|worker| if worker % 2 == 0 { sleeper() } else { RawWorker::default() }).collect()
}

/// Returns the address of the end of a stream with this number.
fn mac(number: u8) -> String {
    format!("02:00:00:00:0e:{number:02x}")
}

/// Returns a bridge that knows behind which port each of these ends is.
fn knowing(ports: &[&str], ends: &[(u8, &str)]) -> RawBridge {
    let statics = ends.iter().map(|&(number, port)| stationed(&mac(number), port).into()).collect();
    RawBridge { statics, ..bridge("br0", ports.iter().copied()) }
}

/// A wire between a virtio-user port and two guests, `far` (number 2) and `far2` (number 4).
fn forked_wire() -> Wire {
    let home = Home::new();
    let ports = ["wan", "far", "far2"];
    let ends = [(1, "wan"), (3, "wan"), (5, "wan"), (2, "far"), (4, "far2")];
    let config = (ports.map(vhost_user), knowing(&ports, &ends), sleeper());
    let millrace = home.start(&config);
    Wire::of(home, millrace)
}

/// Connects a guest, and waits until frames reach it.
fn guest(home: &Home, millrace: &Millrace, port: &str) -> Result<Guest> {
    let guest = Options::new(home.socket(port)).connect()?;
    millrace.wait_up(&[port]);
    Ok(guest)
}

/// Connects guests at `fw` and at the far end of the wire.
fn ends(home: &Home, millrace: &Millrace, wire: &Wire) -> Result<[Guest; 2]> {
    Ok([guest(home, millrace, "fw")?, wire.guest("far")?])
}

/// Checks that a port has received and sent these numbers of frames, and dropped none, and that these `workers` share its
/// queue: each frame was processed by one of them.
fn adds_up(millrace: &Millrace, name: &str, frames: [u64; 2], workers: &[usize]) {
    let port = millrace.counted(name, frames[0], frames[1]);
    assert!(port.drops().is_empty(), "{:?}", port.0);
    let queue = &port.0.queues[0];
    assert_eq!(queue.lanes.iter().map(|lane| lane.worker).collect::<Vec<_>>(), workers, "{queue:?}");
    let sum = |of: fn(&engine::stats::LaneStats) -> u64| queue.lanes.iter().map(of).sum::<u64>();
    assert_eq!(
        (sum(|lane| lane.rx_packets), sum(|lane| lane.rx_bytes)),
        (queue.rx_packets, queue.rx_bytes),
        "{queue:?}"
    );
}

/// Waits until a port receives nothing more.
fn wait_at_rest(millrace: &Millrace, name: &str) {
    let mut last = (0, 0);
    wait_for("frames to cease", || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let now = millrace.port(name).rx();
        last = if now == last.0 { (now, last.1 + 1) } else { (now, 0) };
        (last.1 == 20).then_some(())
    });
}

/// Checks that each frame that `wan` and `fw` received was sent by the other, or is counted as dropped. No more frames may come.
/// Returns the two ports.
fn all_counted(millrace: &Millrace) -> [Port; 2] {
    wait_at_rest(millrace, "wan");
    let [wan, fw] = ["wan", "fw"].map(|name| millrace.port(name));
    // The kernel, or a device, loses frames before the switch receives them.
    let is_later = |why: &str| !["kernel-loss", "device-loss"].contains(&why);
    let dropped = |port: &Port| port.drops().iter().filter(|(why, _)| is_later(why)).map(|(_, n)| n).sum::<u64>();
    assert_eq!(wan.rx() + fw.rx(), wan.tx() + fw.tx() + dropped(&wan) + dropped(&fw), "{wan:?} {fw:?}");
    [wan, fw]
}

/// Checks the same, and that no frame was dropped because a worker stalled.
fn nothing_vanished(millrace: &Millrace) {
    let [wan, _] = all_counted(millrace);
    assert!(!wan.drops().contains_key("worker-stalled"), "{wan:?}");
}

/// Exchanges frames that may overtake each other; each arrives once.
fn unordered(ends: [Guest; 2], numbers: [u8; 2]) -> Exchange {
    Exchange::new(ends, numbers, SIZES, WINDOW).in_any_order()
}
