//! Traffic applications on DPDK, through testpmd: their command line, protocol and report are those of the applications in Rust.

use clap::{Args, FromArgMatches};
use lab::dpdk::app::App;
use lab::dpdk::{Pages, Testpmd, VhostPort};
use lab::process::{Daemon, Launch};
use loadgen::app::{self, AppOptions, AppReport, FlowReport, Received, Role, Sent};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time limit for anything that should happen at once, however busy the machine is.
const SOON: Duration = Duration::from_secs(120);

/// Few enough packets to fit into a ring: nothing is lost, however long a receiver does not run.
const FEW: &[&str] = &["--rate", "250", "--burst", "2"];

/// Returns the program, built once for all tests.
fn program() -> &'static App {
    static PROGRAM: OnceLock<App> = OnceLock::new();
    PROGRAM.get_or_init(|| App::build(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap_or_else(|error| panic!("{error}")))
}

/// testpmd, which joins ports 0 and 1, 2 and 3.
struct TestpmdSwitch {
    directory: TempDir,
    ports: Vec<PathBuf>,
    _testpmd: Testpmd,
}

impl TestpmdSwitch {
    fn start(ports: usize) -> TestpmdSwitch {
        let directory = tempfile::Builder::new().prefix("dpdk-app-").tempdir().unwrap();
        let ports: Vec<PathBuf> = (0..ports).map(|port| directory.path().join(format!("{port}.sock"))).collect();
        let builder = ports.iter().fold(Testpmd::switch(), |builder, port| builder.port(VhostPort::new(port)));
        let mut testpmd = builder.spawn_ready().unwrap();
        testpmd.start().unwrap();
        TestpmdSwitch { directory, ports, _testpmd: testpmd }
    }

    /// Starts an application at these ports, and waits until they are open.
    fn app(&self, role: &str, ports: &[usize], words: &[&str]) -> Daemon {
        let mut arguments = vec![role.to_owned()];
        arguments.extend(["--technique", "virtio-user-dpdk", "--number", &ports[0].to_string()].map(str::to_owned));
        arguments.extend(ports.iter().flat_map(|&port| ["--port".to_owned(), self.ports[port].display().to_string()]));
        // In the cool-down the switch takes frames that a sender leaves in its ring, even if the switch does not run for a
        // while. An application that also receives waits for packets in flight.
        let cooldown = if ["sender", "client"].contains(&role) { "2" } else { "0.5" };
        arguments.extend(["--warmup", "0.05", "--seconds", "0.2", "--cooldown", cooldown].map(str::to_owned));
        arguments.extend(words.iter().map(|&word| word.to_owned()));
        let cpu = lab::cpu::Plan::detect().guest().to_string();
        arguments.extend(["--cpu".to_owned(), cpu]);
        // The applications in Rust understand it, too.
        let clap = AppOptions::augment_args(clap::Command::new("app").no_binary_name(true));
        AppOptions::from_arg_matches(&clap.try_get_matches_from(&arguments).unwrap()).unwrap();
        let files = self.directory.path().join(format!("{role}{}", ports[0]));
        std::fs::create_dir_all(&files).unwrap();
        let command = program().command(Pages::Normal, 128, &files, &arguments);
        let mut daemon = Launch::new(role).interactive().spawn(command).unwrap();
        daemon.wait_for_line("its ports to be open", SOON, |line| line == app::READY).unwrap();
        daemon
    }

    /// Runs both ends of pairs in one process.
    fn joined(&self, role: &str, words: &[&str]) -> AppReport {
        let ports: Vec<usize> = (0..self.ports.len()).collect();
        until_sent(|| {
            let mut daemon = self.app(role, &ports, words);
            go(&mut daemon);
            (report(daemon), ())
        })
        .0
    }
}

/// Runs applications, of which the first report is a sender's, until each of its flows had its turn in the measured seconds: on
/// a busy machine a process may not run for as long as that.
fn until_sent<T>(mut run: impl FnMut() -> (AppReport, T)) -> (AppReport, T) {
    let deadline = Instant::now() + SOON;
    loop {
        let (report, other) = run();
        if report.flows.iter().all(|flow| flow.sent.is_some_and(|sent| sent.packets > 0)) {
            return (report, other);
        }
        assert!(Instant::now() < deadline, "nothing was sent within {SOON:?}: {report:?}");
    }
}

/// Lets a sender begin, and waits until it has measured.
fn go(daemon: &mut Daemon) {
    daemon.send_line(app::GO).unwrap();
    for line in [app::MEASURING, app::MEASURED] {
        daemon.wait_for_line(line, SOON, |said| said == line).unwrap();
    }
}

fn report(daemon: Daemon) -> AppReport {
    let output = daemon.finish(SOON).unwrap();
    let mut reports = output.lines().filter(|line| line.starts_with('{'));
    let report = serde_json::from_str(reports.next().expect("a report")).unwrap_or_else(|e| panic!("{e}: {output}"));
    assert_eq!(reports.next(), None, "one report only");
    report
}

/// Checks that all packets that were sent have come, unchanged and in order.
fn check(sent: Sent, flow: &FlowReport) {
    let received = flow.received.unwrap();
    let whole = Received { packets: sent.packets, bytes: sent.bytes, ..Received::default() };
    assert_eq!(received, whole, "{sent:?}");
    assert!(sent.packets > 0 && sent.seconds > 0.0, "{sent:?}");
}

fn check_times(flow: &FlowReport) {
    let times = flow.latency.unwrap();
    let order = [times.min, times.p50, times.p90, times.p99, times.p99_9, times.p99_99, times.max];
    assert!(times.max > 0.0 && order.is_sorted() && (times.min..=times.max).contains(&times.mean), "{times:?}");
}

fn check_joined(report: &AppReport, role: Role, pairs: u8) {
    assert_eq!(report.role, role);
    assert_eq!(
        report.flows.iter().map(|flow| flow.flow).collect::<Vec<_>>(),
        (0..pairs).map(|n| 2 * n).collect::<Vec<_>>()
    );
    for flow in &report.flows {
        check(flow.sent.unwrap(), flow);
        check_times(flow);
    }
    assert!((0.0..=1.0).contains(&report.idle) && report.stalled >= 0.0, "{report:?}");
}

#[test]
fn both_ends_of_pairs_in_one_thread() {
    for pairs in [1, 2] {
        let switch = TestpmdSwitch::start(2 * usize::from(pairs));
        check_joined(&switch.joined("sender-receiver", FEW), Role::SenderReceiver, pairs);
        check_joined(&switch.joined("client-server", FEW), Role::ClientServer, pairs);
    }
}

#[test]
fn any_size_touch_and_arrivals() {
    let switch = TestpmdSwitch::start(2);
    for words in [
        &["--size", "imix", "--touch", "header", "--arrivals", "poisson"][..],
        &["--size", "1518", "--touch", "none", "--arrivals", "on-off:5/5", "--packed", "--queue-size", "512"],
        &["--size", "1518", "--touch", "full"],
    ] {
        let report = switch.joined("client-server", &[FEW, words].concat());
        check_joined(&report, Role::ClientServer, 1);
        let Sent { packets, bytes, .. } = report.flows[0].sent.unwrap();
        let largest = packets * 1518;
        assert!(if words[1] == "imix" { bytes < largest } else { bytes == largest }, "{report:?}");
    }
}

#[test]
fn a_window_bounds_the_packets_in_flight_at_the_greatest_rate() {
    let switch = TestpmdSwitch::start(2);
    let report = switch.joined("sender-receiver", &["--window", "64", "--burst", "16", "--size", "imix"]);
    check_joined(&report, Role::SenderReceiver, 1);
    assert_eq!(report.flows[0].sent.unwrap().refused, 0, "nothing is due: {report:?}");
}

#[test]
fn each_end_in_its_own_process() {
    let switch = TestpmdSwitch::start(4);
    for (active, passive) in [("sender", "receiver"), ("client", "server")] {
        let (sender, receiver) = until_sent(|| {
            let mut end = switch.app(passive, &[1, 3], FEW);
            let mut begin = switch.app(active, &[0, 2], FEW);
            go(&mut begin);
            let sender = report(begin);
            end.send_line(app::STOP).unwrap();
            (sender, report(end))
        });
        // The client counts returned packets, and the server has no report of its own.
        let (measured, other) = if active == "client" { (&sender, 0) } else { (&receiver, 2) };
        assert_eq!(receiver.flows.len(), other);
        for (sent, measured) in sender.flows.iter().zip(&measured.flows) {
            check(sent.sent.unwrap(), measured);
            check_times(measured);
        }
        assert_eq!(measured.flows.iter().map(|flow| flow.flow).collect::<Vec<_>>(), [0, 2]);
    }
}

#[test]
fn a_port_without_a_switch_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nobody.sock").display().to_string();
    let arguments = ["receiver", "--technique", "virtio-user-dpdk", "--port", &socket];
    let output = program().command(Pages::Normal, 64, directory.path(), arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("error: ") && said.contains("nobody.sock"), "{said}");
    let output = program().command(Pages::Normal, 64, directory.path(), ["juggler"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("sender-receiver"), "{said}");
}
