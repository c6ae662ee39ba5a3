//! Network namespaces and frames for the tests.
#![allow(dead_code, reason = "each test file uses its share")]

use std::fs::File;
use std::panic::resume_unwind;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Frame lengths without a VLAN tag, from the shortest Ethernet frame to a jumbo frame.
pub const SIZES: [usize; 11] = [60, 61, 64, 127, 128, 1499, 1514, 2048, 4097, 8999, 9000];

/// A new network namespace, removed on drop.
pub struct Netns {
    name: String,
}

impl Netns {
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let this = Self { name: format!("netdev-{}-{count}", std::process::id()) };
        command(&["ip", "netns", "add", &this.name]);
        // Keeps router solicitations and similar frames out of the test.
        let no_ipv6 = ["net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"];
        command(&["ip", "netns", "exec", &this.name, "sysctl", "-q", "-w", no_ipv6[0], no_ipv6[1]]);
        this
    }

    /// Creates a namespace with the veth pair `a` and `b`, both up with this MTU.
    pub fn with_veth(mtu: usize) -> Self {
        let this = Self::new();
        this.ip("link add name a type veth peer name b");
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

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
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
            move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), Some(LinkNameSpaceType::Network)).unwrap();
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

/// Returns a frame of `length` bytes with an experimental EtherType and a payload that depends on `seed`.
pub fn frame(length: usize, seed: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    frame.extend((frame.len()..length).map(|at| (at.wrapping_mul(31) ^ seed.wrapping_mul(57)) as u8));
    frame
}

/// Inserts a VLAN tag into a frame.
pub fn tagged(frame: &[u8], tpid: u16, tci: u16) -> Vec<u8> {
    [&frame[..12], &tpid.to_be_bytes(), &tci.to_be_bytes(), &frame[12..]].concat()
}

/// Returns an IPv4 UDP frame; the port selects the flow.
pub fn udp_frame(port: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
    // Total length 46, UDP, no checksums: nothing on the path checks them.
    frame.extend([0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(port.to_be_bytes());
    frame.extend([0x12, 0x34, 0, 26, 0, 0]);
    frame.resize(60, port as u8);
    frame
}

/// Repeats `attempt` until it returns a value.
pub fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < deadline, "no {what} within a minute");
        thread::sleep(Duration::from_micros(200));
    }
}

/// Reports whether the descriptor becomes readable within the time.
pub fn readable(fd: &impl std::os::fd::AsFd, millis: i64) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    let timeout = Timespec { tv_sec: millis / 1000, tv_nsec: millis % 1000 * 1_000_000 };
    poll(&mut fds, Some(&timeout)).unwrap() > 0 && fds[0].revents().contains(PollFlags::IN)
}
