//! Pages are exchanged while threads fault them in, write to them, unmap them and fork: no write is lost, none goes astray.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::pages::{Random, device, whole};
use crate::{Failed, ensure, raw};
use zcopy::{Area, Leftovers, Mapping, Pair};

const PAGES: u32 = 64;
/// The word of a page that never changes, and says which page it is.
const NAME: usize = 511;

pub fn run(calls: u32) -> Result<(), Failed> {
    let device = device()?;
    // Pages return as they are: so their contents are kept, all of them.
    let [a, b] = [device.create(PAGES, Leftovers::Returned)?, device.create(PAGES, Leftovers::Returned)?];
    let [ma, mb] = [a.map(0, PAGES)?, b.map(0, PAGES)?];
    let all: Vec<Pair> = (0..PAGES).map(|page| whole(page, page)).collect();
    // Then each page of a pair has come from the other side.
    for _ in 0..2 {
        ensure!(a.exchange(&b, &all)?.exchanged() == PAGES, "the first exchanges");
    }
    for page in 0..PAGES as usize {
        ma.page(page)[NAME].store(1 + page as u64, Relaxed);
        mb.page(page)[NAME].store(1001 + page as u64, Relaxed);
    }
    let before = a.stats()?;
    let (stop, added) = (AtomicBool::new(false), AtomicU64::new(0));
    let exchanged = std::thread::scope(|scope| {
        let threads = [
            scope.spawn(|| add(&a, &b, 1, &stop, &added)),
            scope.spawn(|| add(&a, &b, 2, &stop, &added)),
            scope.spawn(|| remap(&a, &b, &stop, &added)),
        ];
        let exchanged = exchange([&a, &b], [&ma, &mb], calls);
        stop.store(true, Relaxed);
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        exchanged
    })?;
    let sum = |mapping: &Mapping| -> u64 {
        (0..PAGES as usize).flat_map(|page| &mapping.page(page)[..NAME]).map(|word| word.load(Relaxed)).sum()
    };
    let (found, added) = (sum(&ma) + sum(&mb), added.into_inner());
    let stats = a.stats()?;
    ensure!(found == added, "{added} were added, and {found} are there");
    ensure!(stats.zeroed == before.zeroed, "pages became zero");
    println!("{exchanged} pairs, {} faults, {added} additions", stats.faults - before.faults);
    Ok(())
}

/// Exchanges any pages both ways, and looks each time whether they are where they should be.
fn exchange(areas: [&Area; 2], maps: [&Mapping; 2], calls: u32) -> Result<u64, Failed> {
    let mut names: [Vec<u64>; 2] = [(1..=PAGES.into()).collect(), (1001..=1000 + u64::from(PAGES)).collect()];
    let mut random = Random(7);
    let (mut exchanged, mut skipped) = (0, 0);
    for call in 0..calls {
        let from = call as usize % 2;
        let mut pages = random.shuffled(PAGES);
        pages.truncate(1 + random.below(PAGES.into()) as usize);
        if random.below(2) == 0 {
            pages.sort();
        }
        let pairs: Vec<Pair> = pages.iter().map(|&page| whole(page, page)).collect();
        let outcome = areas[from].exchange(areas[1 - from], &pairs)?;
        for (index, page) in pages.iter().map(|&page| page as usize).enumerate() {
            if outcome.is_skipped(index) {
                skipped += 1;
            } else {
                let [a, b] = &mut names;
                std::mem::swap(&mut a[page], &mut b[page]);
                exchanged += 1;
            }
            for side in 0..2 {
                let (seen, name) = (maps[side].page(page)[NAME].load(Relaxed), names[side][page]);
                ensure!(seen == name, "page {page} of side {side} is {seen} instead of {name}");
            }
        }
    }
    ensure!(exchanged > skipped, "{skipped} of {exchanged} pairs were skipped");
    Ok(exchanged)
}

/// Adds to words of any pages.
fn add(a: &Area, b: &Area, seed: u64, stop: &AtomicBool, added: &AtomicU64) -> Result<(), Failed> {
    let maps = [a.map(0, PAGES)?, b.map(0, PAGES)?];
    let mut random = Random(seed);
    let mut count = 0;
    while !stop.load(Relaxed) {
        let at = random.next();
        maps[at as usize & 1].page((at >> 1) as usize % PAGES as usize)[(at >> 20) as usize % NAME]
            .fetch_add(1, Relaxed);
        count += 1;
    }
    added.fetch_add(count, Relaxed);
    Ok(())
}

/// Maps pages, adds to them, in a child process as well, and unmaps them.
fn remap(a: &Area, b: &Area, stop: &AtomicBool, added: &AtomicU64) -> Result<(), Failed> {
    let mut random = Random(3);
    while !stop.load(Relaxed) {
        let first = random.below(PAGES.into()) as u32;
        let pages = 1 + random.below(u64::from(PAGES - first)) as u32;
        let mapping = [a, b][random.below(2) as usize].map(first, pages)?;
        let add_each = || {
            for page in 0..pages as usize {
                mapping.page(page)[page].fetch_add(1, Relaxed);
            }
        };
        add_each();
        // The child has a copy of the page tables that were there when it began.
        raw::in_child(|| (0..4).for_each(|_| add_each()))?;
        added.fetch_add(u64::from(pages) * 5, Relaxed);
    }
    Ok(())
}
