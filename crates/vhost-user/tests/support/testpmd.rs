//! DPDK's own vhost-user, in a process killed on drop.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;

/// A `dpdk-testpmd` with one port, which forwards every frame back to itself.
pub struct Testpmd {
    process: Child,
    lines: Receiver<String>,
    _runtime: TempDir,
}

impl Testpmd {
    /// Starts testpmd with port `device` and `pairs` queue pairs. With `tx_first`, it sends a burst to begin with.
    pub fn spawn(device: &str, pairs: u16, tx_first: bool) -> Testpmd {
        let runtime = tempfile::tempdir().unwrap();
        let mut command = Command::new("stdbuf");
        command
            .args(["-oL", "dpdk-testpmd", "--lcores", "0@0,1@1", "--no-pci", "--no-huge", "-m", "128"])
            .args(["--no-telemetry", "--vdev", device, "--", "--no-mlockall", "--disable-link-check"])
            .args(["--total-num-mbufs=4096", "--forward-mode=io", "--rxd=256", "--txd=256"])
            .args([format!("--rxq={pairs}"), format!("--txq={pairs}")])
            .env("RUNTIME_DIRECTORY", runtime.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if tx_first {
            command.args(["--tx-first", "--burst=16"]);
        }
        let mut process = command.spawn().expect("stdbuf (Debian package coreutils) must be installed");
        let output = BufReader::new(process.stdout.take().expect("it is piped"));
        let (sender, lines) = channel();
        // Ends with the process, whose output must be drained meanwhile.
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Testpmd { process, lines, _runtime: runtime }
    }

    /// Waits until testpmd polls its port. It sometimes never polls a guest that connects before that (22.11).
    pub fn wait_forwarding(&self) {
        super::wait_for("testpmd (Debian package dpdk-dev) to forward", || {
            self.lines.recv_timeout(Duration::from_secs(1)).ok().filter(|line| line.contains("Press enter to exit"))
        });
    }

    /// Closes testpmd's input, at which it closes its port and exits.
    pub fn quit(&mut self) {
        self.process.stdin = None;
        let status = super::wait_for("testpmd to end", || {
            std::thread::sleep(Duration::from_millis(20));
            self.process.try_wait().unwrap()
        });
        assert!(status.success(), "testpmd ended with {status}");
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
