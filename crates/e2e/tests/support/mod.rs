//! Millrace under test: a process with a configuration, a directory for its sockets, and a control socket.
//!
//! The program is the one named by the environment variable MILLRACE, or else that of this workspace, in the profile of the
//! tests, built by cargo when the first test needs it.
#![allow(dead_code, unreachable_pub, missing_docs)] // Each test binary uses its part.

pub mod aggregate;
pub mod crafted;
pub mod files;
pub mod flows;
pub mod functions;
pub mod gate;
pub mod host;
pub mod live;
pub mod mapped;
pub mod plugin;
pub mod rogue;
pub mod stream;
pub mod wire;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use engine::stats::{MacEntry, MappingStats, PortStats, QueueStats, Snapshot};
use lab::netns::Namespace;
use lab::process::{Daemon, Usage};
use millrace::control::{Client, Drops, ReloadReport};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

/// Time limit for anything that should happen at once: far longer than ever needed, however busy the machine is.
pub const SOON: Duration = Duration::from_secs(120);

/// Number of equal observations required for a state to be at rest, and the pause between them.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// Memory that an allocator may keep for itself, in bytes.
const SLACK: u64 = 1 << 20;

/// A worker on the core reserved for the switch, which leaves the core to others while nothing arrives.
pub fn poller() -> String {
    format!("[[worker]]\ncpu = {}\nidle = \"backoff\"\n", lab::cpu::Plan::detect().switch)
}

/// A worker that sleeps when idle, on any core.
pub const SLEEPER: &str = "[[worker]]\nidle = \"sleep\"\n";

/// Returns a vhost-user port with the socket `NAME.sock`.
pub fn port(name: &str) -> String {
    format!("[[port]]\nname = \"{name}\"\ndriver = \"vhost-user\"\nsocket = \"{name}.sock\"\n")
}

/// Returns two vhost-user ports and a patch between them.
pub fn patch(a: &str, b: &str) -> String {
    format!("{}{}[[patch]]\nports = [\"{a}\", \"{b}\"]\n", port(a), port(b))
}

/// Creates a namespace in which the kernel sends nothing by itself.
pub fn quiet_namespace() -> lab::Result<Namespace> {
    let namespace = Namespace::create()?;
    let off = "for scope in all default; do echo 1 >/proc/sys/net/ipv6/conf/$scope/disable_ipv6; done";
    namespace.run("sh", &["-c", off])?;
    Ok(namespace)
}

/// Creates the switch's namespace and another one, joined by a cable: `up0` here, `up1` there.
pub fn two_namespaces() -> lab::Result<(Namespace, Namespace)> {
    two_namespaces_with(1)
}

/// Does the same with `queues` queues each way.
pub fn two_namespaces_with(queues: u32) -> lab::Result<(Namespace, Namespace)> {
    let (here, there) = (quiet_namespace()?, quiet_namespace()?);
    let queues = queues.to_string();
    let queues = ["numrxqueues", &queues, "numtxqueues", &queues];
    let (one, other) = (["link", "add", "up0"], ["type", "veth", "peer", "name", "up1", "netns", there.name()]);
    here.run("ip", &[&one[..], &queues, &other, &queues].concat())?;
    // The kernel must not answer on the switch's own interface for addresses of the taps.
    here.run("ip", &["link", "set", "up0", "arp", "off", "up"])?;
    there.run("ip", &["link", "set", "up1", "up"])?;
    // On a virtual cable the kernel leaves segmentation to the other end.
    there.run("ethtool", &["-K", "up1", "tso", "off", "gso", "off"])?;
    // The kernel attaches a queue to a device when it notices the carrier, and drops frames until then.
    for (namespace, end) in [(&here, "up0"), (&there, "up1")] {
        wait_for("the cable", || namespace.run("ip", &["link", "show", end]).ok()?.contains("state UP").then_some(()));
    }
    Ok((here, there))
}

/// Moves a file over TCP, from one namespace to an address of another.
pub fn move_file(home: &Home, from: &Namespace, to: &Namespace, address: &str) -> lab::Result<()> {
    let path = |name: &str| home.path(name).display().to_string();
    let (silence, sent, received) = (path("silence"), path("sent"), path("received"));
    // The listener closes when its input ends, so its input is a FIFO that never ends.
    let listen = format!("rm -f {silence}; mkfifo {silence}; busybox nc -l -p 5001 <>{silence} >{received}");
    let mut command = to.command("sh");
    command.args(["-c", &listen]);
    let mut listener = Daemon::spawn("listener", command)?;
    let send = format!(
        "head -c 4194304 /dev/urandom >{sent}; \
         for try in $(seq 300); do busybox nc {address} 5001 <{sent} && exit; sleep 0.2; done; exit 1"
    );
    from.run("timeout", &["120", "sh", "-c", &send])?;
    listener.wait(SOON)?;
    assert!(std::fs::read(sent).unwrap() == std::fs::read(received).unwrap(), "the file changed on its way");
    Ok(())
}

/// Returns the path of the program under test.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| std::env::var_os("MILLRACE").map_or_else(|| build("millrace", "millrace"), PathBuf::from))
}

/// Returns the path of a sample network function, beside the program named by MILLRACE if that is set.
pub fn function(name: &str) -> PathBuf {
    match std::env::var_os("MILLRACE") {
        Some(program) => PathBuf::from(program).with_file_name(name),
        None => build("millrace-nf", name),
    }
}

fn build(package: &str, program: &str) -> PathBuf {
    let arguments = ["build", "--package", package, "--bin", program, "--message-format=json"];
    // With the same assertions as this test.
    let profile: &[&str] = if cfg!(debug_assertions) { &[] } else { &["--release"] };
    let output =
        Command::new(env!("CARGO")).args(arguments).args(profile).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let output = output.expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} does not build:\n{said}");
    let messages = output.stdout.split(|&byte| byte == b'\n');
    let found =
        messages.filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok()).find_map(|message| {
            let is_program = message["target"]["name"] == program && message["target"]["kind"][0] == "bin";
            message["executable"].as_str().filter(|_| is_program).map(PathBuf::from)
        });
    found.expect("cargo names the program that it built")
}

/// Calls `ask` until it returns an answer.
pub fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Directory of a Millrace; it outlives the process, so that a new one finds the files of the old one.
pub struct Home {
    directory: TempDir,
}

impl Home {
    pub fn new() -> Home {
        Home { directory: tempfile::Builder::new().prefix("e2e-millrace-").tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the frames of a capture, sorted.
    pub fn frames(&self, name: &str) -> Vec<Vec<u8>> {
        let file = capture::Reader::open(&self.path(name)).unwrap();
        let mut frames: Vec<_> = file.map(|frame| frame.unwrap().bytes).collect();
        frames.sort();
        frames
    }

    /// Returns the socket of a port.
    pub fn socket(&self, port: &str) -> PathBuf {
        self.path(&format!("{port}.sock"))
    }

    /// Writes the configuration, with the control socket added.
    pub fn configure(&self, config: &str) -> PathBuf {
        let file = self.path("m.toml");
        std::fs::write(&file, format!("{config}\n[control]\nsocket = \"control\"\n")).unwrap();
        file
    }

    /// Starts Millrace with this configuration and waits until it logs that it has started.
    pub fn start(&self, config: &str) -> Millrace {
        self.launch(config, Command::new(program()))
    }

    /// Does the same inside a network namespace.
    pub fn start_inside(&self, namespace: &Namespace, config: &str) -> Millrace {
        self.launch(config, namespace.command(program().to_str().expect("a path in UTF-8")))
    }

    fn launch(&self, config: &str, mut command: Command) -> Millrace {
        let file = self.configure(config);
        // Thread timing decides how many arenas the C library's allocator makes and how many stacks of ended threads it
        // keeps. Each adds mappings, like a leak.
        command.args(["run", "--config"]).arg(file).env("MALLOC_ARENA_MAX", "1");
        command.env("GLIBC_TUNABLES", "glibc.pthread.stack_cache_size=0");
        let mut daemon = Daemon::spawn("millrace", command).unwrap();
        daemon.wait_for_line("the switch to start", SOON, |line| line.contains("started")).unwrap();
        let control = self.path("control");
        Millrace { daemon, control }
    }
}

/// A running Millrace; dropping it kills it. If the test fails, it shows its counters and its log first.
pub struct Millrace {
    pub daemon: Daemon,
    control: PathBuf,
}

impl Drop for Millrace {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let stats = Client::connect(&self.control).and_then(|mut client| client.call_as::<Snapshot>("stats"));
            eprintln!("{stats:#?}\nMillrace said:\n{}", self.daemon.log().tail(40));
        }
    }
}

impl Millrace {
    fn ask<T: DeserializeOwned>(&self, method: &str) -> T {
        let answer = Client::connect(&self.control).and_then(|mut client| client.call_as(method));
        answer.unwrap_or_else(|error| panic!("{method}: {error}; Millrace said:\n{}", self.daemon.log().tail(40)))
    }

    pub fn stats(&self) -> Snapshot {
        self.ask("stats")
    }

    pub fn port(&self, name: &str) -> Port {
        let ports = self.stats().ports;
        Port(ports.into_iter().find(|port| port.name == name).unwrap_or_else(|| panic!("there is no port {name}")))
    }

    /// Returns a port once it has received and sent exactly these frames. A worker counts a burst after the guest can see it.
    pub fn counted(&self, name: &str, rx: u64, tx: u64) -> Port {
        wait_for(&format!("{rx} frames from {name} and {tx} to it, of {:?}", self.port(name).0), || {
            Some(self.port(name)).filter(|port| (port.rx(), port.tx()) == (rx, tx))
        })
    }

    /// Returns the mapping, of the first queue if it has several.
    pub fn mapping(&self) -> MappingStats {
        self.stats().mappings.swap_remove(0)
    }

    /// Waits until the mapping has a guest's buffers.
    pub fn wait_mapped(&self) {
        wait_for("the mapping to be zero-copy", || {
            let mapping = self.mapping();
            (mapping.zero_copy && mapping.on_loan > 0).then_some(())
        });
    }

    /// Returns the output of `millrace ctl` with these arguments, which spaces separate.
    pub fn ctl(&self, command: &str) -> String {
        let mut ctl = Command::new(program());
        let output = ctl.args(["ctl", "--socket"]).arg(&self.control).args(command.split(' ')).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn macs(&self) -> Vec<MacEntry> {
        self.ask("mac")
    }

    pub fn drops(&self) -> Drops {
        self.ask("drops")
    }

    pub fn reload(&self) -> ReloadReport {
        self.ask("reload")
    }

    pub fn usage(&self) -> Usage {
        self.daemon.usage().unwrap()
    }

    /// Returns its usage at rest: once descriptors and threads stay the same for a while. Ports that are being opened or closed
    /// briefly hold more or less.
    pub fn usage_at_rest(&self) -> Usage {
        let (mut last, mut same) = (self.usage(), 0);
        wait_for("descriptors and threads to stay as many", || {
            std::thread::sleep(PAUSE);
            let now = self.usage();
            same = if (now.fds, now.threads) == (last.fds, last.threads) { same + 1 } else { 0 };
            last = now;
            (same == LOOKS).then_some(now)
        })
    }

    /// Waits until it holds no more than `before`, after `events` events each of which may have leaked something.
    pub fn holds_no_more(&self, before: Usage, events: usize) {
        // Freed memory splits and joins mappings by itself. A leak adds one for each event.
        let mappings = before.mappings + events * 3 / 4;
        let few = |now: &Usage| now.fds <= before.fds && now.threads <= before.threads && now.mappings <= mappings;
        let deadline = Instant::now() + SOON;
        loop {
            let now = self.usage();
            if few(&now) && now.rss <= before.rss + SLACK {
                println!("before {before:?}\nafter  {now:?}");
                return;
            }
            assert!(Instant::now() < deadline, "it still holds more than before: {before:?}, now {now:?}");
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until these ports are up.
    pub fn wait_up(&self, ports: &[&str]) {
        for port in ports {
            wait_for(&format!("port {port} to be up: {:?}", self.port(port).0.detail), || {
                self.port(port).0.up.then_some(())
            });
        }
    }

    pub fn wait_down(&self, port: &str) {
        wait_for(&format!("port {port} to be down"), || (!self.port(port).0.up).then_some(()));
    }

    /// Waits until a guest's session has ended: none of its queues runs any more. The port is down before that.
    pub fn wait_gone(&self, port: &str) {
        wait_for(&format!("the session of port {port} to end"), || {
            self.port(port).0.detail.starts_with("no guest is connected").then_some(())
        });
    }

    /// Waits for a log line from line `mark` on that contains `part`.
    pub fn wait_said(&mut self, mark: usize, part: &str) {
        self.daemon.wait_for_line_since(mark, part, SOON, |line| line.contains(part)).unwrap();
    }

    /// Terminates it as an operator does, and checks its exit status.
    pub fn stop(mut self) {
        let status = self.daemon.terminate(SOON).unwrap();
        assert!(status.success(), "{status}; Millrace said:\n{}", self.daemon.log().tail(40));
    }
}

/// A port's counters, all queues together.
#[derive(Debug)]
pub struct Port(pub PortStats);

impl Port {
    fn sum(&self, of: impl Fn(&QueueStats) -> u64) -> u64 {
        self.0.queues.iter().map(of).sum()
    }

    /// Returns the frames that the switch received from the port.
    pub fn rx(&self) -> u64 {
        self.sum(|queue| queue.rx_packets)
    }

    /// Returns the frames that the switch sent to the port.
    pub fn tx(&self) -> u64 {
        self.sum(|queue| queue.tx_packets)
    }

    pub fn rx_bytes(&self) -> u64 {
        self.sum(|queue| queue.rx_bytes)
    }

    pub fn tx_bytes(&self) -> u64 {
        self.sum(|queue| queue.tx_bytes)
    }

    pub fn drops(&self) -> &BTreeMap<String, u64> {
        &self.0.drops
    }

    /// Returns the frames dropped, for any reason.
    pub fn dropped(&self) -> u64 {
        self.0.drops.values().sum()
    }
}
