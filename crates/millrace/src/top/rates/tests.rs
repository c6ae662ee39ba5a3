use super::super::sample::tests::sample;
use super::*;
use engine::stats::AggregationPort as PortCounters;

fn snapshot(uptime_seconds: f64, packets: u64) -> Snapshot {
    let queue = QueueStats {
        rx_packets: packets,
        rx_bytes: packets * 64,
        tx_packets: packets,
        tx_bytes: packets * 64,
        ..QueueStats::default()
    };
    let drops: BTreeMap<String, u64> = [("busy".to_owned(), packets / 2)].into();
    let port = PortStats {
        name: "a".into(),
        queues: vec![queue.clone(), queue],
        stage_drops: [("queue".to_owned(), drops.clone())].into(),
        drops,
        ..PortStats::default()
    };
    let worker = WorkerStats {
        busy_cycles: packets * 10,
        packets,
        sampled_packets: packets / 10,
        stage_cycles_per_packet: [("receive".to_owned(), packets as f64)].into(),
        ..WorkerStats::default()
    };
    let mapping = MappingStats { from: "a.0".into(), to: "b.0".into(), in_place: packets, ..MappingStats::default() };
    let hop = NextHopStats { nfi: 1, packets, aggregates: packets / 10, ..NextHopStats::default() };
    let sent = AggregationSide { packets, frames: packets / 5, ..AggregationSide::default() };
    let aggregation = AggregationStats {
        next_hops: vec![hop],
        ports: vec![PortCounters { port: "a".into(), sent, ..PortCounters::default() }],
        ..AggregationStats::default()
    };
    Snapshot {
        uptime_seconds,
        cycles_hz: 10_000,
        ports: vec![port],
        workers: vec![worker],
        mappings: vec![mapping],
        aggregation: Some(aggregation),
        ..Snapshot::default()
    }
}

/// From second 100 to `at`.
fn between(before: Snapshot, at: f64, now: Snapshot) -> Rates {
    Rates::between(&sample(100.0, before), &sample(at, now))
}

/// The greatest rate of frames.
fn greatest(rates: &Rates) -> f64 {
    let ports = rates.ports.iter().flat_map(|port| [port.rx_packets_per_second, port.tx_packets_per_second]);
    let drops = rates.drops.iter().map(|drop| drop.drops_per_second);
    let workers = rates.workers.iter().map(|worker| worker.packets_per_second);
    let mappings = rates.mappings.iter().map(|mapping| mapping.in_place_per_second);
    let hops = rates.aggregation.iter().flat_map(|all| &all.next_hops).map(|hop| hop.sent.packets_per_second);
    ports.chain(drops).chain(workers).chain(mappings).chain(hops).fold(0.0, f64::max)
}

#[test]
fn rates_are_differences_over_time() {
    let rates = between(snapshot(10.0, 100), 102.0, snapshot(12.0, 300));
    let port = &rates.ports[0];
    assert_eq!((port.rx_packets_per_second, port.rx_bits_per_second), (200.0, 102_400.0), "both queues");
    assert_eq!((port.drops_per_second, rates.drops[0].drops_per_second, rates.drops[0].frames), (50.0, 50.0, 150));
    assert_eq!(port.mapping, Some(PortMapping { queues: 1, in_place: 0, reason: None }));
    let worker = &rates.workers[0];
    assert_eq!((worker.busy, worker.packets_per_second, worker.cycles_per_packet), (0.1, 100.0, Some(10.0)));
    // 300 cycles for each of 30 frames, less 100 for each of 10.
    assert_eq!(worker.stages["receive"], 400.0);
    assert_eq!(rates.mappings[0].in_place_per_second, 100.0);
    let aggregation = rates.aggregation.unwrap();
    assert_eq!(aggregation.next_hops[0].sent.packets_per_frame, Some(10.0));
    assert_eq!(aggregation.ports[0].sent.packets_per_frame, Some(5.0));
    assert_eq!(aggregation.ports[0].received.packets_per_frame, None);
}

#[test]
fn counters_that_start_again_count_from_zero() {
    let reopened = between(snapshot(10.0, 1_000_000), 102.0, snapshot(12.0, 300));
    assert_eq!(greatest(&reopened), 300.0, "{reopened:?}");
    assert_eq!(reopened.workers[0].stages["receive"], 300.0);
}

#[test]
fn a_restarted_switch_counts_from_zero_over_its_own_time() {
    let young = between(snapshot(10.0, 1_000_000), 112.0, snapshot(3.0, 300));
    assert_eq!((young.seconds, greatest(&young)), (3.0, 200.0));
    // It counted more than the old one, and runs for longer.
    let old = between(snapshot(10.0, 100), 200.0, snapshot(30.0, 300));
    assert_eq!((old.seconds, greatest(&old)), (30.0, 20.0));
}

#[test]
fn ports_and_queues_that_are_new_count_from_zero() {
    let mut before = snapshot(10.0, 100);
    before.ports[0].queues.pop();
    assert_eq!(between(before, 101.0, snapshot(11.0, 100)).ports[0].rx_packets_per_second, 100.0);
    let empty = Snapshot { uptime_seconds: 10.0, ..Snapshot::default() };
    assert_eq!(greatest(&between(empty, 101.0, snapshot(11.0, 100))), 200.0);
}

#[test]
fn no_time_is_no_rate() {
    let rates = between(snapshot(10.0, 100), 100.0, snapshot(10.0, 300));
    assert_eq!((greatest(&rates), rates.workers[0].busy), (0.0, 0.0));
    let idle = Port::between(None, &PortStats::default(), Interval { seconds: 1.0 });
    assert!(idle.drops_per_second.is_sign_positive() && idle.rx_bits_per_second.is_sign_positive(), "{idle:?}");
}

#[test]
fn a_port_with_several_mapped_queues_says_how_many_stay_in_place() {
    let end = |from: &str, zero_copy, reason: Option<&str>| MappingStats {
        from: from.into(),
        to: "guest.1.0".into(),
        zero_copy,
        reason: reason.map(str::to_owned),
        ..MappingStats::default()
    };
    let mappings = [end("wan.0", true, None), end("wan.1", false, Some("no guest"))];
    let found = PortMapping { queues: 2, in_place: 1, reason: Some("no guest".into()) };
    assert_eq!(PortMapping::of("wan", &mappings), Some(found.clone()));
    assert_eq!(PortMapping::of("guest.1", &mappings), Some(found));
    assert_eq!(PortMapping::of("guest", &mappings), None);
}
