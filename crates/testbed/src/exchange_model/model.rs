//! The cost of an exchange, by the number of frames in a call.

use super::costs::{Costs, Pages, SIZES};
use super::memory::PAGE;
use serde::{Deserialize, Serialize};

/// Most pairs of a call.
const MOST: f64 = 256.0;

/// Page tables that have an area: the guest's and the switch's.
const TABLES: f64 = 2.0;

/// Pages that one fault brings back, if they are neighbours.
const AROUND: f64 = 16.0;

/// Frames of a call.
pub const BATCHES: [u32; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// The paper's Table 2: cycles of each packet in one of the two steps, for batches of 1 to 32.
const PAPER: [f64; 6] = [701.0, 374.0, 220.5, 125.6, 82.3, 61.8];

/// The assumed costs.
pub struct Terms {
    /// Page tables of a machine without hypervisor.
    pub assumed: Pages,
    /// Cycles of the module's own work on a pair.
    pub pair: f64,
}

/// Cycles of a frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub bytes: usize,
    /// Frames in a call.
    pub batch: u32,
    /// A copy, in the caches and not.
    pub copy: [f64; 2],
    /// An exchange of neighbouring pages that came from the receiver; of the switch's processor.
    pub chain: f64,
    /// The same with pages that become zero.
    pub zeroed: f64,
    /// The same, with the faults of sender and receiver.
    pub faults: f64,
    /// As `zeroed`, of pages that are not neighbours.
    pub scattered: f64,
    /// As `zeroed`, with the costs of page tables that were measured here.
    pub here: f64,
    /// The paper's two remappings, as it reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper: Option<f64>,
}

/// Returns the figures of all sizes and batches.
pub fn figures(costs: &Costs, terms: &Terms) -> Vec<Figure> {
    let all = SIZES.iter().zip(&costs.copy).flat_map(|size| (0..).zip(BATCHES).map(move |batch| (size, batch)));
    all.map(|((&bytes, copy), (index, batch))| {
        let exchange = |zeroing: f64, runs: Runs, tables: &Pages| {
            let syscall = costs.syscall;
            Exchange { syscall, tables, pair: terms.pair, zeroing, runs }.of(bytes, batch)
        };
        let zeroed = exchange(costs.zero[0], Runs::One, &terms.assumed);
        let pages = pages(bytes);
        let figure = Figure {
            bytes,
            batch,
            copy: *copy,
            chain: exchange(0.0, Runs::One, &terms.assumed),
            zeroed,
            // The receiver reads its pages, and the sender writes to those that it got.
            faults: zeroed + 2.0 * pages * coming_back(&terms.assumed, f64::from(batch) * pages),
            scattered: exchange(costs.zero[0], Runs::Each, &terms.assumed),
            here: exchange(costs.zero[0], Runs::One, &costs.pages),
            paper: PAPER.get(index).map(|step| 2.0 * step * pages),
        };
        figure.rounded()
    })
    .collect()
}

/// Runs of neighbours on each side.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    One,
    Each,
}

struct Exchange<'t> {
    syscall: f64,
    tables: &'t Pages,
    pair: f64,
    zeroing: f64,
    runs: Runs,
}

impl Exchange<'_> {
    /// Returns the cycles of each frame on the switch's processor.
    fn of(&self, bytes: usize, batch: u32) -> f64 {
        let Exchange { syscall, tables, pair, zeroing, runs } = *self;
        let frames = f64::from(batch);
        let pages = frames * pages(bytes);
        let calls = (pages / MOST).ceil();
        let runs = if runs == Runs::One { calls } else { pages };
        let unmapping = runs * tables.unmap + (pages - runs) * tables.unmap_further;
        // On both sides; the switch's own translations are those of its own processor.
        let flushing = 2.0 * (TABLES * unmapping + runs * tables.shootdown);
        // The switch has read each frame's headers, by its own page table.
        let looking = frames * if runs == pages { tables.fault } else { coming_back(tables, pages) };
        (calls * syscall + flushing + pages * (pair + zeroing) + looking) / frames
    }
}

/// Returns the cycles of bringing a page back, of a run of this many.
fn coming_back(tables: &Pages, run: f64) -> f64 {
    let around = run.clamp(1.0, AROUND);
    (tables.fault + (around - 1.0) * tables.unmap_further) / around
}

fn pages(bytes: usize) -> f64 {
    bytes.div_ceil(PAGE) as f64
}

impl Figure {
    fn rounded(mut self) -> Figure {
        let Figure { copy: [warm, cold], chain, zeroed, faults, scattered, here, .. } = &mut self;
        [warm, cold, chain, zeroed, faults, scattered, here].into_iter().for_each(|value| *value = value.round());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs() -> Costs {
        let pages = Pages { shootdown: 9000.0, ..assumed() };
        Costs { copy: vec![[100.0, 400.0]; 4], zero: [50.0, 300.0], syscall: 200.0, pages }
    }

    fn assumed() -> Pages {
        Pages { fault: 1000.0, unmap: 500.0, unmap_further: 20.0, shootdown: 3000.0 }
    }

    #[test]
    fn a_single_page_pays_for_everything() {
        let figures = figures(&costs(), &Terms { assumed: assumed(), pair: 60.0 });
        let first = &figures[0];
        // A call, two sides with two page tables and a shootdown each, the pair, and the fault of reading its headers.
        assert_eq!(first.chain, 200.0 + 2.0 * (2.0 * 500.0 + 3000.0) + 60.0 + 1000.0);
        assert_eq!(first.zeroed, first.chain + 50.0);
        assert_eq!(first.faults, first.zeroed + 2000.0);
        assert_eq!((first.scattered, first.here), (first.zeroed, first.zeroed + 12_000.0));
        assert_eq!(first.paper, Some(1402.0));
    }

    #[test]
    fn batches_share_calls_and_flushes() {
        let figures = figures(&costs(), &Terms { assumed: assumed(), pair: 60.0 });
        let of = |bytes, batch| figures.iter().find(|figure| (figure.bytes, figure.batch) == (bytes, batch)).unwrap();
        assert!(of(1518, 256).chain < of(1518, 1).chain / 20.0);
        // Frames of 16 pages: 16 of them fill a call.
        assert!(of(65_536, 32).chain == of(65_536, 16).chain);
        assert_eq!((of(9000, 32).paper, of(9000, 64).paper), (Some(6.0 * 61.8), None));
        assert!(of(1518, 256).scattered > of(1518, 256).zeroed * 10.0);
    }
}
