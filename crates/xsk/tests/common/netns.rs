//! Network namespaces.

use std::fs::File;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A separate network namespace, removed on drop.
pub struct Netns {
    name: String,
}

impl Netns {
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let this = Self { name: format!("xsk-{}-{count}", std::process::id()) };
        command(&["ip", "netns", "add", &this.name]);
        // Keeps router solicitations and similar frames out of the test.
        let no_ipv6 = ["net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"];
        command(&["ip", "netns", "exec", &this.name, "sysctl", "-q", "-w", no_ipv6[0], no_ipv6[1]]);
        this
    }

    /// Creates a namespace with the veth pair `a` and `b`, both up with this MTU.
    pub fn with_veth(mtu: usize) -> Self {
        Self::with_queues(mtu, 1)
    }

    /// Creates the same for frames that a driver with a page for each frame does not take.
    pub fn beyond_a_page() -> Self {
        Self::with_veth(9000.max(2 * rustix::param::page_size()))
    }

    /// Creates the same, with this number of queues in each direction.
    pub fn with_queues(mtu: usize, queues: u32) -> Self {
        let this = Self::new();
        let queues = format!("numrxqueues {queues} numtxqueues {queues}");
        this.ip(&format!("link add name a {queues} type veth peer name b {queues}"));
        for end in ["a", "b"] {
            this.ip(&format!("link set dev {end} mtu {mtu} up"));
        }
        // The kernel attaches a queue to a device when it notices the carrier, and drops frames until then.
        for end in ["a", "b"] {
            while !this.is_up(end) {
                thread::sleep(Duration::from_millis(1));
            }
        }
        this
    }

    fn is_up(&self, end: &str) -> bool {
        let output = Command::new("ip").args(["-n", &self.name, "link", "show", end]).output().expect("it ran before");
        String::from_utf8_lossy(&output.stdout).contains("state UP")
    }

    /// Runs `ip` with these arguments in the namespace.
    pub fn ip(&self, arguments: &str) {
        let mut words = vec!["ip", "-n", &self.name];
        words.extend(arguments.split_whitespace());
        command(&words);
    }

    /// Runs `body` on a thread in the namespace.
    pub fn run<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}", self.name);
        let thread = move || {
            let namespace = File::open(path).unwrap();
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            body()
        };
        thread::scope(|scope| scope.spawn(thread).join()).unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

fn command(words: &[&str]) {
    let output = Command::new(words[0])
        .args(&words[1..])
        .output()
        .unwrap_or_else(|error| panic!("this test needs `{}` (iproute2, procps): {error}", words[0]));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} failed: {error} (this test needs to run as root)", words.join(" "));
}
