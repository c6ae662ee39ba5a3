use super::*;
use crate::parts::Refusal;
use api::code::Code;
use api::confinement::Confined;
use api::event::{Event, EventKind};
use api::part::{Change, Effect, PartKind};
use api::port::PortSummary;
use api::reload::ReloadReport;
use api::request::{self, Request};
use client::{Client, ClientError};
use engine::events::{CannotFollow, Events, Follower};
use engine::stats::{AggregationFlow, MacEntry, PortState, PortStats, QueueStats, Snapshot};
use engine::why::PortWhy;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;
use toml::Table;

struct StubHandler {
    stop: Stop,
    events: Arc<Events>,
}

impl Handler for StubHandler {
    fn snapshot(&self) -> Snapshot {
        let stage_drops = [("queue".to_owned(), [("no_buffer".to_owned(), 3)].into())].into();
        let a = PortStats { name: "a".into(), driver: "sink".into(), stage_drops, ..PortStats::default() };
        let queues = vec![QueueStats { rx_packets: 7, ..QueueStats::default() }];
        let b = PortStats { name: "b".into(), driver: "tap".into(), up: true, queues, ..PortStats::default() };
        Snapshot { uptime_seconds: 1.5, ports: vec![a, b], ..Snapshot::default() }
    }
    fn ports(&self) -> Vec<PortSummary> {
        self.snapshot().ports.iter().map(PortSummary::from).collect()
    }
    fn port_state(&self, port: &str) -> Option<PortState> {
        (port == "b").then(|| PortState { up: true, open: true, detail: "there".into() })
    }
    fn add(&self, kind: PartKind, keys: Table) -> Result<Change, Refusal> {
        let name = keys["name"].as_str().unwrap().to_owned();
        Ok(Change { kind, name, effect: Effect::Added, actions: vec![] })
    }
    fn set(&self, _: PartKind, name: &str, _: (Table, &[String], bool)) -> Result<Change, Refusal> {
        Err(Refusal::new(Code::Absent, format!("there is no {name}")))
    }
    fn remove(&self, kind: PartKind, name: &str) -> Result<Change, Refusal> {
        Ok(Change { kind, name: name.to_owned(), effect: Effect::Unchanged, actions: vec![] })
    }
    fn why(&self, port: &str) -> Option<PortWhy> {
        (port == "a").then(|| PortWhy { port: port.to_owned(), acceleration: "off".into(), ..PortWhy::default() })
    }
    fn macs(&self) -> Vec<MacEntry> {
        vec![MacEntry { bridge: "br".into(), mac: "02:00:00:00:00:01".into(), ..MacEntry::default() }]
    }
    fn flows(&self) -> Vec<api::flow::Flow> {
        Vec::new()
    }

    fn aggregation_flows(&self) -> Vec<AggregationFlow> {
        Vec::new()
    }
    fn reload(&self) -> Result<ReloadReport, String> {
        Err("line 3 is wrong".to_owned())
    }
    fn events(&self, since: Option<u64>, last: Option<usize>) -> Vec<Event> {
        self.events.list(since, last)
    }
    fn follow(&self, since: Option<u64>, learned: bool) -> Result<(Follower, u64), CannotFollow> {
        self.events.follow(since, learned)
    }
    fn confinement(&self) -> Confined {
        Confined { enabled: true, user: "m".into(), ..Confined::default() }
    }
    fn shutdown(&self) {
        self.stop.set();
    }
}

/// A running server; dropping it stops it.
struct Running {
    path: PathBuf,
    stop: Stop,
    events: Arc<Events>,
    thread: Option<JoinHandle<()>>,
    _directory: tempfile::TempDir,
}

impl Running {
    fn start(limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        let stop = Stop::new().unwrap();
        let server = Server { limits, ..Server::bind(&path).unwrap() };
        let events = Arc::new(Events::new());
        let handler = StubHandler { stop: stop.clone(), events: events.clone() };
        let (handler, stopper): (Arc<dyn Handler>, _) = (Arc::new(handler), stop.clone());
        let thread = Some(std::thread::spawn(move || server.serve(&handler, &stopper)));
        Self { path, stop, events, thread, _directory: directory }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream
    }

    /// Sends raw bytes on a new connection and reads one line.
    fn ask(&self, bytes: &[u8]) -> Value {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        read_line(&mut BufReader::new(stream))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn read_line(reader: &mut impl BufRead) -> Value {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
}

#[test]
fn every_method_answers_its_type() {
    let server = Running::start(LIMITS);
    let mut client = Client::connect(&server.path).unwrap();
    let stats = client.call(&request::Stats {}).unwrap();
    assert_eq!(stats.ports[1].queues[0].rx_packets, 7);
    let ports = client.call(&request::Ports {}).unwrap();
    assert_eq!((ports[1].name.as_str(), ports[1].up, ports[1].queues), ("b", true, 1));
    assert_eq!(client.ask(&request::Workers {}).unwrap(), json!([]));
    let macs = client.call(&request::Mac {}).unwrap();
    assert_eq!(macs[0].bridge, "br");
    let drops = client.call(&request::Drops {}).unwrap();
    assert_eq!(drops, [("a".to_owned(), stats.ports[0].stage_drops.clone())].into());
    let why = client.call(&request::Why { port: "a".into() }).unwrap();
    assert_eq!((why.port.as_str(), why.acceleration.as_str()), ("a", "off"));
    let version = client.call(&request::Version {}).unwrap();
    assert_eq!(version.name, "millrace");
    let confined = client.call(&request::Confinement {}).unwrap();
    assert!(confined.enabled && confined.user == "m");
    let error = client.call(&request::Reload {}).unwrap_err();
    assert!(
        matches!(&error, ClientError::Refused { code: -32000, message } if message == "line 3 is wrong"),
        "{error}"
    );
    assert_eq!(error.code(), Some(Code::Refused));
    let absent = client.call(&request::PortSet { name: "x".into(), ..Default::default() }).unwrap_err();
    assert_eq!(absent.code(), Some(Code::Absent));
    assert!(client.call(&request::PortGet { name: "b".into() }).unwrap().unwrap().open);
    assert!(client.call(&request::PortGet { name: "x".into() }).unwrap().is_none());
}

#[test]
fn malformed_requests_get_the_errors_of_the_specification() {
    let server = Running::start(LIMITS);
    let cases: [(&str, i64, Value); 13] = [
        ("{\"jsonrpc\": \"2.0\", \"method\"", -32700, Value::Null),
        ("\u{0}\u{1}", -32700, Value::Null),
        ("1", -32600, Value::Null),
        ("[]", -32600, Value::Null),
        (r#"{"method": "ports", "id": 1}"#, -32600, Value::Null),
        (r#"{"jsonrpc": "2.0", "method": 1, "id": 1}"#, -32600, Value::Null),
        (r#"{"jsonrpc": "2.0", "method": "ports", "id": {}}"#, -32600, Value::Null),
        (r#"{"jsonrpc": "2.0", "method": "ports", "params": 1, "id": 1}"#, -32600, Value::Null),
        (r#"{"jsonrpc": "2.0", "method": "explode", "id": 1}"#, -32601, json!(1)),
        (r#"{"jsonrpc": "2.0", "method": "ports", "params": [1], "id": "x"}"#, -32602, json!("x")),
        (r#"{"jsonrpc": "2.0", "method": "why", "id": 2}"#, -32602, json!(2)),
        (r#"{"jsonrpc": "2.0", "method": "why", "params": {"port": "c"}, "id": 3}"#, -32602, json!(3)),
        (&format!("[{}1]", "1,".repeat(40)), -32600, Value::Null),
    ];
    for (line, code, id) in cases {
        let reply = server.ask(format!("{line}\n").as_bytes());
        assert_eq!((&reply["error"]["code"], &reply["id"]), (&json!(code), &id), "{line}: {reply}");
        assert_eq!(reply["jsonrpc"], "2.0");
        assert!(reply.get("result").is_none());
    }
    let deep = server.ask(format!("{}\n", "[".repeat(5000)).as_bytes());
    assert_eq!(deep["error"]["code"], -32700);
}

#[test]
fn batches_and_notifications_are_answered_as_specified() {
    let server = Running::start(LIMITS);
    let mut stream = server.connect();
    let notification = r#"{"jsonrpc": "2.0", "method": "version"}"#;
    let request = r#"{"jsonrpc": "2.0", "method": "version", "id": 5}"#;
    // Two notifications without replies, an empty line, and, in the same write, a batch with replies.
    stream
        .write_all(format!("{notification}\n[{notification}]\n\r\n[{request},{notification},2]\n").as_bytes())
        .unwrap();
    let replies = read_line(&mut BufReader::new(stream));
    let replies = replies.as_array().unwrap();
    assert_eq!(replies.len(), 2);
    assert_eq!((&replies[0]["id"], &replies[0]["result"]["name"]), (&json!(5), &json!("millrace")));
    assert_eq!(replies[1]["error"]["code"], -32600);
}

#[test]
fn a_flood_without_line_end_is_cut_off() {
    let server = Running::start(LIMITS);
    let mut stream = server.connect();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    // The switch closes during this write: not all of it may be accepted.
    let _ = stream.write_all(&vec![b'x'; LONGEST_LINE + 1]);
    assert_eq!(read_line(&mut reader)["error"]["code"], -32600);
    let mut rest = Vec::new();
    let _ = reader.read_to_end(&mut rest);
    assert!(rest.is_empty());
}

#[test]
fn a_line_of_the_longest_length_is_read() {
    let server = Running::start(LIMITS);
    let mut line = br#"{"jsonrpc": "2.0", "method": "version", "id": 1}"#.to_vec();
    line.splice(1..1, vec![b' '; LONGEST_LINE - line.len()]);
    assert_eq!(line.len(), LONGEST_LINE);
    line.push(b'\n');
    assert_eq!(server.ask(&line)["id"], 1);
}

/// Starts a server with line timeout `line`, two of whose three connections are taken by clients that send half a line.
fn stalling(line: Duration) -> (Running, Vec<UnixStream>) {
    let server = Running::start(Limits { connections: 3, line, ..LIMITS });
    let mut stalled: Vec<UnixStream> = (0..2).map(|_| server.connect()).collect();
    for stream in &mut stalled {
        stream.write_all(b"{\"jsonrpc\"").unwrap();
    }
    (server, stalled)
}

#[test]
fn stalling_clients_block_no_other_client() {
    let (server, stalled) = stalling(Duration::from_secs(600));
    let mut client = Client::connect(&server.path).unwrap();
    assert!(client.call(&request::Version {}).is_ok());
    // The limit is reached while `client` is still open.
    let refused = read_line(&mut BufReader::new(server.connect()));
    assert_eq!(refused["error"]["code"], -32000);
    assert!(client.call(&request::Version {}).is_ok());
    drop(stalled);
}

#[test]
fn stalling_clients_are_dropped() {
    let (server, mut stalled) = stalling(Duration::from_millis(200));
    for stream in &mut stalled {
        assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "dropped without a word");
    }
    // Their slots are free once their threads have ended, possibly later than the clients notice.
    let places = || (0..3).map(|_| server.connect()).collect::<Vec<_>>();
    let served = |mut stream: &UnixStream| {
        stream.write_all(b"{\"jsonrpc\": \"2.0\", \"method\": \"version\", \"id\": 2}\n").is_ok()
            && read_line(&mut BufReader::new(stream))["id"] == 2
    };
    let deadline = Instant::now() + Duration::from_secs(120);
    while !places().iter().all(served) {
        assert!(Instant::now() < deadline, "who was dropped still has its place");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn shutdown_is_answered_and_ends_the_server() {
    let mut server = Running::start(LIMITS);
    let idle = server.connect();
    let mut client = Client::connect(&server.path).unwrap();
    client.call(&request::Shutdown {}).unwrap();
    server.thread.take().unwrap().join().unwrap();
    assert!(!server.path.exists(), "the socket is removed");
    drop(idle);
    let error = Client::connect(&server.path).unwrap_err();
    assert!(error.to_string().contains("--socket"), "{error}");
}

fn port(number: usize) -> EventKind {
    // Long enough that a socket's buffer holds few of them.
    EventKind::PortDown { port: number.to_string(), reason: "x".repeat(1000) }
}

#[test]
fn events_come_between_the_answers_of_a_connection() {
    let server = Running::start(Limits { idle: Duration::from_millis(50), ..LIMITS });
    server.events.tell(port(0));
    let mut client = Client::connect(&server.path).unwrap();
    let listed = client.call(&request::EventsList::default()).unwrap();
    assert_eq!(listed.iter().map(|event| &event.kind).collect::<Vec<_>>(), [&port(0)]);

    // In one batch, and with requests later: the connection has both.
    let mut stream = server.connect();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let follow = r#"{"jsonrpc": "2.0", "method": "events.follow", "params": {"since": 0}, "id": 1}"#;
    stream.write_all(format!("[{follow}]\n").as_bytes()).unwrap();
    let seq = listed[0].seq;
    assert_eq!(read_line(&mut reader), json!([{"jsonrpc": "2.0", "id": 1, "result": {"seq": seq}}]));
    let event = read_line(&mut reader);
    assert_eq!((&event["method"], &event["params"]["port"]), (&json!("event"), &json!("0")));
    assert!(event.get("id").is_none());
    // A follower may be silent for longer than others.
    std::thread::sleep(Duration::from_millis(100));
    stream.write_all(b"{\"jsonrpc\": \"2.0\", \"method\": \"version\", \"id\": 2}\n").unwrap();
    assert_eq!(read_line(&mut reader)["id"], 2);
    server.events.tell(port(1));
    assert_eq!(read_line(&mut reader)["params"]["seq"], seq + 1);
}

#[test]
fn a_follower_that_does_not_read_loses_events_and_holds_up_nobody() {
    let server = Running::start(LIMITS);
    let follow = || Client::connect(&server.path).unwrap().follow(&request::EventsFollow::default()).unwrap();
    let (mut slow, mut quick) = (follow(), follow());
    const COUNT: usize = 10_000;
    for number in 0..COUNT {
        server.events.tell(port(number));
        // The connection thread reads the log in its own time: wait for it, so that only one is slow.
        let event = quick.next_within(Duration::from_secs(120)).unwrap().unwrap();
        assert_eq!(event.kind, port(number));
    }
    let (mut got, mut lost) = (0, 0);
    while got + lost < COUNT as u64 {
        let Event { kind, seq, .. } = slow.next_within(Duration::from_secs(120)).unwrap().expect("there are more");
        match kind {
            EventKind::Lost { count } => lost += count,
            kind => {
                assert_eq!(kind, port((got + lost) as usize));
                got += 1;
            }
        }
        assert_eq!(seq, slow.seq());
    }
    assert!(lost > 0 && got > 0, "{got} {lost}");
    assert!(slow.next_within(Duration::from_millis(10)).unwrap().is_none());
    server.events.tell(port(COUNT));
    assert_eq!(slow.next().unwrap().unwrap().kind, port(COUNT));
    // It ends with the switch.
    drop(server);
    assert!(slow.next().unwrap().is_err() && slow.next().is_none());
}

#[test]
fn each_method_has_a_name_of_its_own() {
    let mut names: Vec<_> = crate::control::methods::METHODS.iter().map(|method| method.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 26);
    assert!(names.contains(&request::PortAdd::METHOD));
}
