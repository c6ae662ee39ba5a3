//! What DPDK and Millrace load from this workspace, built in the profile of the tests: the driver `net_paflow`, and the plugin for ports
//! of the driver `dpdk`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the path of the driver `net_paflow`.
pub fn plugin() -> &'static Path {
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    PLUGIN.get_or_init(|| lab::dpdk::plugin::accepted(&build("net_paflow", "librte_net_paflow.so")).unwrap())
}

/// Returns the path of the plugin that Millrace loads for DPDK.
pub fn of_millrace() -> &'static Path {
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    PLUGIN.get_or_init(|| build("port", "libmillrace_dpdk.so"))
}

/// Builds what a folder of `dpdk` has. Returns its path.
fn build(folder: &str, file: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    std::fs::create_dir_all(&target).unwrap();
    let target = target.canonicalize().unwrap();
    // Another test may build it at the same time.
    let lock = File::create(target.join(format!("dpdk-{folder}.lock"))).unwrap();
    lock.lock().unwrap();
    let (profile, directory) = if cfg!(debug_assertions) { ("dev", "debug") } else { ("release", "release") };
    let mut make = Command::new("make");
    make.arg("--directory").arg(root.join("dpdk").join(folder)).arg(format!("PROFILE={profile}"));
    let output = make.env("CARGO_TARGET_DIR", &target).output().expect("make runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "dpdk/{folder} does not build:\n{said}");
    assert!(!said.contains("warning:"), "dpdk/{folder} builds with warnings:\n{said}");
    target.join(directory).join(file)
}
