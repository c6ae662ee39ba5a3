use super::*;
use crate::parts::Refusal;
use api::code::Code;
use api::confinement::Confined;
use api::event::Event;
use api::part::{Change, PartKind};
use api::port::PortSummary;
use api::reload::ReloadReport;
use engine::events::{CannotFollow, Follower};
use engine::stats::PortState;
use engine::stats::{
    AggregationFlow, AggregationPort, AggregationSide, AggregationStats, BURST_BOUNDS, DatapathStats, LearningStats,
    MacEntry, NextHopStats, OffloadStats, PortStats, QueueStats, RecordingStats, Snapshot, WorkerStats,
};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use toml::Table;

struct MetricsHandler;

impl Handler for MetricsHandler {
    fn ports(&self) -> Vec<PortSummary> {
        self.snapshot().ports.iter().map(PortSummary::from).collect()
    }
    fn port_state(&self, _: &str) -> Option<PortState> {
        None
    }
    fn add(&self, _: PartKind, _: Table) -> Result<Change, Refusal> {
        Err(Refusal::new(Code::Refused, "no"))
    }
    fn set(&self, _: PartKind, _: &str, _: (Table, &[String], bool)) -> Result<Change, Refusal> {
        Err(Refusal::new(Code::Refused, "no"))
    }
    fn remove(&self, _: PartKind, _: &str) -> Result<Change, Refusal> {
        Err(Refusal::new(Code::Refused, "no"))
    }
    fn snapshot(&self) -> Snapshot {
        let mut bursts = [0; BURST_BOUNDS.len()];
        (bursts[0], bursts[2], bursts[6]) = (5, 2, 1);
        let queue = QueueStats {
            rx_packets: 45,
            rx_bytes: 2880,
            tx_packets: 3,
            tx_bytes: 180,
            bursts,
            worker: Some(0),
            ..QueueStats::default()
        };
        let port = PortStats {
            name: "a".into(),
            driver: "tap".into(),
            up: true,
            queues: vec![QueueStats::default(), queue],
            stage_drops: [("queue".to_owned(), [("no_buffer".to_owned(), 7)].into())].into(),
            neighbours_answered: 6,
            cut_short: 11,
            offloads: Some(OffloadStats {
                received: 12,
                passed_on: 13,
                completed: 14,
                merged: 16,
                messages: 15,
                ..OffloadStats::default()
            }),
            recordings: vec![RecordingStats {
                file: "/a.pcap".into(),
                records: true,
                written: 21,
                lost: [("no-room".to_owned(), 5)].into(),
                ..RecordingStats::default()
            }],
            learning: Some(LearningStats { learned: 3, over_limit: 8, flooded: 9, ..LearningStats::default() }),
            ..PortStats::default()
        };
        let worker = WorkerStats {
            cpu: Some(2),
            busy_cycles: 100,
            idle_cycles: 900,
            stage_cycles_per_packet: [("receive".to_owned(), 12.5)].into(),
            ..WorkerStats::default()
        };
        let mut side = AggregationSide { packets: 50, frames: 10, bytes: 9000, aggregates: 4, ..Default::default() };
        (side.held[0], side.held[4], side.sizes[4]) = (6, 4, 10);
        let port_aggregates = AggregationPort { port: "a".into(), sent: side, ..Default::default() };
        let hop = NextHopStats { nfi: 7, aggregates: 4, packets: 44, ..Default::default() };
        let aggregation = AggregationStats { next_hops: vec![hop], ports: vec![port_aggregates], ..Default::default() };
        Snapshot {
            aggregation: Some(aggregation),
            datapath: Some(DatapathStats { bridge: "br0".into(), flows: 3, lookups: 70, ..Default::default() }),
            uptime_seconds: 1.5,
            cycles_hz: 1_000_000,
            ports: vec![port],
            workers: vec![worker],
            ..Snapshot::default()
        }
    }
    fn why(&self, _: &str) -> Option<engine::why::PortWhy> {
        None
    }

    fn macs(&self) -> Vec<MacEntry> {
        Vec::new()
    }
    fn flows(&self) -> Vec<api::flow::Flow> {
        Vec::new()
    }

    fn aggregation_flows(&self) -> Vec<AggregationFlow> {
        Vec::new()
    }
    fn reload(&self) -> Result<ReloadReport, String> {
        Ok(ReloadReport::default())
    }
    fn events(&self, _: Option<u64>, _: Option<usize>) -> Vec<Event> {
        Vec::new()
    }
    fn follow(&self, _: Option<u64>, _: bool) -> Result<(Follower, u64), CannotFollow> {
        Err(CannotFollow::TooMany)
    }
    fn confinement(&self) -> Confined {
        Confined::default()
    }
    fn shutdown(&self) {}
}

#[test]
fn the_page_has_every_metric_and_ends_as_it_must() {
    let page = render(&MetricsHandler.snapshot());
    let expected = [
        "# TYPE millrace_queue_rx_packets counter",
        "millrace_queue_rx_packets_total{port=\"a\",queue=\"1\"} 45",
        "millrace_queue_rx_bytes_total{port=\"a\",queue=\"1\"} 2880",
        "millrace_queue_tx_packets_total{port=\"a\",queue=\"1\"} 3",
        "millrace_queue_tx_bytes_total{port=\"a\",queue=\"0\"} 0",
        "millrace_port_neighbours_answered_total{port=\"a\",driver=\"tap\"} 6",
        "millrace_port_offloads_received_total{port=\"a\",driver=\"tap\"} 12",
        "millrace_port_offloads_passed_on_total{port=\"a\",driver=\"tap\"} 13",
        "millrace_port_offloads_completed_total{port=\"a\",driver=\"tap\"} 14",
        "millrace_port_offloads_merged_total{port=\"a\",driver=\"tap\"} 16",
        "millrace_port_offloads_messages_total{port=\"a\",driver=\"tap\"} 15",
        "millrace_port_cut_short_total{port=\"a\",driver=\"tap\"} 11",
        "millrace_port_learned_addresses{port=\"a\"} 3",
        "millrace_port_unlearned_over_limit_total{port=\"a\"} 8",
        "millrace_port_flooded_total{port=\"a\"} 9",
        "millrace_port_up{port=\"a\",driver=\"tap\"} 1",
        "millrace_port_drops_total{port=\"a\",stage=\"queue\",reason=\"no_buffer\"} 7",
        "millrace_recording_up{port=\"a\",file=\"/a.pcap\"} 1",
        "millrace_recording_written_total{port=\"a\",file=\"/a.pcap\"} 21",
        "millrace_recording_lost_total{port=\"a\",file=\"/a.pcap\",reason=\"no-room\"} 5",
        "# TYPE millrace_queue_rx_burst_packets histogram",
        "millrace_queue_rx_burst_packets_sum{port=\"a\",queue=\"1\"} 45.0",
        "millrace_queue_rx_burst_packets_count{port=\"a\",queue=\"1\"} 8",
        "millrace_queue_rx_burst_packets_bucket{le=\"1.0\",port=\"a\",queue=\"1\"} 5",
        "millrace_queue_rx_burst_packets_bucket{le=\"2.0\",port=\"a\",queue=\"1\"} 5",
        "millrace_queue_rx_burst_packets_bucket{le=\"4.0\",port=\"a\",queue=\"1\"} 7",
        "millrace_queue_rx_burst_packets_bucket{le=\"32.0\",port=\"a\",queue=\"1\"} 8",
        "millrace_queue_rx_burst_packets_bucket{le=\"+Inf\",port=\"a\",queue=\"1\"} 8",
        "millrace_worker_busy_cycles_total{worker=\"0\",cpu=\"2\"} 100",
        "millrace_worker_idle_cycles_total{worker=\"0\",cpu=\"2\"} 900",
        "millrace_worker_stage_cycles_per_packet{worker=\"0\",stage=\"receive\"} 12.5",
        "millrace_aggregation_next_hop_packets_total{nfi=\"7\"} 44",
        "millrace_aggregation_next_hop_aggregates_total{nfi=\"7\"} 4",
        "millrace_aggregation_aggregates_total{port=\"a\",direction=\"out\"} 4",
        "millrace_aggregation_frame_packets_sum{port=\"a\",direction=\"out\"} 50.0",
        "millrace_aggregation_frame_packets_count{port=\"a\",direction=\"out\"} 10",
        "millrace_aggregation_frame_packets_bucket{le=\"16.0\",port=\"a\",direction=\"out\"} 10",
        "millrace_aggregation_frame_size_bytes_sum{port=\"a\",direction=\"out\"} 9000.0",
        "millrace_aggregation_frame_size_bytes_bucket{le=\"512.0\",port=\"a\",direction=\"out\"} 0",
        "millrace_openflow_lookups_total{bridge=\"br0\"} 70",
        "millrace_openflow_flows{bridge=\"br0\"} 3.0",
        "millrace_cycle_counter_hertz 1000000.0",
        "millrace_uptime_seconds 1.5",
        concat!("millrace_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
    ];
    for line in expected {
        assert!(page.lines().any(|found| found == line), "no line {line:?} in:\n{page}");
    }
    assert!(page.ends_with("# EOF\n"), "{page}");
}

#[test]
fn an_empty_switch_has_a_page_too() {
    assert!(render(&Snapshot::default()).ends_with("# EOF\n"));
}

/// Serves on `address` while `client` runs.
fn with_exporter(address: &ListenAddress, client: impl FnOnce(Option<SocketAddr>)) {
    let exporter = Exporter::bind(address).unwrap();
    let tcp = exporter.tcp_address();
    let stop = Stop::new().unwrap();
    let handler: Arc<dyn Handler> = Arc::new(MetricsHandler);
    std::thread::scope(|scope| {
        scope.spawn(|| exporter.serve(&handler, &stop));
        // Set also if the client panics, or the scope would wait forever.
        struct SetOnDrop<'a>(&'a Stop);
        impl Drop for SetOnDrop<'_> {
            fn drop(&mut self) {
                self.0.set();
            }
        }
        let _stop = SetOnDrop(&stop);
        client(tcp);
    });
}

fn exchange(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn http_is_answered_on_loopback() {
    with_exporter(&ListenAddress::Tcp("127.0.0.1:0".parse().unwrap()), |address| {
        let ask = |request: &str| {
            let stream = TcpStream::connect(address.unwrap()).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
            exchange(stream, request)
        };
        // A silent client blocks no other client.
        let _silent = TcpStream::connect(address.unwrap()).unwrap();
        let page = ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let (head, body) = page.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"));
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
        assert_eq!(body, render(&MetricsHandler.snapshot()));

        let head = ask("HEAD /metrics?x=1 HTTP/1.0\n\n");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        let statuses = [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET /metrics HTTP/2.0\r\n\r\n", "505"),
            ("hello\r\n\r\n", "400"),
        ];
        for (request, status) in statuses {
            assert!(ask(request).starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}");
        }
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(9000));
        assert!(ask(&long).starts_with("HTTP/1.1 431 "));
    });
}

#[test]
fn http_is_answered_on_a_unix_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("metrics.sock");
    with_exporter(&ListenAddress::Unix(path.clone()), |_| {
        let page = exchange(UnixStream::connect(&path).unwrap(), "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("# EOF\n"));
    });
    assert!(!Path::new(&path).exists());
}

#[test]
fn a_taken_port_is_reported_with_a_remedy() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = ListenAddress::Tcp(taken.local_addr().unwrap());
    let error = Exporter::bind(&address).unwrap_err().to_string();
    assert!(error.contains("[metrics] listen"), "{error}");
}
