//! Memory whose pages can be exchanged.

use crate::abi::{self, EXCHANGE, Exchange, MAX_PAIRS, Pair, SIZE, STATS, Size, Stats, WORDS};
use crate::{Error, Mapping};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::io;

/// The memory behind one descriptor of the device: pages that are zero at first, and numbered.
///
/// It exists as long as a descriptor or a mapping of it does, in any process.
#[derive(Debug)]
pub struct Area {
    fd: OwnedFd,
    id: u64,
    pages: u32,
}

impl Area {
    /// Gives pages to the area of a new descriptor.
    pub(crate) fn sized(fd: OwnedFd, pages: u32, flags: u32) -> Result<Area, Error> {
        let mut size = Size { pages: pages.into(), flags, reserved: 0 };
        // SAFETY: the call reads a `Size`.
        unsafe { ioctl(&fd, SIZE, &raw mut size) }.map_err(|source| Error::Size { pages, source })?;
        Area::known(fd)
    }

    /// Wraps a descriptor of the device.
    pub(crate) fn known(fd: OwnedFd) -> Result<Area, Error> {
        let stats = stats(&fd)?;
        match u32::try_from(stats.area_pages) {
            Ok(0) | Err(_) => Err(Error::NoPages),
            Ok(pages) => Ok(Area { fd, id: stats.id, pages }),
        }
    }

    /// Returns its number, which no other area ever has: two descriptors of one area have the same.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the number of its pages.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Maps `pages` pages from page `first`.
    pub fn map(&self, first: u32, pages: u32) -> Result<Mapping, Error> {
        Mapping::new(self.as_fd(), first, pages)
    }

    /// Gives pages of this area to `there`, each in exchange for one of its pages. Allocates nothing.
    ///
    /// The call is refused as a whole if a page is in it twice, or beyond its area. Pairs with a page that somebody else
    /// holds are skipped. Pairs that go up by one on a side share a flush on that side.
    pub fn exchange(&self, there: &Area, pairs: &[Pair]) -> Result<Outcome, Error> {
        if pairs.is_empty() {
            return Ok(Outcome { exchanged: 0, skipped: [0; WORDS] });
        }
        if pairs.len() > MAX_PAIRS {
            return Err(Error::TooMany(pairs.len()));
        }
        let mut call = Exchange {
            other_fd: there.fd.as_raw_fd(),
            count: pairs.len() as u32,
            flags: 0,
            reserved: 0,
            pairs: pairs.as_ptr().addr() as u64,
            skipped: [0; WORDS],
        };
        // SAFETY: the call reads and writes an `Exchange`, and reads `count` pairs from `pairs`. It changes bytes of areas,
        // which nobody has a Rust reference to but for atomics (`Mapping`).
        let done = unsafe { ioctl(&self.fd, EXCHANGE, &raw mut call) };
        match done {
            Ok(exchanged) => Ok(Outcome { exchanged, skipped: call.skipped }),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(Error::Wrong),
            Err(error) => Err(Error::Refused(error)),
        }
    }

    /// Returns counters of the module.
    pub fn stats(&self) -> Result<Stats, Error> {
        stats(&self.fd)
    }
}

impl AsFd for Area {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<Area> for OwnedFd {
    fn from(area: Area) -> OwnedFd {
        area.fd
    }
}

/// Outcome of a call: the number of pairs that were exchanged, and the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    exchanged: u32,
    skipped: [u64; WORDS],
}

impl Outcome {
    /// Returns how many pairs were exchanged.
    #[inline]
    pub fn exchanged(&self) -> u32 {
        self.exchanged
    }

    /// Reports whether pair `index` was left as it is: somebody held one of its pages, and its frame has to be copied.
    #[inline]
    pub fn is_skipped(&self, index: usize) -> bool {
        self.skipped.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 != 0)
    }
}

fn stats(fd: &OwnedFd) -> Result<Stats, Error> {
    let mut stats = abi::Stats::default();
    // SAFETY: the call writes a `Stats`.
    unsafe { ioctl(fd, STATS, &raw mut stats) }.map_err(Error::Refused)?;
    Ok(stats)
}

/// Calls the device.
///
/// # Safety
/// `argument` must be of the type that the ioctl `number` reads and writes.
unsafe fn ioctl<T>(fd: &OwnedFd, number: u32, argument: *mut T) -> io::Result<u32> {
    // SAFETY: as the caller promises.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), number as libc::Ioctl, argument) };
    u32::try_from(done).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_pairs_have_their_bits() {
        let outcome = Outcome { exchanged: 254, skipped: [1 << 63, 0, 0, 1] };
        let skipped: Vec<_> = (0..300).filter(|&pair| outcome.is_skipped(pair)).collect();
        assert_eq!(skipped, [63, 192]);
    }
}
