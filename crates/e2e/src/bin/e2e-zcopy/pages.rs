//! Areas, and pages with known content.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;

use crate::{Failed, ensure};
use zcopy::{Area, Device, Leftovers, Mapping, PAGE, Pair};

pub fn device() -> Result<Device, Failed> {
    Ok(Device::find("/dev/zcopy")?)
}

pub fn area(pages: u32) -> Result<Area, Failed> {
    Ok(device()?.create(pages, Leftovers::Zeroed)?)
}

/// Returns a pair whose frame fills the page.
pub fn whole(here: u32, there: u32) -> Pair {
    Pair { here, there, start: 0, len: PAGE as u16 }
}

pub fn fill(mapping: &Mapping, page: usize, word: u64) {
    mapping.page(page).iter().for_each(|at| at.store(word, Relaxed));
}

/// Checks that a page holds nothing but `word`.
pub fn expect(mapping: &Mapping, page: usize, word: u64, whose: &str) -> Result<(), Failed> {
    for (at, found) in mapping.page(page).iter().enumerate() {
        let found = found.load(Relaxed);
        ensure!(found == word, "page {page} of {whose}: word {at} is {found:#x} instead of {word:#x}");
    }
    Ok(())
}

/// Returns the number of the physical frame behind each page of a mapping.
pub fn frames(mapping: &Mapping) -> Result<Vec<u64>, Failed> {
    let pagemap = File::open("/proc/self/pagemap")?;
    let first = mapping.as_ptr().addr() / PAGE;
    let frames = (0..mapping.pages()).map(|page| -> Result<u64, Failed> {
        mapping.page(page)[0].load(Relaxed);
        let mut entry = [0; 8];
        pagemap.read_exact_at(&mut entry, (first + page) as u64 * 8)?;
        let entry = u64::from_ne_bytes(entry);
        // Documentation/admin-guide/mm/pagemap.rst: bits 0 to 54, if bit 63 is set.
        ensure!(entry >> 63 == 1 && entry << 9 != 0, "page {page} has no frame: {entry:#x}");
        Ok(entry & ((1 << 55) - 1))
    });
    frames.collect()
}

/// Numbers that look random, the same in each run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }

    /// Returns the numbers below `end` in any order.
    pub fn shuffled(&mut self, end: u32) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..end).collect();
        for at in (1..numbers.len()).rev() {
            numbers.swap(at, self.below(at as u64 + 1) as usize);
        }
        numbers
    }
}
