//! Processes that are killed while they exchange and use pages leave nothing behind.

use std::io::{BufRead, BufReader};
use std::os::fd::{BorrowedFd, RawFd};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::fd::{AsFd, AsRawFd};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::pages::{Random, area, device, whole};
use crate::{Failed, ensure, raw};
use zcopy::{Area, Pair};

/// Pages of each area: over all times, far more than the machine has.
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
    let mut children = [start("exchanger", &areas)?, start("toucher", &areas)?];
    drop(areas);
    for child in &mut children {
        // Each says a word when it is at work.
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut String::new())?;
    }
    std::thread::sleep(Duration::from_micros(random.below(4000)));
    if random.below(2) == 0 {
        children.swap(0, 1);
    }
    for child in &mut children {
        child.kill()?;
        child.wait()?;
        std::thread::sleep(Duration::from_micros(random.below(300)));
    }
    Ok(())
}

fn start(what: &str, areas: &[Area; 2]) -> Result<Child, Failed> {
    let [a, b] = areas.each_ref().map(|area| area.as_fd());
    let mut command = Command::new(std::env::current_exe()?);
    command.args([what, &a.as_raw_fd().to_string(), &b.as_raw_fd().to_string()]).stdout(Stdio::piped());
    let pass = |flags| -> Result<(), Failed> { Ok([a, b].into_iter().try_for_each(|fd: BorrowedFd<'_>| fcntl_setfd(fd, flags))?) };
    pass(FdFlags::empty())?;
    let child = command.spawn()?;
    pass(FdFlags::CLOEXEC)?;
    Ok(child)
}

/// Returns the machine's free memory in KiB, without caches.
fn free() -> Result<u64, Failed> {
    std::fs::write("/proc/sys/vm/drop_caches", "3")?;
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemFree:")).ok_or("no MemFree")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

fn inherited(fd: RawFd) -> Result<Area, Failed> {
    Ok(device()?.adopt(raw::inherit(fd))?)
}

/// Exchanges until it is killed.
pub fn exchanger(a: RawFd, b: RawFd) -> Result<(), Failed> {
    let areas = [inherited(a)?, inherited(b)?];
    let maps = [areas[0].map(0, PAGES)?, areas[1].map(0, PAGES)?];
    println!("exchanging");
    for turn in 0.. {
        let from = turn % 2;
        let pairs: Vec<Pair> = (0..64).map(|page| whole((page * 3 + turn as u32) % PAGES, page)).collect();
        areas[from].exchange(&areas[1 - from], &pairs)?;
        maps[from].page(turn % 64)[0].store(1, Relaxed);
    }
    Ok(())
}

/// Writes to pages until it is killed.
pub fn toucher(a: RawFd, b: RawFd) -> Result<(), Failed> {
    let areas = [inherited(a)?, inherited(b)?];
    println!("touching");
    loop {
        for area in &areas {
            let mapping = area.map(0, PAGES)?;
            (0..PAGES as usize).for_each(|page| mapping.page(page)[1].store(1, Relaxed));
        }
    }
}
