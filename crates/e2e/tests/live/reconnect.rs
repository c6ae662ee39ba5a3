//! Sudden deaths of Millrace and of its guests, under load, repeatedly.

use std::process::Command;
use std::time::{Duration, Instant};

use e2e::guest::{self, Kernel, Nic, Vm};
use e2e::virtio::{Exchange, Options, Pump};
use e2e::{Home, Millrace, wait_for};
use lab::dpdk::{self, Forward, Testpmd};
use lab::millrace::config::*;
use lab::process::Launch;
use lab::{Result, cpu};

const TIMES: usize = 10;

/// Deaths after which all one-time allocations have been made.
const WARM: usize = 4;

/// Two patches: `a` and `b` for the guests that die, `c` and `d` for those that must not notice.
fn config() -> RawFile {
    file((patched("a", "b"), patched("c", "d"), e2e::poller()))
}

/// Connects guests to `c` and `d` that count every frame.
fn bystanders(home: &Home) -> Pump {
    let [c, d] = ["c", "d"].map(|port| Options::new(home.socket(port)).connect().unwrap());
    Pump::start(Exchange::new([c, d], [3, 4], 60..=1500, 64))
}

/// Checks that no frame was lost between `c` and `d`.
fn unharmed(millrace: &Millrace, pump: Pump) {
    let tally = pump.stop().unwrap();
    assert!(tally.is_complete(), "{tally:?}");
    for (port, way) in [("c", 0), ("d", 1)] {
        let port = millrace.counted(port, tally.sent[way], tally.received[1 - way]);
        assert!(port.drops().is_empty(), "{:?}", port.0);
    }
    println!("bystanders: {} frames, none lost", tally.total());
}

/// Waits until `frames` more frames have passed port `a`, both ways.
fn under_load(millrace: &Millrace, frames: u64) {
    let before = millrace.port("a");
    let deadline = Instant::now() + e2e::SOON;
    loop {
        let now = millrace.port("a");
        if now.rx() > before.rx() + frames && now.tx() > before.tx() + frames {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "not {frames} more frames each way: {before:?}; {:?}",
            millrace.stats().ports
        );
    }
}

/// Starts a guest in a separate process, at full speed.
fn blaster(home: &Home, port: &str, packed: bool, number: u8, peer: u8) -> Result<lab::process::Daemon> {
    let mut command = Command::new(e2e::companion("e2e-guest"));
    command.arg(home.socket(port)).arg(if packed { "packed" } else { "split" });
    command.args([number.to_string(), peer.to_string()]);
    let mut daemon = Launch::new(format!("guest {port}")).pin(&cpu::Plan::detect().guests).spawn(command)?;
    daemon.wait_for_line("its queues to run", e2e::SOON, |line| line == "running")?;
    Ok(daemon)
}

#[test]
fn guests_are_killed_under_load() -> Result<()> {
    let home = Home::new();
    let millrace = home.start(config());
    let pump = bystanders(&home);
    let _peer = blaster(&home, "b", false, 2, 1)?;
    let began = Instant::now();
    let mut before = None;
    for death in 1..=TIMES {
        let mut victim = blaster(&home, "a", death % 2 == 0, 1, 2)?;
        under_load(&millrace, 2000);
        victim.kill()?;
        millrace.wait_down("a");
        pump.wait_for(100, e2e::SOON)?;
        if death == WARM {
            before = Some(millrace.usage_at_rest());
        }
    }
    println!("{TIMES} guests killed under load in {:?}", began.elapsed());
    millrace.holds_no_more(before.expect("there were that many"), TIMES - WARM);
    unharmed(&millrace, pump);
    millrace.stop();
    Ok(())
}

#[test]
fn dpdk_guests_are_killed_under_load() -> Result<()> {
    let home = Home::new();
    let millrace = home.start(config());
    let pump = bystanders(&home);
    for _ in 0..5 {
        let ports = ["a", "b"].map(|name| dpdk::Port::new(home.socket(name)));
        let [a, b] = ports;
        let mut testpmd = Testpmd::builder("victim").port(a).port(b.packed()).forward(Forward::FlowGen).spawn()?;
        testpmd.wait_ready(dpdk::READY)?;
        testpmd.start()?;
        under_load(&millrace, 10_000);
        testpmd.daemon().kill()?;
        millrace.wait_down("a");
        millrace.wait_down("b");
        pump.wait_for(100, e2e::SOON)?;
    }
    unharmed(&millrace, pump);
    millrace.stop();
    Ok(())
}

#[test]
fn millrace_is_killed_under_load() -> Result<()> {
    let home = Home::new();
    let client = |name| vhost_user_by(name, Side::Client);
    let config = (patched("a", "b"), client("c"), client("d"), patch("c", "d"), e2e::poller());
    let began = Instant::now();
    for death in 1..=TIMES {
        let mut millrace = home.start(&config);
        let connect = |port, listens| {
            let options = Options::new(home.socket(port));
            let options = if death % 2 == 0 { options.packed() } else { options };
            if listens { options.server().connect() } else { options.connect() }
        };
        let (c, d) = (connect("c", true)?, connect("d", true)?);
        let (a, b) = (connect("a", false)?, connect("b", false)?);
        millrace.wait_up(&["a", "b", "c", "d"]);
        let mut pairs = [Exchange::new([a, b], [1, 2], 60..=9000, 64), Exchange::new([c, d], [3, 4], 60..=9000, 64)];
        let deadline = Instant::now() + e2e::SOON;
        while pairs.iter().any(|pair| pair.tally().received.iter().any(|&received| received < 1000)) {
            for pair in &mut pairs {
                pair.step(u64::MAX)?;
            }
            assert!(Instant::now() < deadline, "life {death}: {:?}", pairs.each_ref().map(Exchange::tally));
        }
        millrace.daemon.kill()?;
        for pair in &pairs {
            wait_for("the guests to notice", || (!pair.is_connected()).then_some(()));
        }
    }
    println!("Millrace killed under load {TIMES} times in {:?}, four guests reconnected each time", began.elapsed());
    Ok(())
}

#[test]
fn dpdk_guests_survive_millrace() -> Result<()> {
    let home = Home::new();
    let client = |name| vhost_user_by(name, Side::Client);
    let patch = patch("a", "b");
    let config = (client("a"), client("b"), patch, e2e::poller());
    let mut millrace = home.start(&config);
    let [a, b] = ["a", "b"].map(|name| dpdk::Port::new(home.socket(name)).server());
    let mut testpmd = Testpmd::builder("survivor").port(a).port(b.packed()).forward(Forward::FlowGen).spawn()?;
    testpmd.wait_ready(dpdk::READY)?;
    testpmd.start()?;
    for _ in 0..3 {
        under_load(&millrace, 10_000);
        millrace.daemon.kill()?;
        millrace = home.start(&config);
        millrace.wait_up(&["a", "b"]);
    }
    under_load(&millrace, 10_000);
    let received = testpmd.stats()?[0].rx_packets;
    let deadline = Instant::now() + e2e::SOON;
    while testpmd.stats()?[0].rx_packets < received + 10_000 {
        assert!(Instant::now() < deadline, "{:?}", testpmd.stats()?);
    }
    Ok(())
}

#[test]
fn a_machine_continues_after_millrace_was_killed() -> Result<()> {
    let kernel = Kernel::prepare()?;
    let home = Home::new();
    let bridge = bridge("br0", ["a", "b"]);
    let config = (vhost_user("a"), vhost_user("b"), bridge, sleeper());
    let mut millrace = home.start(&config);
    let machine = |name: &str| Vm::builder(name).nic(Nic::new(home.socket(name)).reconnect()).spawn(&kernel);
    let (a, b) = (machine("a")?, machine("b")?);
    for (vm, address) in [(&a, "192.0.2.1/24"), (&b, "192.0.2.2/24")] {
        vm.wait_ready(guest::READY)?;
        vm.set_address("eth0", address)?;
    }
    assert_eq!(a.ping("192.0.2.2", 3)?.received, 3);
    for _ in 0..2 {
        let load =
            a.start("dd if=/dev/zero bs=1k count=100 2>/dev/null | nc -w 1 192.0.2.2 9; ping -i 0.01 -c 50 192.0.2.2")?;
        std::thread::sleep(Duration::from_millis(200));
        millrace.daemon.kill()?;
        millrace = home.start(&config);
        let began = Instant::now();
        a.ping_until("192.0.2.2", 1)?;
        println!("the machines talk again after {:?}", began.elapsed());
        a.finish(load, guest::PATIENCE)?;
    }
    guest::move_file(&a, &b, "192.0.2.2", 1 << 20, guest::PATIENCE)
}
