//! Network functions with several workers, at a switch.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use e2e::host::Host;
use e2e::stream::{Arrived, exchange, packet};
use e2e::virtio::Options;
use e2e::{Home, SOON, wait_for};
use lab::Result;
use lab::millrace::config::*;
use lab::process::Daemon;
use nf::{Packet, PortOptions, Ports};

const PACKETS: u64 = 4000;

/// Packets in flight in each direction, if a guest sends by several queues: fewer than there are buffers.
const WINDOW: u64 = 96;

/// Starts a network function between the ports `left` and `right`.
fn start(name: &str, home: &Home, options: &[&str]) -> Result<Daemon> {
    let mut command = Command::new(e2e::function(name));
    command.args([home.socket("left"), home.socket("right")]).args(options);
    let mut function = Daemon::spawn(name, command)?;
    function.wait_for_line("the network function to run", SOON, |line| line.starts_with("memory: "))?;
    Ok(function)
}

/// Exchanges packets by way of nf-forward; the order within each VLAN is checked. Each of its ports counts all packets.
fn forwarded(options: &[&str], workers: usize) -> Result<()> {
    let home = Home::new();
    let config = (patched("a", "left"), patched("right", "b"), sleeper());
    let switch = home.start(&config);
    let mut function = start("nf-forward", &home, options)?;
    switch.wait_up(&["left", "right"]);
    let mut ends = [Options::new(home.socket("a")).connect()?, Options::new(home.socket("b")).packed().connect()?];
    exchange(&mut ends, PACKETS, &[100, 101, 300])?;
    let status = function.terminate(SOON)?;
    let said = function.log().tail(20);
    assert!(status.success(), "{status}: {said}");
    let all = format!("{PACKETS} received, {PACKETS} sent, 0 dropped as the queue was full, 0 malformed");
    assert_eq!(said.matches(&all).count(), 2, "{said}");
    assert_eq!(said.matches("to claim").count(), workers, "{said}");
    assert!(!said.contains("dropped, "), "{said}");
    switch.none_dropped();
    switch.stop();
    Ok(())
}

#[test]
fn three_workers_with_a_parent() -> Result<()> {
    // Longer than it takes, however busy the machine is: nothing is left behind.
    let patience = ["--patience", "600"];
    forwarded(&[&["--workers", "3", "--sharing", "static-role", "--cycles", "500"][..], &patience].concat(), 3)
}

#[test]
fn one_worker_with_a_parent() -> Result<()> {
    forwarded(&["--sharing", "static-role", "--patience", "600", "--packed"], 1)
}

#[test]
fn a_parent_that_works_and_two_workers() -> Result<()> {
    forwarded(&["--workers", "3", "--parent", "works", "--cycles", "500", "--patience", "600"], 3)
}

#[test]
fn a_parent_that_works_alone() -> Result<()> {
    forwarded(&["--parent", "works"], 1)
}

/// VLANs of two flows, each in a queue of its own.
const FLOWS: [u16; 2] = [100, 300];

/// One of two guests with two queues that exchange packets.
struct End {
    ports: Ports,
    burst: Vec<Packet>,
    sent: u64,
    arrived: Arrived,
    /// Packets that have arrived.
    count: u64,
}

impl End {
    fn connect(socket: PathBuf) -> End {
        let options = nf::Options::new(vec![PortOptions { queue_pairs: 2, ..PortOptions::new(socket) }]);
        let ports = Ports::open(options, &AtomicBool::new(false)).unwrap();
        End { ports, burst: Vec::new(), sent: 0, arrived: Arrived::default(), count: 0 }
    }

    /// Sends the next packet of `stream`, by the queue of its flow.
    fn send(&mut self, stream: u64) {
        let bytes = packet(stream, self.sent, &FLOWS);
        let mut packet = self.ports[0].alloc(bytes.len()).expect("few are in flight");
        packet.copy_from_slice(&bytes);
        packet.set_queue(flow_of(&bytes));
        self.burst.push(packet);
        self.ports[0].transmit_all(&mut self.burst);
        self.sent += 1;
    }

    /// Takes packets of `stream`. They come by the queues of their flows.
    fn receive(&mut self, stream: u64) {
        self.ports[0].receive(&mut self.burst);
        for packet in self.burst.drain(..) {
            assert_eq!(packet.queue(), flow_of(&packet));
            self.arrived.take(stream, &FLOWS, &packet);
            self.count += 1;
        }
    }
}

fn flow_of(bytes: &[u8]) -> u16 {
    u16::from(bytes[14..16] == FLOWS[1].to_be_bytes())
}

/// The order within each flow is checked, and that each flow has a worker of its own.
#[test]
fn two_flows_in_two_queues_with_a_worker_each() -> Result<()> {
    let home = Home::new();
    let config = (patched("a", "left"), patched("right", "b"), sleeper());
    let switch = home.start(&config);
    let mut function = start("nf-forward", &home, &["--workers", "2", "--sharing", "rss"])?;
    switch.wait_up(&["left", "right"]);
    let mut ends = ["a", "b"].map(|name| End::connect(home.socket(name)));
    switch.wait_up(&["a", "b"]);
    // A port is up with its first queue.
    wait_for("all queues", || {
        let queues = |name: &str| switch.port(name).0.queues.len();
        ["a", "left", "right", "b"].iter().all(|name| queues(name) == 2).then_some(())
    });
    wait_for("all packets to arrive", || {
        for (from, to) in [(0, 1), (1, 0)] {
            while ends[from].sent < PACKETS && ends[from].sent - ends[to].count < WINDOW {
                ends[from].send(from as u64);
            }
            ends[to].receive(from as u64);
        }
        ends.iter().all(|end| end.count == PACKETS).then_some(())
    });
    let status = function.terminate(SOON)?;
    let said = function.log().tail(20);
    assert!(status.success(), "{status}: {said}");
    let mut of_flow = [0; 2];
    for stream in 0..2 {
        (0..PACKETS).for_each(|number| of_flow[usize::from(flow_of(&packet(stream, number, &FLOWS)))] += 1);
    }
    for (number, packets) in (1..).zip(of_flow) {
        let counted = said.lines().any(|line| {
            line.starts_with(&format!("worker {number}: ")) && line.contains(&format!(" batches, {packets} packets;"))
        });
        assert!(counted, "worker {number} has {packets} packets of {of_flow:?}:\n{said}");
    }
    switch.none_dropped();
    switch.stop();
    Ok(())
}

/// The kernel, on a cable, pings a host behind a router. Neither the kernel nor the host knows of the workers.
#[test]
fn a_router_with_workers() -> Result<()> {
    for options in
        [&["--workers", "3"][..], &["--workers", "2", "--parent", "works"], &["--workers", "2", "--sharing", "rss"]]
    {
        let (here, there) = e2e::cable::two_namespaces()?;
        there.run("ip", &["address", "add", "10.0.1.2/24", "dev", "up1"])?;
        there.run("ip", &["route", "add", "10.0.2.0/24", "via", "10.0.1.1"])?;
        let home = Home::new();
        let wan = (af_packet("wan", "up0"), patch("wan", "left"));
        let config = (vhost_user("left"), wan, patched("right", "host"), sleeper());
        let switch = home.start_inside(&here, &config);
        let addresses = ["--address", "10.0.1.1/24,10.0.2.1/24"];
        // Longer than it takes, however busy the machine is.
        let patience = ["--patience", "600"];
        let mut router = start("nf-router", &home, &[&addresses, &patience, options].concat())?;
        let host = Host::start(home.socket("host"), "10.0.2.9");
        switch.wait_up(&["wan", "left", "right", "host"]);
        let ping = |arguments: &str| there.run("ping", &arguments.split(' ').collect::<Vec<_>>());
        // The first packet each way becomes the request for the next hop's address.
        wait_for("the router to know its neighbours", || ping("-c 1 -W 1 10.0.2.9").ok());
        // With `-w`, ping asks until it has as many answers, and may have got some more at once by then. With `-W`, it would wait for the
        // last ones only two round trips: those before may have been quicker.
        let answered = |ping: &str| ping.matches("bytes from").count();
        let far = ping("-c 20 -i 0.02 -w 60 10.0.2.9")?;
        assert!(answered(&far) >= 20 && !far.contains("DUP!") && far.contains("ttl=63"), "{far}");
        let near = ping("-c 3 -i 0.02 -w 60 10.0.1.1")?;
        assert!(answered(&near) >= 3 && !near.contains("DUP!"), "{near}");
        let expired = there.run("sh", &["-c", "ping -c 1 -W 60 -t 1 10.0.2.9 || true"])?;
        assert!(expired.contains("From 10.0.1.1") && expired.contains("Time to live exceeded"), "{expired}");
        drop(host);
        let status = router.terminate(SOON)?;
        assert!(status.success(), "{status}: {}", router.log().tail(20));
        switch.stop();
    }
    Ok(())
}

#[test]
fn a_worker_under_a_lock() -> Result<()> {
    // Several lose the order, which is checked here.
    forwarded(&["--sharing", "locked"], 1)
}

#[test]
fn one_worker_works_without_sharing() -> Result<()> {
    forwarded(&["--workers", "1", "--cycles", "500"], 0)
}

/// Runs nf-forward with options that contradict each other, and returns its output.
fn refused(options: &[&str]) -> String {
    let output = Command::new(e2e::function("nf-forward")).arg("nobody.sock").args(options).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn contradictions_are_refused_before_the_function_connects() {
    let said = refused(&["--workers", "0"]);
    assert!(said.contains("1 to 64"), "{said}");
    let said = refused(&["--workers", "2", "--sharing", "locked", "--cpus", "0,1,2"]);
    assert!(said.contains("3 given, 2 needed"), "{said}");
    let said = refused(&["--cpus", "0"]);
    assert!(said.contains("1 given, 2 needed: one for the parent, and one for each worker"), "{said}");
    let said = refused(&["--workers", "2", "--parent", "works", "--cpus", "0"]);
    assert!(said.contains("1 given, 2 needed: one for the parent, and one for each other worker"), "{said}");
    let said = refused(&["--workers", "2", "--parent", "works", "--sharing", "rss"]);
    assert!(said.contains("a parent can work only with the sharing static-role"), "{said}");
}
