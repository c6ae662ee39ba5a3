//! Guests of mapped ports that come and go; the guest is at `fw.sock`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::virtio::{Guest, Options};
use lab::millrace::config::{RawMapping, Several, mapping, pass_through};
use lab::process::{Daemon, Launch};
use lab::{Result, cpu};

use crate::{Home, Millrace, SOON, companion, rest, wait_for};

/// Returns the mapping of a port `wan` to the guest's port, which makes the two one wire. All frames stay in place.
pub fn one_wire() -> RawMapping {
    RawMapping { copy_break: 0.into(), ..pass_through("wan", "fw") }
}

/// Returns the same mapping in a bridge whose ports all trust the guest.
pub fn trusted() -> RawMapping {
    RawMapping { trust: Several::All.into(), copy_break: 0.into(), ..mapping("wan", "fw") }
}

/// Starts a guest in a separate process, which sends bursts without end.
pub fn blaster(socket: PathBuf, packed: bool, numbers: [u8; 2]) -> Result<Daemon> {
    let mut command = Command::new(companion("e2e-guest"));
    command.arg(socket).arg(if packed { "packed" } else { "split" }).args(numbers.map(|n| n.to_string()));
    let mut daemon = Launch::new("guest").pin(&cpu::Plan::detect().guests).spawn(command)?;
    daemon.wait_for_line("its queues to run", SOON, |line| line == "running")?;
    Ok(daemon)
}

/// Starts a guest in a separate process, which sends back received frames.
pub fn echo(socket: PathBuf, packed: bool) -> Result<Daemon> {
    let mut command = Command::new(companion("e2e-echo"));
    command.arg(socket).arg(if packed { "packed" } else { "split" }).arg("256");
    let mut daemon = Launch::new("echo").pin(&cpu::Plan::detect().guests).spawn(command)?;
    daemon.wait_for_line("its queues to run", SOON, |line| line == "running")?;
    Ok(daemon)
}

/// Deaths after which all one-time allocations have been made.
const WARM: usize = 10;

fn under_load(millrace: &Millrace) {
    let before = millrace.mapping();
    wait_for("frames both ways", || {
        let now = millrace.mapping();
        let sent = |m: &engine::stats::MappingStats| m.sent_in_place + m.sent_copied;
        (now.in_place > before.in_place + 500 && sent(&now) > sent(&before) + 500).then_some(())
    });
}

/// Kills a guest `times` times while frames go both ways; checks that nothing of it is left.
pub fn kill_guests(millrace: &Millrace, home: &Home, times: usize) -> Result<()> {
    let mut before = None;
    for death in 0..times {
        let mut victim = blaster(home.socket("fw"), death % 2 == 0, [1, 2])?;
        millrace.wait_mapped();
        under_load(millrace);
        victim.kill()?;
        millrace.wait_down("fw");
        if death == WARM {
            millrace.wait_up(&["wan"]);
            before = Some(millrace.usage_at_rest());
        }
    }
    millrace.holds_no_more(before.expect("there were as many"), times - WARM);
    Ok(())
}

/// Guests leave while frames from `far` arrive for them: from then on nothing may be written to their memory.
pub fn leave_again_and_again(millrace: &Millrace, home: &Home, mut far: Guest) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    // Keeps sending whether or not a guest takes the frames, and ends with the test, even if it fails.
    let sender = std::thread::spawn(move || {
        let frame = [0x5a; 1000];
        while !stopped.load(Ordering::Relaxed) && far.is_connected() {
            far.reap().and_then(|_| far.send(&[&frame], 1)).unwrap();
            far.flush();
            rest();
        }
    });
    for round in 0..20 {
        let options = Options::new(home.socket("fw"));
        let mut guest = if round % 2 == 0 { options } else { options.packed() }.connect()?;
        let before = millrace.mapping().in_place;
        wait_for("buffers to be filled", || {
            guest.receive(64, |_| Ok(())).unwrap();
            (millrace.mapping().in_place > before + 50).then_some(())
        });
        let memory = guest.leave();
        millrace.wait_down("fw");
        wait_for("the mapping to end", || (!millrace.mapping().zero_copy).then_some(()));
        let then = memory();
        std::thread::sleep(Duration::from_millis(5));
        assert!(memory() == then, "round {round}: something was written after the guest had left");
    }
    stop.store(true, Ordering::Relaxed);
    sender.join().expect("it sent");
    Ok(())
}
