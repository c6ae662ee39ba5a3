//! DPDK's own vhost-user, in a process that ends with its guard.

use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A `dpdk-testpmd` with one port, which forwards to itself whatever it receives.
pub struct Testpmd {
    process: Child,
    _runtime: TempDir,
}

impl Testpmd {
    /// `device` is the port, `pairs` its queue pairs. With `tx_first`, it sends two bursts to begin with.
    pub fn spawn(device: &str, pairs: u16, tx_first: bool) -> Testpmd {
        let runtime = tempfile::tempdir().unwrap();
        let mut command = Command::new("dpdk-testpmd");
        command
            .args(["--lcores", "0@0,1@1", "--no-pci", "--no-huge", "-m", "128", "--no-telemetry", "--vdev", device])
            .args(["--", "--no-mlockall", "--disable-link-check", "--total-num-mbufs=4096", "--forward-mode=io"])
            .args([format!("--rxq={pairs}"), format!("--txq={pairs}"), "--rxd=256".into(), "--txd=256".into()])
            .env("RUNTIME_DIRECTORY", runtime.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if tx_first {
            command.args(["--tx-first", "--burst=16"]);
        }
        let process = command.spawn().expect("dpdk-testpmd (Debian package dpdk-dev) must be installed");
        Testpmd { process, _runtime: runtime }
    }

    /// Makes it close its port and end, which it does when its input ends.
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
