//! The bytes that areas get when many of them exchange at random.
//!
//! Two checks in one: pages hold exactly what a model of the contract says; and, by a second account that knows nothing of
//! this model, no area ever holds a byte of another one that was not sent to it.

use std::sync::atomic::Ordering::Relaxed;

use crate::pages::{Random, device};
use crate::{Failed, ensure};
use zcopy::{Area, Leftovers, Mapping, PAGE, Pair};

const AREAS: usize = 5;
/// Areas that keep no secrets in pages that came from elsewhere.
const RETURNING: usize = 2;
const PAGES: u32 = 16;
/// A page has parts, each filled with one word.
const PARTS: usize = 8;
const PART: usize = PAGE / PARTS;

#[derive(Clone, Copy, Default)]
struct Page {
    parts: [u64; PARTS],
    /// The area that it came from.
    from: Option<usize>,
    written: bool,
}

struct Book {
    pages: Vec<Vec<Page>>,
    /// For each word: who wrote it, and a bit for each area that may see it.
    words: Vec<(usize, u32)>,
    zeroed: u64,
    trimmed: u64,
}

impl Book {
    fn returns(area: usize) -> bool {
        area < RETURNING
    }

    fn give(&mut self, here: usize, there: usize, pair: &Pair) {
        let (mut p, mut q) = (self.pages[here][pair.here as usize], self.pages[there][pair.there as usize]);
        let frame = usize::from(pair.start) / PART..(usize::from(pair.start) + usize::from(pair.len)) / PART;
        // The sender sends the frame on purpose, and with it the bytes that it has left around it.
        for (part, &word) in p.parts.iter().enumerate() {
            let (writer, may_see) = &mut self.words[word as usize];
            if frame.contains(&part) || *writer == here {
                *may_see |= 1 << there;
            }
        }
        if p.from.is_some_and(|from| from != there) && frame.len() < PARTS {
            (0..PARTS).filter(|part| !frame.contains(part)).for_each(|part| p.parts[part] = 0);
            self.trimmed += 1;
        }
        p.from = Some(here);
        if q.from == Some(here) && (!q.written || Self::returns(there)) {
            for &word in &q.parts {
                let (writer, may_see) = &mut self.words[word as usize];
                // Its owner agreed to that, for bytes that it wrote, and received bytes that it wrote here.
                *may_see |= if *writer == there { 1 << here } else { 0 };
            }
            q.from = Some(there);
        } else {
            q = Page::default();
            self.zeroed += 1;
        }
        (p.written, q.written) = (false, false);
        (self.pages[here][pair.here as usize], self.pages[there][pair.there as usize]) = (q, p);
    }

    fn check(&self, maps: &[Mapping], area: usize, page: usize) -> Result<(), Failed> {
        let model = &self.pages[area][page];
        for (at, word) in maps[area].page(page).iter().enumerate() {
            let word = word.load(Relaxed);
            let (writer, may_see) =
                *self.words.get(word as usize).ok_or_else(|| format!("{word:#x} was never written"))?;
            ensure!(
                may_see >> area & 1 == 1,
                "area {area} sees what area {writer} never sent to it: page {page}, word {at}"
            );
            let expected = model.parts[at * size_of::<u64>() / PART];
            ensure!(word == expected, "page {page} of area {area}: word {at} is {word} instead of {expected}");
        }
        Ok(())
    }
}

pub fn run(steps: u32) -> Result<(), Failed> {
    edges()?;
    let device = device()?;
    let areas = (0..AREAS)
        .map(|area| device.create(PAGES, if Book::returns(area) { Leftovers::Returned } else { Leftovers::Zeroed }));
    let areas = areas.collect::<Result<Vec<Area>, _>>()?;
    let maps = areas.iter().map(|area| area.map(0, PAGES)).collect::<Result<Vec<_>, _>>()?;
    let mut book = Book {
        pages: vec![vec![Page::default(); PAGES as usize]; AREAS],
        words: vec![(usize::MAX, u32::MAX)],
        zeroed: 0,
        trimmed: 0,
    };
    let before = areas[0].stats()?;
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut exchanged, mut returned) = (0, 0);
    for _ in 0..steps {
        for _ in 0..random.below(12) {
            let (area, page, part) =
                (random.below(AREAS as u64) as usize, random.below(PAGES.into()) as usize, random.below(8) as usize);
            let word = book.words.len() as u64;
            book.words.push((area, 1 << area));
            maps[area].page(page)[part * PART / 8..(part + 1) * PART / 8].iter().for_each(|at| at.store(word, Relaxed));
            let model = &mut book.pages[area][page];
            (model.parts[part], model.written) = (word, true);
        }
        let here = random.below(AREAS as u64) as usize;
        let there = (here + 1 + random.below(AREAS as u64 - 1) as usize) % AREAS;
        let count = 1 + random.below(10) as usize;
        let pairs: Vec<Pair> = (random.shuffled(PAGES).iter().zip(random.shuffled(PAGES)).take(count))
            .map(|(&from, to)| {
                let start = random.below(PARTS as u64 + 1) as usize;
                let len = random.below((PARTS - start) as u64 + 1) as usize;
                Pair { here: from, there: to, start: (start * PART) as u16, len: (len * PART) as u16 }
            })
            .collect();
        let outcome = areas[here].exchange(&areas[there], &pairs)?;
        ensure!(outcome.exchanged() as usize == count, "{outcome:?}");
        for pair in &pairs {
            let zeroed = book.zeroed;
            book.give(here, there, pair);
            returned += u64::from(zeroed == book.zeroed);
            book.check(&maps, here, pair.here as usize)?;
            book.check(&maps, there, pair.there as usize)?;
        }
        exchanged += count as u64;
    }
    for (area, page) in (0..AREAS).flat_map(|area| (0..PAGES as usize).map(move |page| (area, page))) {
        book.check(&maps, area, page)?;
    }
    let after = areas[0].stats()?;
    ensure!(after.zeroed - before.zeroed == book.zeroed, "zeroed {} of {}", after.zeroed - before.zeroed, book.zeroed);
    ensure!(after.trimmed - before.trimmed == book.trimmed, "trimmed {}", after.trimmed - before.trimmed);
    ensure!(after.exchanged - before.exchanged == exchanged, "exchanged {exchanged}");
    println!("{exchanged} pairs, {} zeroed, {returned} returned as they were, {} trimmed", book.zeroed, book.trimmed);
    Ok(())
}

/// A frame that begins and ends anywhere is cut out to the byte.
fn edges() -> Result<(), Failed> {
    let device = device()?;
    let areas = (0..3).map(|_| device.create(1, Leftovers::Zeroed)).collect::<Result<Vec<_>, _>>()?;
    let maps = areas.iter().map(|area| area.map(0, 1)).collect::<Result<Vec<_>, _>>()?;
    for (start, len) in [(0, 0), (0, 1), (1, 4095), (0, 4095), (4095, 1), (4096, 0), (13, 1518), (0, 4096), (2048, 0)] {
        maps[0].page(0).iter().for_each(|word| word.store(u64::MAX, Relaxed));
        let frame = Pair { start, len, ..Pair::default() };
        areas[0].exchange(&areas[1], &[Pair::default()])?;
        areas[1].exchange(&areas[2], &[frame])?;
        for byte in 0..PAGE {
            let word = maps[2].page(0)[byte / 8].load(Relaxed);
            let is_sent = byte >= usize::from(start) && byte < usize::from(start) + usize::from(len);
            let expected = if is_sent { 0xff } else { 0 };
            ensure!(word.to_ne_bytes()[byte % 8] == expected, "byte {byte} of a frame from {start}, {len} long");
        }
    }
    Ok(())
}
