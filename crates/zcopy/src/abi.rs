//! The module's interface, as in `kmod/zcopy/zcopy.h`.

/// Most pairs in one call.
pub const MAX_PAIRS: usize = 256;

/// Words of the bits of skipped pairs.
pub(crate) const WORDS: usize = MAX_PAIRS / 64;

/// Flag of an area: pages may return to where they came from as they are.
pub(crate) const RETURNS: u32 = 1;

/// Two pages to exchange.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pair {
    /// Number of the page that is given to the other area.
    pub here: u32,
    /// Number of the other area's page that comes in its place.
    pub there: u32,
    /// Begin of the frame in the given page.
    pub start: u16,
    /// Length of the frame; the receiver may see no more than this of a third area's bytes.
    pub len: u16,
}

#[repr(C)]
pub(crate) struct Size {
    pub(crate) pages: u64,
    pub(crate) flags: u32,
    pub(crate) reserved: u32,
}

#[repr(C)]
pub(crate) struct Exchange {
    pub(crate) other_fd: i32,
    pub(crate) count: u32,
    pub(crate) flags: u32,
    pub(crate) reserved: u32,
    pub(crate) pairs: u64,
    pub(crate) skipped: [u64; WORDS],
}

/// Counters of the module, and facts about one area.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// This area's number, which no other one ever has.
    pub id: u64,
    /// This area's pages.
    pub area_pages: u64,
    /// All areas that exist.
    pub areas: u64,
    /// Pages of all areas.
    pub pages: u64,
    /// Calls that exchanged pages.
    pub calls: u64,
    /// Pairs that were exchanged.
    pub exchanged: u64,
    /// Pairs that were not exchanged, as somebody held a page.
    pub skipped: u64,
    /// Pages that became zero as a whole.
    pub zeroed: u64,
    /// Pages of which everything but the frame became zero.
    pub trimmed: u64,
    /// Runs of pages that were taken out of all page tables.
    pub flushes: u64,
    /// Page faults in areas.
    pub faults: u64,
}

const WRITE: u32 = 1;
const READ: u32 = 2;

/// Returns the number of an ioctl, as the kernel's `_IOC` does.
const fn number(direction: u32, number: u32, size: usize) -> u32 {
    direction << 30 | (size as u32) << 16 | 0xee << 8 | number
}

pub(crate) const SIZE: u32 = number(WRITE, 0x60, size_of::<Size>());
pub(crate) const EXCHANGE: u32 = number(READ | WRITE, 0x61, size_of::<Exchange>());
pub(crate) const STATS: u32 = number(READ, 0x62, size_of::<Stats>());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_header() {
        // The values that gcc computes from the macros.
        assert_eq!([SIZE, EXCHANGE, STATS], [0x4010_ee60, 0xc038_ee61, 0x8058_ee62]);
        assert_eq!(size_of::<Pair>(), 12);
    }
}
