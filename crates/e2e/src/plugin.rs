//! The DPDK driver `net_paflow`, built from this workspace in the profile of the tests.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the path of the driver.
pub fn plugin() -> &'static Path {
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    PLUGIN.get_or_init(build)
}

fn build() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    std::fs::create_dir_all(&target).unwrap();
    let target = target.canonicalize().unwrap();
    // Another test may build it at the same time.
    let lock = File::create(target.join("net_paflow.lock")).unwrap();
    lock.lock().unwrap();
    let (profile, directory) = if cfg!(debug_assertions) { ("dev", "debug") } else { ("release", "release") };
    let mut make = Command::new("make");
    make.arg("--directory").arg(root.join("dpdk/net_paflow")).arg(format!("PROFILE={profile}"));
    let output = make.env("CARGO_TARGET_DIR", &target).output().expect("make runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the driver does not build:\n{said}");
    assert!(!said.contains("warning:"), "the driver builds with warnings:\n{said}");
    lab::dpdk::plugin::accepted(&target.join(directory).join("librte_net_paflow.so")).unwrap()
}
