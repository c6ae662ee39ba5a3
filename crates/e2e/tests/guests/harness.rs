//! Tests of the harness itself with testpmd as the switch: later tests demand the same of Millrace.
//!
//! Needs the packages of `debian-packages.txt`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use e2e::guest::{self, Kernel, Vm};
use lab::Result;
use lab::dpdk::{self, Port, Sandbox, Testpmd, VhostPort};
use tempfile::TempDir;

/// Time limit for anything that should happen at once, however busy the machine is.
const SOON: Duration = Duration::from_secs(120);

fn sockets() -> (TempDir, PathBuf, PathBuf) {
    let directory = tempfile::Builder::new().prefix("e2e-").tempdir().unwrap();
    let (a, b) = (directory.path().join("a.sock"), directory.path().join("b.sock"));
    (directory, a, b)
}

/// Checks that packets sent by both ports of a network function circulate through the switch.
fn closed_loop(testpmd: dpdk::Builder, queues: u16) -> Result<()> {
    let (_directory, a, b) = sockets();
    let mut switch =
        Testpmd::switch().port(VhostPort::new(&a)).port(VhostPort::new(&b)).queues(queues).spawn_ready()?;
    switch.start()?;
    let mut function = testpmd.port(Port::new(&a)).port(Port::new(&b).packed()).queues(queues).spawn()?;
    function.wait_ready(dpdk::READY)?;
    function.start_tx_first(8)?;
    let deadline = Instant::now() + SOON;
    let wanted = 5_000;
    let stats = loop {
        let stats = function.stats()?;
        if stats.iter().all(|port| port.rx_packets >= wanted) || Instant::now() > deadline {
            break stats;
        }
    };
    assert_eq!(stats.len(), 2);
    assert!(stats.iter().all(|port| port.rx_packets >= wanted), "{stats:?}");
    let summary = function.stop()?;
    assert!(summary.iter().any(|line| line.contains("Accumulated forward statistics")), "{summary:?}");
    // While packets flow, byte and packet counters are not read at the same moment.
    let stats = function.stats()?;
    assert!(stats.iter().all(|port| port.rx_bytes == 64 * port.rx_packets), "{stats:?}");
    assert!(switch.stats()?.iter().all(|port| port.tx_packets >= wanted));
    assert!(function.usage()?.cpu > Duration::ZERO);
    function.quit(SOON)?;
    switch.quit(SOON)
}

#[test]
fn packets_go_round_between_testpmd_and_testpmd() -> Result<()> {
    closed_loop(Testpmd::builder("loop"), 1)
}

#[test]
fn packets_go_round_with_two_queue_pairs_and_no_sandbox() -> Result<()> {
    closed_loop(Testpmd::builder("loop").sandbox(Sandbox::None), 2)
}

#[test]
fn a_network_function_may_own_its_sockets() -> Result<()> {
    let (_directory, a, b) = sockets();
    let mut function = Testpmd::builder("server")
        .port(Port::new(&a).server().in_order())
        .port(Port::new(&b).server().mergeable(false).queue_size(512))
        .spawn()?;
    let ports = Testpmd::switch().port(VhostPort::new(&a).client()).port(VhostPort::new(&b).client());
    let mut switch = ports.spawn_ready()?;
    switch.start()?;
    function.wait_ready(dpdk::READY)?;
    function.start_tx_first(1)?;
    let deadline = Instant::now() + SOON;
    while function.stats()?.iter().any(|port| port.rx_packets <= 64) {
        assert!(Instant::now() < deadline, "{:?}", function.stats()?);
    }
    Ok(())
}

#[test]
fn a_guest_without_network_runs_commands() -> Result<()> {
    let kernel = Kernel::prepare()?;
    let booted = Instant::now();
    let vm = Vm::builder("alone").spawn(&kernel)?;
    vm.wait_ready(guest::READY)?;
    println!("{} booted in {:?} ({:?})", kernel.name(), booted.elapsed(), vm.accel());

    let outcome = vm.run("echo to standard error >&2; printf 'a\\n\\nb'; exit 3")?;
    assert_eq!((outcome.status, outcome.output.as_str()), (3, "to standard error\na\n\nb"));
    assert!(vm.check("false").unwrap_err().to_string().contains("alone: false"));
    // More than any buffer on the way holds.
    assert_eq!(vm.check("yes | head -c 200000")?.len(), 199_999);

    // A script that hangs blocks neither the test nor the guest.
    let error = vm.finish(vm.start("echo lost; sleep 1000")?, Duration::from_millis(300)).unwrap_err();
    assert!(matches!(error, lab::Error::Timeout { .. }), "{error}");
    vm.check("echo the console speaks >/dev/console")?;
    vm.daemon().wait_for_line("the console", SOON, |line| line.contains("the console speaks"))?;
    assert!(vm.usage()?.threads > 1);

    let pid = vm.pid();
    drop(vm);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    Ok(())
}
