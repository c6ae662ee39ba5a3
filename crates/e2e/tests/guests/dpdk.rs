//! DPDK guests: `dpdk-testpmd` on virtio_user ports, in a sandbox, through a Millrace patch.
//!
//! testpmd's two ports are the two ends of the patch, so its frames circulate forever, and its counters must match Millrace's.

use std::time::Instant;

use e2e::{Home, Millrace, Port as SwitchPort, wait_for};
use lab::Result;
use lab::dpdk::{self, Port, PortStats, Testpmd};
use lab::millrace::config::*;

/// Frames that each case must move each way.
const WANTED: u64 = 5_000;

#[derive(Clone, Copy, Debug)]
struct Case {
    packed: bool,
    mergeable: bool,
    in_order: bool,
    /// testpmd creates the sockets, and Millrace connects to them.
    guest_listens: bool,
    queues: u16,
}

impl Case {
    fn port(self, home: &Home, name: &str) -> Port {
        let mut port = Port::new(home.socket(name)).mergeable(self.mergeable);
        if self.packed {
            port = port.packed();
        }
        if self.in_order {
            port = port.in_order();
        }
        if self.guest_listens {
            port = port.server();
        }
        port
    }

    fn config(self) -> RawFile {
        let mode = if self.guest_listens { Side::Client } else { Side::Server };
        let ports = ["a", "b"].map(|name| vhost_user_by(name, mode));
        file((ports, patch("a", "b"), e2e::poller()))
    }

    /// Starts a guest whose frames circulate.
    fn guest(self, home: &Home, millrace: &Millrace) -> Result<Testpmd> {
        let testpmd = Testpmd::builder("loop").port(self.port(home, "a")).port(self.port(home, "b"));
        let mut testpmd = testpmd.queues(self.queues).spawn()?;
        testpmd.wait_ready(dpdk::READY)?;
        tell(self, &testpmd);
        millrace.wait_up(&["a", "b"]);
        testpmd.start_tx_first(4)?;
        Ok(testpmd)
    }

    fn run(self) -> Result<()> {
        let home = Home::new();
        let millrace = home.start(self.config());
        let mut testpmd = self.guest(&home, &millrace)?;
        let deadline = Instant::now() + e2e::SOON;
        while testpmd.stats()?.iter().any(|port| port.rx_packets < WANTED) {
            assert!(Instant::now() < deadline, "{self:?}: {:?}; {:?}", testpmd.stats()?, millrace.stats().ports);
        }
        testpmd.stop()?;
        let stats = testpmd.stats()?;
        self.compare(&millrace, &stats);
        testpmd.quit(e2e::SOON)
    }

    /// Checks that each side received what the other sent, except for frames still in a ring.
    fn compare(self, millrace: &Millrace, stats: &[PortStats]) {
        let [a, b] = wait_for(&format!("{self:?}: all frames of {stats:?} to be taken and counted"), || {
            let [a, b] = ["a", "b"].map(|name| millrace.port(name));
            let all_taken = a.rx() == stats[0].tx_packets && b.rx() == stats[1].tx_packets;
            // A frame counts as received before it counts as sent or dropped.
            let all_passed = |from: &SwitchPort, to: &SwitchPort| from.rx() <= to.tx() + to.dropped();
            (all_taken && all_passed(&a, &b) && all_passed(&b, &a)).then_some([a, b])
        });
        let rings = u64::from(self.queues) * 256;
        for (port, other, guest) in [(&a, &b, &stats[0]), (&b, &a, &stats[1])] {
            let what = format!("{self:?}, port {}: {:?} {guest:?}", port.0.name, port.0);
            assert_eq!(port.rx_bytes(), guest.tx_bytes, "{what}");
            assert_eq!(other.rx(), port.tx() + port.dropped(), "frames vanished or multiplied: {what}");
            let waiting = port.tx().checked_sub(guest.rx_packets).expect(&what);
            assert!(waiting <= rings, "{waiting} frames are on their way to the guest: {what}");
            assert!(port.drops().keys().all(|reason| reason == "no-buffers"), "{what}");
            assert_eq!(port.0.queues.len(), usize::from(self.queues), "{what}");
            assert!(port.0.queues.iter().all(|queue| queue.rx_packets > 0 && queue.tx_packets > 0), "{what}");
        }
    }
}

/// Says which DPDK a guest has. `cargo xtask verify --only dpdk-current` reads it.
fn tell(case: Case, testpmd: &Testpmd) {
    println!("{case:?}, with {}", testpmd.version().expect("it tells its version at its start"));
}

fn matrix(guest_listens: bool, queues: u16) -> Vec<Case> {
    let mut cases = Vec::new();
    for packed in [false, true] {
        for mergeable in [false, true] {
            for in_order in [false, true] {
                cases.push(Case { packed, mergeable, in_order, guest_listens, queues });
            }
        }
    }
    cases
}

fn run(cases: impl IntoIterator<Item = Case>) {
    for case in cases {
        let began = Instant::now();
        if let Err(error) = case.run() {
            panic!("{case:?}: {error}");
        }
        println!("{case:?}: {:?}", began.elapsed());
    }
}

#[test]
fn every_kind_of_ring_as_a_server() {
    run(matrix(false, 1));
}

#[test]
fn every_kind_of_ring_as_a_client() {
    run(matrix(true, 1));
}

#[test]
fn two_queue_pairs() {
    run(matrix(false, 2).into_iter().filter(|case| case.mergeable && !case.in_order));
}

/// An application sends packets of several buffers: in chains of its ring, and in indirect tables.
#[test]
fn packets_of_several_buffers_arrive_whole() -> Result<()> {
    /// Segments of a packet, as testpmd reads them.
    const SEGMENTS: [&str; 3] = ["64,64", "64,100,200,300", "2000,2000,2000,2000,1000"];
    /// The application may send packets of several buffers.
    const MULTI_SEGMENT: &str = "--tx-offloads=0x8000";
    for case in matrix(false, 1) {
        let home = Home::new();
        let millrace = home.start((vhost_user("a"), sink("sink"), patch("a", "sink"), e2e::poller()));
        let testpmd = Testpmd::builder("several").port(case.port(&home, "a")).forward(dpdk::Forward::TxOnly);
        let mut testpmd = testpmd.argument(MULTI_SEGMENT).spawn()?;
        testpmd.wait_ready(dpdk::READY)?;
        tell(case, &testpmd);
        millrace.wait_up(&["a"]);
        for segments in SEGMENTS {
            testpmd.command(&format!("set txpkts {segments}"))?;
            let before = millrace.port("a").rx();
            testpmd.start()?;
            wait_for(&format!("{case:?}: packets of {segments}, not {:?}", millrace.port("a").0), || {
                (millrace.port("a").rx() >= before + WANTED).then_some(())
            });
            testpmd.stop()?;
            let sent = testpmd.stats()?[0];
            let port = wait_for(&format!("{case:?}: all packets of {segments}"), || {
                let port = millrace.port("a");
                (port.rx() == sent.tx_packets).then_some(port)
            });
            assert_eq!(port.rx_bytes(), sent.tx_bytes, "{case:?}, {segments}");
            assert!(port.drops().is_empty(), "{case:?}, {segments}: {:?}", port.drops());
        }
        testpmd.quit(e2e::SOON)?;
    }
    Ok(())
}

/// The number of queues is not configured: the port has as many as each guest requests, and sends through those alone.
#[test]
fn a_port_follows_its_guests() -> Result<()> {
    let home = Home::new();
    let case = Case { packed: false, mergeable: true, in_order: false, guest_listens: false, queues: 1 };
    let millrace = home.start(case.config());
    let moved = |queue: usize| {
        let stats = ["a", "b"]
            .map(|name| millrace.port(name).0.queues.get(queue).map_or([0; 2], |q| [q.rx_packets, q.tx_packets]));
        stats.concat()
    };
    for queues in [4_u16, 1, 2] {
        let before: Vec<_> = (0..4).map(moved).collect();
        let lost = || ["a", "b"].map(|name| millrace.port(name).drops().get("down").copied().unwrap_or_default());
        let lost_before = lost();
        let mut testpmd = Case { queues, ..case }.guest(&home, &millrace)?;
        for queue in 0..4 {
            let went_on = || moved(queue).iter().zip(&before[queue]).all(|(now, before)| *now > before + 1000);
            if queue < queues.into() {
                wait_for(&format!("queue {queue} of {queues} to move frames"), || went_on().then_some(()));
            } else {
                assert_eq!(moved(queue), before[queue], "queue {queue} of {queues} has no guest");
            }
        }
        testpmd.stop()?;
        assert_eq!(lost(), lost_before, "{queues} queues");
        testpmd.quit(e2e::SOON)?;
        millrace.wait_down("a");
        millrace.wait_down("b");
        assert_eq!(millrace.port("a").0.queues.len(), 4, "those that were");
    }
    Ok(())
}
