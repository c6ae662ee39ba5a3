//! The DPDK driver `net_paflow`, built from this workspace in the profile of the tests.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Returns the path of the driver.
pub fn plugin() -> &'static Path {
    static PLUGIN: OnceLock<PathBuf> = OnceLock::new();
    PLUGIN.get_or_init(build)
}

fn build() -> PathBuf {
    let programs = lab::dpdk::plugin::programs().unwrap();
    let plugin = lab::dpdk::plugin::built("net_paflow", "librte_net_paflow.so", &programs);
    lab::dpdk::plugin::accepted(&plugin.expect("the driver builds")).unwrap()
}
