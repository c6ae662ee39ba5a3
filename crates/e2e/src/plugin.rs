//! What DPDK and Millrace load from this workspace, built in the profile of the tests: the driver `net_paflow`, and the plugin for ports
//! of the driver `dpdk`.

use std::path::{Path, PathBuf};
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

fn build(folder: &str, file: &str) -> PathBuf {
    let programs = lab::dpdk::plugin::programs().unwrap();
    lab::dpdk::plugin::built(folder, file, &programs).expect("it builds")
}
