//! Pages for DPDK's memory.

use std::path::Path;

/// Kind of pages of DPDK's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Huge pages.
    Huge,
    /// Normal pages, with which it is slower.
    Normal,
}

impl Pages {
    /// Requests huge pages from the kernel. Returns them if the kernel has enough for `megabytes`, or else normal pages.
    pub fn for_dpdk(megabytes: u64) -> Pages {
        let directory = Path::new("/sys/kernel/mm/hugepages/hugepages-2048kB");
        let read =
            |name: &str| -> Option<u64> { std::fs::read_to_string(directory.join(name)).ok()?.trim().parse().ok() };
        // The load's own memory takes a few more.
        let needed = megabytes / 2 + 16;
        if let (Some(all), Some(free)) = (read("nr_hugepages"), read("free_hugepages"))
            && free < needed
        {
            // Only root may do this; the result is checked next.
            let _ = std::fs::write(directory.join("nr_hugepages"), (all + needed - free).to_string());
        }
        if read("free_hugepages").is_some_and(|free| free >= needed) { Pages::Huge } else { Pages::Normal }
    }

    /// Returns DPDK's options for these pages.
    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            Pages::Huge => &["--in-memory", "--single-file-segments"],
            Pages::Normal => &["--no-huge"],
        }
    }
}
