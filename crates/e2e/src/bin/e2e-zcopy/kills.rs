//! Processes that are killed while they exchange and use pages leave nothing behind.

use std::io::{Read, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::pages::{Random, area, whole};
use crate::{Failed, ensure, raw};
use zcopy::{Area, Pair};

/// Pages of each area: over all times, far more than [`SLACK`].
const PAGES: u32 = 256;

/// Memory that may differ afterwards, in KiB.
const SLACK: u64 = 8 << 10;

pub fn run(times: u32) -> Result<(), Failed> {
    let probe = area(1)?;
    let mut random = Random(11);
    once(&mut random)?;
    let before = (probe.stats()?, free()?);
    for time in 0..times {
        once(&mut random)?;
        let stats = probe.stats()?;
        ensure!((stats.areas, stats.pages) == (1, 1), "after {time} times: {stats:?}");
    }
    let after = (probe.stats()?, free()?);
    ensure!(after.1 + SLACK > before.1, "{} KiB were free, and {} are", before.1, after.1);
    let exchanged = after.0.exchanged - before.0.exchanged;
    ensure!(exchanged > u64::from(times), "only {exchanged} pairs were exchanged");
    println!("{times} times, {exchanged} pairs; free memory went from {} to {} KiB", before.1, after.1);
    Ok(())
}

/// Starts two processes that alone have two areas, and kills them.
fn once(random: &mut Random) -> Result<(), Failed> {
    let areas = [area(PAGES)?, area(PAGES)?];
    let (mut reader, writer) = std::io::pipe()?;
    let at_work = || drop((&writer).write(b"w"));
    let mut children = [raw::fork(|| exchange(&areas, at_work))?, raw::fork(|| touch(&areas, at_work))?];
    drop(areas);
    reader.read_exact(&mut [0; 2])?;
    std::thread::sleep(Duration::from_micros(random.below(4000)));
    if random.below(2) == 0 {
        children.swap(0, 1);
    }
    for child in children {
        raw::kill(child)?;
        std::thread::sleep(Duration::from_micros(random.below(300)));
    }
    Ok(())
}

/// Returns the machine's free memory in KiB, without caches.
fn free() -> Result<u64, Failed> {
    std::fs::write("/proc/sys/vm/drop_caches", "3")?;
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemFree:")).ok_or("no MemFree")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// Exchanges until it is killed.
fn exchange(areas: &[Area; 2], at_work: impl Fn()) -> Result<(), Failed> {
    let maps = [areas[0].map(0, PAGES)?, areas[1].map(0, PAGES)?];
    at_work();
    for turn in 0.. {
        let from = turn % 2;
        let pairs: Vec<Pair> = (0..64).map(|page| whole((page * 3 + turn as u32) % PAGES, page)).collect();
        areas[from].exchange(&areas[1 - from], &pairs)?;
        maps[from].page(turn % 64)[0].store(1, Relaxed);
    }
    Ok(())
}

/// Writes to pages until it is killed.
fn touch(areas: &[Area; 2], at_work: impl Fn()) -> Result<(), Failed> {
    at_work();
    loop {
        for area in areas {
            let mapping = area.map(0, PAGES)?;
            (0..PAGES as usize).for_each(|page| mapping.page(page)[1].store(1, Relaxed));
        }
    }
}
