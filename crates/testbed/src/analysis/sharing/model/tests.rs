//! Limits of the model, where the answer is known.

use super::*;

const COSTS: Costs = Costs {
    alone: Cost { batch: 320.0, packet: 40.0 },
    parent: Cost { batch: 640.0, packet: 40.0 },
    worker: Cost { batch: 160.0, packet: 0.0 },
    locked: Cost { batch: 480.0, packet: 40.0 },
    moved: 0.0,
    hand_over: 800.0,
};

fn model(work: f64) -> Model {
    Model { costs: COSTS, work, batch: 32.0 }
}

fn close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-9
}

#[test]
fn one_thread_does_one_packet_in_its_time() {
    let model = model(500.0);
    for (kind, cycles) in [
        (Kind::RssOneFlow, 550.0),
        (Kind::RssManyFlows, 550.0),
        (Kind::Locked, 555.0),
        (Kind::StaticRole, 505.0),
        (Kind::WorkingParent, 565.0),
    ] {
        assert!(close(model.capacity(kind, 1), 1.0 / cycles), "{}", kind.name());
    }
}

#[test]
fn the_parent_is_the_limit_of_many_workers() {
    let model = model(500.0);
    for kind in [Kind::StaticRole, Kind::WorkingParent] {
        assert!(close(model.capacity(kind, 1000), 1.0 / 60.0));
        let knee = model.saturation(kind).unwrap();
        assert!(close(model.capacity(kind, knee), 1.0 / 60.0) && model.capacity(kind, knee - 1) < 1.0 / 60.0);
    }
    assert_eq!(model.saturation(Kind::StaticRole), Some(9));
}

#[test]
fn the_lock_is_the_limit_of_many_threads() {
    let model = model(500.0);
    // With the hand-over, as one thread always waits.
    let limit = 32.0 / (480.0 + 40.0 * 32.0 + 800.0);
    assert!((model.capacity(Kind::Locked, 1000) / limit - 1.0).abs() < 1e-3);
    // 16,000 cycles of work, and 2560 with the lock.
    assert_eq!(model.saturation(Kind::Locked), Some(8));
    // Without work one lock is all that there is.
    assert!(close(self::model(0.0).capacity(Kind::Locked, 16), limit));
}

#[test]
fn a_lock_is_between_free_and_always_taken() {
    let work = |work| model(work).capacity(Kind::Locked, 2);
    // Two threads: one is handed over what the other has, in the share of time for which that one alone has it.
    let held = |held: f64| (work(500.0) * (held * (1.0 + held / (held + 16_000.0)) + 16_000.0) / 64.0, held);
    let found = (1760..2560)
        .map(|cycles| held(f64::from(cycles)))
        .min_by(|a, b| (a.0 - 1.0).abs().total_cmp(&(b.0 - 1.0).abs()));
    let held = found.unwrap().1;
    assert!((held - (1760.0 + 800.0 * held / (held + 16_000.0))).abs() < 2.0, "{held}");
    for threads in 1..16 {
        for work in [0.0, 200.0, 1000.0] {
            let rate = model(work).capacity(Kind::Locked, threads) / 32.0;
            let [slow, fast] = [2560.0, 1760.0].map(|held| repairman(threads, work * 32.0, held));
            assert!(rate >= slow * (1.0 - 1e-9) && rate <= fast * (1.0 + 1e-9), "{threads}, {work}");
        }
    }
}

#[test]
fn state_moves_between_threads_even_if_the_lock_is_free() {
    let costs = Costs { moved: 600.0, hand_over: 0.0, ..COSTS };
    let locked = |threads, work| Model { costs, work, batch: 32.0 }.capacity(Kind::Locked, threads);
    assert!(close(locked(1, 500.0), 1.0 / 555.0), "one thread moves nothing");
    // Of two threads, every other turn is after one of the other's.
    assert!(close(locked(2, 0.0), 32.0 / (480.0 + 40.0 * 32.0 + 300.0)));
    let limit = 32.0 / (480.0 + 40.0 * 32.0 + 600.0);
    assert!((locked(1000, 500.0) / limit - 1.0).abs() < 1e-3);
}

#[test]
fn more_threads_are_never_slower_and_more_work_is_never_faster() {
    // But for a lock, which is handed over more often the more threads there are, and less the more they work.
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Locked) {
        for threads in 1..16 {
            for work in [0.0, 200.0, 500.0, 1000.0, 5000.0] {
                let here = model(work).capacity(kind, threads);
                assert!(model(work).capacity(kind, threads + 1) >= here, "{}", kind.name());
                assert!(model(work + 10.0).capacity(kind, threads) <= here, "{}", kind.name());
            }
        }
    }
    let locked = |threads| model(5000.0).capacity(Kind::Locked, threads);
    assert!((1..16).all(|threads| locked(threads + 1) > locked(threads)), "far from its limit");
}

#[test]
fn one_flow_is_never_faster_with_more_queues() {
    let model = model(500.0);
    assert!(close(model.capacity(Kind::RssOneFlow, 16), model.capacity(Kind::RssOneFlow, 1)));
    assert!(close(model.capacity(Kind::RssManyFlows, 16), 16.0 * model.capacity(Kind::RssOneFlow, 1)));
    assert_eq!((model.saturation(Kind::RssOneFlow), model.saturation(Kind::RssManyFlows)), (Some(1), None));
}

#[test]
fn the_repairman_is_between_its_bounds() {
    assert!(close(repairman(1, 900.0, 100.0), 1e-3));
    assert!(close(repairman(4, 0.0, 100.0), 1e-2));
    // The second one finds the first half of the time: 150 cycles with the wait, and 100 without.
    assert!(close(repairman(2, 100.0, 100.0), 0.8e-2));
    for customers in 1..20 {
        let rate = repairman(customers, 1000.0, 100.0);
        assert!(rate <= (f64::from(customers) / 1100.0).min(0.01) * (1.0 + 1e-12));
    }
}

#[test]
fn the_queue_of_one_server_is_known() {
    // Pollaczek and Khinchine: half of busy^2 / (1 - busy).
    assert!(close(waiting(1, 0.5), 0.25) && close(waiting(1, 0.9), 4.05));
    // Erlang's C for two servers is 2 busy^2 / (1 + busy).
    assert!(close(waiting(2, 0.5), (2.0 * 0.25 / 1.5) * 1.0 / 2.0));
    assert_eq!(waiting(4, 0.0), 0.0);
}

#[test]
fn nothing_is_lost_below_the_capacity_and_the_rest_above() {
    for kind in Kind::ALL {
        let model = model(500.0);
        let capacity = model.capacity(kind, 4);
        let waiting = [0.1, 0.5, 0.9, 0.99].map(|share| {
            let queue = model.queue(kind, 4, share * capacity);
            assert_eq!(queue.lost, 0.0);
            queue.waiting.unwrap()
        });
        assert!(waiting.is_sorted() && waiting[0] > 0.0 && waiting[3] > 1.0, "{}: {waiting:?}", kind.name());
        let queue = model.queue(kind, 4, 1.25 * capacity);
        assert_eq!(queue.waiting, None);
        assert!(close(queue.lost, 0.2));
    }
}

#[test]
fn a_cost_passes_through_its_measurements() {
    let cost = Cost { batch: 300.0, packet: 20.0 };
    let each = |packets: f64| (packets, cost.of(packets) / packets);
    for found in [Cost::through([each(4.0), each(32.0)]), Cost::through([each(32.0), each(4.0)])] {
        assert!(close(found.batch, 300.0) && close(found.packet, 20.0));
    }
    // Longer batches that cost more have no cost of their own; and a packet's cost is not negative.
    assert_eq!(Cost::through([(4.0, 50.0), (32.0, 60.0)]), Cost { batch: 0.0, packet: 60.0 });
    assert_eq!(Cost::through([(1.0, 3200.0), (32.0, 10.0)]), Cost { batch: 320.0, packet: 0.0 });
    assert_eq!(Cost::through([(32.0, 10.0), (32.0, 12.0)]).batch, 0.0);
}

#[test]
fn links_are_as_fast_as_the_standard_says() {
    let packets = |gigabits, frames| Link { gigabits, frames }.packets();
    // 60 bytes without checksum are the shortest frame: 14.88 Mpps at 10 gigabits.
    assert!((packets(10, Frames::Of(60)) / 14.88e6 - 1.0).abs() < 1e-3);
    assert!((packets(100, Frames::Of(1514)) / 8.127e6 - 1.0).abs() < 1e-3);
    assert!(packets(10, Frames::Imix) > packets(10, Frames::Of(1514)));
    assert_eq!(Link::all().count(), 9);
}
