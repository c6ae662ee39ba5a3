//! Kinds of ports whose queue is shared.

use super::*;
use e2e::mapped;
use e2e::virtio::Pump;
use e2e::wire::{Cable, DPDK, wan};
use lab::dpdk::{self, Testpmd};

/// Frames each way.
const FRAMES: u64 = 5000;

#[test]
fn an_af_xdp_queue_has_three_workers() -> Result<()> {
    three_workers(wan(), None)
}

#[test]
fn a_dpdk_queue_has_three_workers() -> Result<()> {
    three_workers(dpdk_port("wan", "net_af_packet0"), Some(dpdk_devices(&[DPDK])))
}

fn three_workers(wan: RawPort, dpdk: Option<RawDpdk>) -> Result<()> {
    for (keys, way) in [(static_roles(), "static-role"), (locked(), "locked")] {
        let (cable, home) = (Cable::new()?, Home::new());
        let wire = cable.wire();
        let millrace = cable.switch(&home, shared(&keys, wan.clone()), (joined(), workers(3), &dpdk));
        let ends = ends(&home, &millrace, &wire)?;
        // Workers that take turns overtake each other.
        let exchange = Exchange::new(ends, [1, 2], SIZES, WINDOW);
        let mut exchange = if way == "locked" { exchange.in_any_order() } else { exchange };
        exchange.run(FRAMES, e2e::SOON).unwrap();
        adds_up(&millrace, "wan", [FRAMES; 2], &[0, 1, 2]);
        assert_eq!(millrace.port("wan").0.queues[0].sharing.as_deref(), Some(way));
        let fw = millrace.counted("fw", FRAMES, FRAMES);
        assert!(fw.drops().is_empty() && fw.0.queues[0].lanes.is_empty(), "{:?}", fw.0);
        let told = millrace.ctl("workers");
        let parts = ["wan.0:lane0", "wan.0:lane1", "wan.0:lane2"];
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
        assert_eq!(told.contains("wan.0:parent"), way == "static-role", "{told}");
        let told = millrace.ctl("stats");
        assert!(told.lines().any(|line| line.trim_start().starts_with("wan") && line.contains(" 0 1 2 ")), "{told}");
        let passed: u64 = millrace.stats().workers.iter().map(|worker| worker.packets).sum();
        assert_eq!(passed, 2 * FRAMES, "each frame is processed by one worker: {:?}", millrace.stats().workers);
        millrace.stop();
    }
    Ok(())
}

#[test]
fn guests_behind_a_shared_queue_are_killed_and_come_back() -> Result<()> {
    for keys in [static_roles(), locked()] {
        let (cable, home) = (Cable::new()?, Home::new());
        let wire = cable.wire();
        let millrace = cable.switch(&home, shared(&keys, wan()), (joined(), workers(3)));
        let mut far = mapped::blaster(wire.home.socket("far"), false, [2, 1])?;
        for death in 0..10 {
            let mut victim = mapped::blaster(home.socket("fw"), death % 2 == 0, [1, 2])?;
            let before = millrace.port("fw");
            wait_for("frames both ways", || {
                let now = millrace.port("fw");
                (now.rx() > before.rx() + 500 && now.tx() > before.tx() + 500).then_some(())
            });
            victim.kill()?;
            millrace.wait_gone("fw");
        }
        far.kill()?;
        nothing_vanished(&millrace);
        let ends = ends(&home, &millrace, &wire)?;
        let exchange = Exchange::new(ends, [3, 4], SIZES, WINDOW);
        let mut exchange = if is(RxSharing::Locked, &keys) { exchange.in_any_order() } else { exchange };
        exchange.run(FRAMES / 5, e2e::SOON).unwrap();
        millrace.stop();
    }
    Ok(())
}

/// A bridge of the shared port with two guests; both exchange frames with the far side at the same time.
#[test]
fn a_virtio_user_queue_has_three_workers() -> Result<()> {
    for packed in [false, true] {
        for keys in [static_roles(), parented(0, roles(&[2, 1])), locked()] {
            let (wire, home) = (forked_wire(), Home::new());
            let ports = ["wan", "fw", "other"];
            let ends = [(1, "fw"), (3, "other"), (2, "wan"), (4, "wan")];
            let guests = [vhost_user("fw"), vhost_user("other")];
            let wan = shared(&keys, wire.port(packed));
            let millrace = home.start((wan, guests, knowing(&ports, &ends), workers(3)));
            millrace.wait_up(&["wan"]);
            let pumps = [("fw", "far", [1, 2]), ("other", "far2", [3, 4])].map(|(near, far, numbers)| {
                let ends = [guest(&home, &millrace, near).unwrap(), wire.guest(far).unwrap()];
                let exchange = Exchange::new(ends, numbers, SIZES, WINDOW);
                Pump::start(if is(RxSharing::Locked, &keys) { exchange.in_any_order() } else { exchange })
            });
            for pump in &pumps {
                pump.wait_for(FRAMES / 4, e2e::SOON).unwrap();
            }
            let mut sums = [0; 2];
            for (pump, port) in pumps.into_iter().zip(["fw", "other"]) {
                let tally = pump.stop()?;
                assert!(tally.is_complete(), "{tally:?}");
                let guest = millrace.counted(port, tally.sent[0], tally.sent[1]);
                assert!(guest.drops().is_empty(), "{:?}", guest.0);
                sums = [sums[0] + tally.sent[1], sums[1] + tally.sent[0]];
            }
            let lanes: &[usize] = if keys.parent.is_some() { &[2, 1] } else { &[0, 1, 2] };
            adds_up(&millrace, "wan", sums, lanes);
            millrace.stop();
        }
    }
    Ok(())
}

#[test]
fn dpdk_guests_behind_a_shared_queue() -> Result<()> {
    for packed in [false, true] {
        let (wire, home) = (Wire::start(), Home::new());
        let wan = shared(&static_roles(), wire.port(packed));
        let millrace = home.start((wan, vhost_user("fw"), joined(), workers(3)));
        millrace.wait_up(&["wan"]);
        let near = dpdk::Port::new(home.socket("fw"));
        let near = if packed { near.packed() } else { near };
        let far = dpdk::Port::new(wire.home.socket("far"));
        let mut testpmd = Testpmd::builder("loop").port(near).port(far).spawn()?;
        testpmd.wait_ready(dpdk::READY)?;
        testpmd.start_tx_first(2)?;
        wait_for("frames to go round", || {
            let wan = millrace.port("wan");
            (wan.rx() > 4 * FRAMES && wan.tx() > 4 * FRAMES).then_some(())
        });
        testpmd.stop()?;
        testpmd.quit(e2e::SOON)?;
        assert_eq!(millrace.port("wan").dropped(), 0, "{:?}", millrace.port("wan").0);
        millrace.stop();
    }
    Ok(())
}

/// All workers sleep whenever no frame is there, which is most of the time: none of them sleeps through its frame.
#[test]
fn eight_workers_that_sleep_are_woken() -> Result<()> {
    const WORKERS: usize = 8;
    let list: Vec<usize> = (0..WORKERS).collect();
    for way in [RxSharing::StaticRole, RxSharing::Locked] {
        let (wire, home) = (Wire::start(), Home::new());
        let wan = shared(&sharing(way, &(0..WORKERS as i64).collect::<Vec<_>>()), wire.port(false));
        let workers = vec![RawWorker { patience: "0s".into(), ..sleeper() }; WORKERS];
        let millrace = home.start((wan, vhost_user("fw"), joined(), workers));
        millrace.wait_up(&["wan"]);
        let mut exchange = unordered(ends(&home, &millrace, &wire)?, [1, 2]);
        let frames = 300;
        for _ in 0..frames {
            exchange.run(1, e2e::SOON).unwrap();
            // Longer than any worker polls for frames.
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        adds_up(&millrace, "wan", [frames; 2], &list);
        let sleeps: Vec<u64> = millrace.stats().workers.iter().map(|worker| worker.sleeps).collect();
        assert!(sleeps.iter().all(|&sleeps| sleeps > 0), "{sleeps:?}");
        millrace.stop();
    }
    Ok(())
}
