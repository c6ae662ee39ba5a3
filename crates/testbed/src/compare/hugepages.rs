//! Huge pages, which DPDK wants for its memory.

use std::path::Path;

/// Pages of 2 MiB that are asked for if there are fewer.
const WANTED: u64 = 1024;

/// What DPDK's memory lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Huge pages.
    Huge,
    /// Normal ones, with which it is slower.
    Normal,
}

impl Pages {
    /// Huge pages if there are enough for `processes`, after asking for them; else normal ones.
    pub fn for_dpdk(processes: u64) -> Pages {
        let directory = Path::new("/sys/kernel/mm/hugepages/hugepages-2048kB");
        let read =
            |name: &str| -> Option<u64> { std::fs::read_to_string(directory.join(name)).ok()?.trim().parse().ok() };
        if read("nr_hugepages").is_some_and(|pages| pages < WANTED) {
            // Only root may; what came of it is looked at next.
            let _ = std::fs::write(directory.join("nr_hugepages"), WANTED.to_string());
        }
        // The load's own memory takes a few more.
        let needed = processes * MEGABYTES / 2 + 16;
        if read("free_hugepages").is_some_and(|free| free >= needed) { Pages::Huge } else { Pages::Normal }
    }

    /// The options by which DPDK uses them.
    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            Pages::Huge => &["--in-memory", "--single-file-segments", "-m", "512"],
            Pages::Normal => &["--no-huge", "-m", "512"],
        }
    }
}

/// Memory of one DPDK process, as in the arguments above.
const MEGABYTES: u64 = 512;
