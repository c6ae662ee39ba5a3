//! Network functions with several workers, beside a switch.

mod support;

use std::process::Command;

use e2e::virtio::Options;
use lab::process::Daemon;
use lab::{Result, cpu};
use support::stream::exchange;
use support::{Home, SOON};

const PACKETS: u64 = 4000;

/// Exchanges packets by way of nf-forward; the order within each VLAN is checked. Each of its ports counts all packets.
fn forwarded(options: &[&str], workers: usize) -> Result<()> {
    let _alone = cpu::alone();
    let home = Home::new();
    let config = [&support::patch("a", "left"), &support::patch("right", "b"), support::SLEEPER].concat();
    let switch = home.start(&config);
    let mut command = Command::new(support::function("nf-forward"));
    command.args([home.socket("left"), home.socket("right")]).args(options);
    let mut function = Daemon::spawn("nf-forward", command)?;
    function.wait_for_line("the network function to run", SOON, |line| line.starts_with("memory: "))?;
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
fn a_worker_under_a_lock() -> Result<()> {
    // Several lose the order, which is checked here.
    forwarded(&["--sharing", "locked"], 1)
}

#[test]
fn one_worker_is_as_ever() -> Result<()> {
    forwarded(&["--workers", "1", "--cycles", "500"], 0)
}

/// Runs nf-forward with options that contradict each other, and returns what it says.
fn refused(options: &[&str]) -> String {
    let output = Command::new(support::function("nf-forward")).arg("nobody.sock").args(options).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn contradictions_are_refused_before_the_function_connects() {
    let home = Home::new();
    let rules = home.path("nf.toml");
    std::fs::write(&rules, "").unwrap();
    let said = refused(&["--workers", "2", "--aggregation", rules.to_str().unwrap()]);
    assert!(said.contains("aggregates, which a crew can't do yet"), "{said}");
    let said = refused(&["--workers", "0"]);
    assert!(said.contains("1 to 64"), "{said}");
    let said = refused(&["--workers", "2", "--sharing", "locked", "--cpus", "0,1,2"]);
    assert!(said.contains("3 given, 2 needed"), "{said}");
    let said = refused(&["--cpus", "0"]);
    assert!(said.contains("1 given, 2 needed: one for the parent, and one for each worker"), "{said}");
}
