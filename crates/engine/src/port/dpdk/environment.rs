//! DPDK in this process: it starts once, before the switch refuses to load libraries, and stays.

use ::dpdk::{Dpdk, Options, Plugin};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static STARTED: OnceLock<Dpdk> = OnceLock::new();

/// Looks for DPDK. An error says what brings it.
pub fn find() -> Result<(), String> {
    Plugin::find().map(drop).map_err(|error| error.to_string())
}

/// Returns the places that [`start`] reads besides those of the system's libraries.
pub fn places() -> Vec<PathBuf> {
    let plugin = Plugin::path();
    plugin.parent().map(Path::to_owned).into_iter().collect()
}

/// Starts DPDK with these devices, and `memory` bytes of its own. Returns its version.
pub fn start(devices: &[String], memory: u64) -> Result<String, String> {
    let options = Options { devices: devices.to_vec(), memory, huge_pages: has_huge_pages(memory) };
    let started = Plugin::find().and_then(|plugin| plugin.start(&options)).map_err(|error| error.to_string())?;
    let version = started.version().to_owned();
    STARTED.set(started).map_err(|_| "it runs already")?;
    Ok(version)
}

/// Returns the DPDK of this process.
pub(super) fn started() -> Result<&'static Dpdk, String> {
    STARTED
        .get()
        .ok_or_else(|| "the switch was started without [dpdk], and can't load it any more: start it again".to_owned())
}

/// Reports whether this many bytes of huge pages are free.
fn has_huge_pages(memory: u64) -> bool {
    let sizes = fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let free = sizes.filter_map(|size| {
        let kib: u64 = size.file_name().to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let pages: u64 = fs::read_to_string(size.path().join("free_hugepages")).ok()?.trim().parse().ok()?;
        Some((kib << 10).saturating_mul(pages))
    });
    free.max().is_some_and(|free| free >= memory)
}
