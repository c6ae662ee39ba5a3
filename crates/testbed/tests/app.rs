//! Traffic applications: over kernel cables between namespaces with every technique of the kernel, and through Millrace. They need
//! root.

mod common;

use lab::millrace::config::{VhostUser, bridge, file, patch, port, socket};
use lab::millrace::{Files, Millrace, Start};
use lab::netns::{Namespace, cable};
use lab::process::{Daemon, Launch};
use loadgen::app::{AppReport, FlowReport, GO, MEASURED, MEASURING, READY, STOP};
use loadgen::endpoint::Addresses;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Time limit for anything that should happen at once.
const SOON: Duration = Duration::from_secs(60);

/// Every technique of the kernel.
const KERNEL: [&str; 6] = ["udp", "udp-mmsg", "raw", "raw-mmsg", "tpacket", "af-xdp"];

/// A low rate for a short time.
const SLOWLY: &str = "--rate 2000 --burst 4 --warmup 0.05 --seconds 0.2 --cooldown 0.1";

/// An application.
struct App(Daemon);

impl App {
    /// Starts an application, and waits until its ports are open.
    fn start(words: &str, ports: &[String]) -> App {
        let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
        command.arg("app").args(words.split_whitespace());
        for port in ports {
            command.args(["--port", port]);
        }
        let mut app = App(Launch::new(words).interactive().spawn(command).unwrap());
        app.wait_for(READY);
        app
    }

    fn wait_for(&mut self, line: &str) {
        self.0.wait_for_line(line, SOON, |said| said == line).unwrap_or_else(|error| panic!("{error}"));
    }

    fn tell(&mut self, line: &str) {
        self.0.send_line(line).unwrap();
    }

    /// Waits for its end, and returns its report.
    fn report(self) -> AppReport {
        let text = self.0.finish(SOON).unwrap_or_else(|error| panic!("{error}"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Lets an application that sends run to its end.
    fn run(mut self) -> AppReport {
        self.tell(GO);
        self.wait_for(MEASURING);
        self.wait_for(MEASURED);
        self.report()
    }
}

/// Two namespaces with a cable between them, whose ends are the ports of endpoints 0 and 1.
struct Cable([Namespace; 2]);

const ENDS: [&str; 2] = ["left", "right"];

impl Cable {
    fn new() -> Cable {
        let both = [0, 1].map(|_| Namespace::create().unwrap_or_else(|error| panic!("as root: {error}")));
        cable([(&both[0], ENDS[0]), (&both[1], ENDS[1])]).unwrap();
        for (number, namespace) in (0..).zip(&both) {
            let end = ENDS[usize::from(number)];
            let [mac, ip] = [Addresses::mac(number).to_string(), format!("{}/24", Addresses::ip(number))];
            // Frames of 1518 bytes.
            namespace.run("ip", &["link", "set", end, "mtu", "1504", "address", &mac, "arp", "on"]).unwrap();
            namespace.run("ip", &["address", "add", &ip, "dev", end]).unwrap();
        }
        Cable(both)
    }

    /// Returns the ports, by names that work in every namespace.
    fn ports(&self) -> [String; 2] {
        [0, 1].map(|end| format!("{}@/proc/{}/ns/net", ENDS[end], self.0[end].name()))
    }
}

/// Checks that all packets of a flow arrived as they were sent, and took their time.
fn all_arrived(flow: &FlowReport, sent: &FlowReport) {
    let (sent, received) = (sent.sent.unwrap(), flow.received.unwrap());
    assert!(sent.packets > 0 && sent.seconds > 0.0, "{flow:?}");
    assert_eq!((received.packets, received.bytes), (sent.packets, sent.bytes), "{flow:?} of {sent:?}");
    assert_eq!((received.duplicates, received.reordered, received.changed), (0, 0, 0), "{flow:?}");
    let times = flow.latency.unwrap();
    // A packet that is sent while others of its burst are read seems to have taken no time.
    assert!(times.min <= times.p50 && times.p50 <= times.p99 && times.max > 0.0, "{times:?}");
    assert!(times.p99 <= times.p99_99 && times.p99_99 <= times.max && times.mean <= times.max, "{times:?}");
}

/// Checks the report of an application that has both ends of pairs.
fn all_came_through(report: &AppReport, pairs: usize) {
    assert_eq!(report.flows.len(), pairs, "{report:?}");
    for (number, flow) in (0u8..).zip(&report.flows) {
        assert_eq!(flow.flow, 2 * number);
        all_arrived(flow, flow);
    }
    assert!((0.0..=1.0).contains(&report.idle) && report.stalled >= 0.0, "{report:?}");
}

#[test]
fn a_sender_and_a_receiver_count_the_same_packets() {
    for technique in KERNEL {
        let cable = Cable::new();
        let [left, right] = cable.ports();
        let mut receiver = App::start(&format!("receiver --technique {technique} --number 1"), &[right]);
        let sender = App::start(&format!("sender --technique {technique} --size imix {SLOWLY}"), &[left]);
        let sent = sender.run();
        receiver.tell(STOP);
        let received = receiver.report();
        assert_eq!((sent.flows.len(), received.flows.len()), (1, 1), "{technique}");
        assert_eq!((sent.flows[0].flow, received.flows[0].flow), (0, 0), "{technique}");
        assert_eq!(sent.flows[0].sent.unwrap().refused, 0, "{technique}: {sent:?}");
        all_arrived(&received.flows[0], &sent.flows[0]);
    }
}

#[test]
fn a_client_gets_every_packet_back_from_its_server() {
    for technique in KERNEL {
        let cable = Cable::new();
        let [left, right] = cable.ports();
        let mut server = App::start(&format!("server --technique {technique} --number 1"), &[right]);
        let client = App::start(&format!("client --technique {technique} --size 700 {SLOWLY}"), &[left]);
        let report = client.run();
        server.tell(STOP);
        all_came_through(&report, 1);
        assert_eq!(server.report().flows, []);
    }
}

#[test]
fn both_ends_in_one_thread_lose_nothing_at_any_rate() {
    for technique in KERNEL {
        let cable = Cable::new();
        for role in ["sender-receiver", "client-server"] {
            let fast = "--window 64 --warmup 0.05 --seconds 0.1 --touch header";
            let words = format!("{role} --technique {technique} {fast}");
            all_came_through(&App::start(&words, &cable.ports()).run(), 1);
        }
    }
}

/// Starts Millrace with this many ports, each patched to the next one or all in one bridge; returns their sockets.
fn switch(directory: &Path, ports: usize, bridged: bool) -> (Millrace, Vec<String>) {
    let names: Vec<String> = (0..ports).map(|port| format!("p{port}")).collect();
    let paths: Vec<PathBuf> = names.iter().map(|name| directory.join(name)).collect();
    let at = |(name, path): (&String, &PathBuf)| port(name, VhostUser { socket: socket(path), ..VhostUser::default() });
    let ports: Vec<_> = names.iter().zip(&paths).map(at).collect();
    let joints = if bridged {
        file(bridge("br0", &names))
    } else {
        file(names.chunks(2).map(|pair| patch(&pair[0], &pair[1])).collect::<Vec<_>>())
    };
    let files = Files::named(directory, "millrace");
    files.configure((ports, joints)).unwrap();
    let switch = Start::new(&common::millrace()).arguments(&["--log", "warn"]).start(files);
    let mut switch = switch.unwrap_or_else(|error| panic!("{error}"));
    let there = || paths.iter().all(|path| path.exists()).then_some(());
    switch.daemon.wait_for("its sockets", SOON, there).unwrap_or_else(|error| panic!("{error}"));
    (switch, paths.iter().map(|path| path.display().to_string()).collect())
}

#[test]
fn pairs_in_one_thread_work_through_millrace() {
    for (role, pairs, bridge, more) in [
        ("sender-receiver", 1, false, "--touch full --size imix --window 128"),
        ("sender-receiver", 2, true, "--touch header --rate 20000 --arrivals poisson"),
        ("client-server", 1, true, "--touch full --size 1518 --packed --window 32"),
        ("client-server", 2, false, "--touch none --rate 20000 --arrivals on-off:2/3 --queue-size 1024"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let (_switch, sockets) = switch(directory.path(), 2 * pairs, bridge);
        let words = format!("{role} --technique virtio-user --warmup 0.05 --seconds 0.2 {more}");
        all_came_through(&App::start(&words, &sockets).run(), pairs);
    }
}

#[test]
fn ends_in_processes_of_their_own_work_through_millrace() {
    for (ends, pairs) in [(["sender", "receiver"], 2), (["client", "server"], 1)] {
        let directory = tempfile::tempdir().unwrap();
        let (_switch, sockets) = switch(directory.path(), 2 * pairs, true);
        // One process for each kind of end, with all pairs.
        let ports = |of: usize| sockets.iter().skip(of).step_by(2).cloned().collect::<Vec<_>>();
        let mut passive = App::start(&format!("{} --technique virtio-user --number 1", ends[1]), &ports(1));
        let report = App::start(&format!("{} --technique virtio-user {SLOWLY}", ends[0]), &ports(0)).run();
        passive.tell(STOP);
        let passive = passive.report();
        let received = if ends[1] == "receiver" { &passive } else { &report };
        assert_eq!((report.flows.len(), received.flows.len()), (pairs, pairs));
        for (sent, received) in report.flows.iter().zip(&received.flows) {
            assert_eq!(sent.flow, received.flow);
            all_arrived(received, sent);
        }
    }
}

/// Returns the complaint of an application.
fn complaint(words: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    let output = command.arg("app").args(words.split_whitespace()).stdin(std::process::Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{words}: {said}");
    said
}

#[test]
fn impossible_options_are_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let absent = directory.path().join("absent");
    for (words, reason) in [
        ("sender --technique raw --port no-such-netdev", "no-such-netdev"),
        ("sender --technique raw --port lo@/nowhere", "can't open the network namespace /nowhere"),
        ("sender-receiver --technique raw --port lo", "give two ports for each"),
        ("client-server --technique raw --port lo --port lo --number 3", "choose another --number"),
        ("sender --technique netmap --port vale0:1", "netmap"),
        ("sender --technique virtio-user-dpdk --port a", "linked with DPDK"),
        ("sender --technique raw --port lo", "before it said \"go\""),
        ("sender --technique raw --port lo --cpu 5000", "can't run on processor 5000"),
    ] {
        let said = complaint(words);
        assert!(said.contains(reason), "{words}: {said}");
    }
    let said = complaint(&format!("sender --technique virtio-user --port {}", absent.display()));
    assert!(said.contains("absent"), "{said}");
    let cable = Cable::new();
    cable.0[0].run("ip", &["link", "set", ENDS[0], "mtu", "1500"]).unwrap();
    let said = complaint(&format!("sender --technique udp --size 1518 --port {}", cable.ports()[0]));
    assert!(said.contains("need an MTU of 1504"), "{said}");
}

#[test]
fn pairs_without_a_way_between_them_end_with_the_reason() {
    let [one, other] = [Cable::new(), Cable::new()];
    let ports = [one.ports()[0].clone(), other.ports()[1].clone()];
    let mut app = App::start("sender-receiver --technique raw-mmsg", &ports);
    app.tell(GO);
    app.0
        .wait_for_line("its complaint", SOON, |line| line.contains("no packet came through to 1 of the ports"))
        .unwrap();
}
