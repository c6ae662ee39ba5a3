//! A peer's description of a piece of its memory, and its validation before anything is mapped.

use super::error::{MAX_GUEST, MAX_REGIONS, MemoryError};
use rustix::fd::OwnedFd;
use rustix::fs::FileType;
#[cfg(not(miri))]
use rustix::fs::SeekFrom;
use std::sync::Arc;

/// A piece of guest memory: a part of a file that the guest maps too.
#[derive(Clone, Debug)]
pub struct Region {
    /// First guest physical address (for a user-space driver: the address that it puts into descriptors).
    pub guest_addr: u64,
    /// Address of the same byte in the frontend's address space, by which ring addresses are given.
    pub user_addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset of the region in `file`.
    pub offset: u64,
    /// The file, shared by all its mappings.
    pub file: Arc<OwnedFd>,
}

impl Region {
    fn end(&self) -> u64 {
        self.guest_addr + self.len
    }

    /// Reports whether `next` continues this region, in guest addresses and in the same file.
    pub(super) fn continues_in_file(&self, next: &Region) -> bool {
        self.end() == next.guest_addr && Arc::ptr_eq(&self.file, &next.file) && self.offset + self.len == next.offset
    }

    /// Reports whether the file is memory: on a tmpfs or hugetlbfs, or without a name (memfd_create(2)). Any other file
    /// is unsafe: the process behind a FUSE file supplies its pages, and even its length, when it likes. Only memory
    /// files have seals, and querying them never blocks.
    pub fn is_memory(&self) -> bool {
        rustix::fs::fcntl_get_seals(&*self.file).is_ok()
    }

    /// Returns the number of the character device that the file is, if it is one. All files of a device are alike to fstat(2), but
    /// may be different memory.
    pub fn device(&self) -> Option<u64> {
        let stat = rustix::fs::fstat(&*self.file).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice).then_some(stat.st_rdev)
    }

    /// Reports whether this is part of `file`, by whatever descriptor.
    #[cfg(not(miri))]
    pub(crate) fn is_of(&self, file: &OwnedFd) -> bool {
        let identity = |file: &OwnedFd| rustix::fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino)).ok();
        identity(&self.file).is_some_and(|own| identity(file) == Some(own))
    }

    /// Miri does not support fstat, and memory is not shared there between descriptors.
    #[cfg(miri)]
    pub(crate) fn is_of(&self, file: &Arc<OwnedFd>) -> bool {
        Arc::ptr_eq(&self.file, file)
    }

    #[cfg(not(miri))]
    fn file_size(&self) -> rustix::io::Result<u64> {
        match self.device() {
            // Only its end tells the length of a device's memory.
            Some(_) => rustix::fs::seek(&*self.file, SeekFrom::End(0)),
            None => Ok(rustix::fs::fstat(&*self.file)?.st_size as u64),
        }
    }

    /// Returns the size through std, as Miri does not support fstat.
    #[cfg(miri)]
    fn file_size(&self) -> rustix::io::Result<u64> {
        let file = std::fs::File::from(self.file.try_clone().unwrap());
        Ok(file.metadata().unwrap().len())
    }

    /// Returns how many bytes of the region its file lacks.
    #[cfg(not(miri))]
    fn missing(&self) -> rustix::io::Result<u64> {
        if self.page_size() > rustix::param::page_size() as u64 {
            // A hugetlbfs does not tell where its holes are.
            let stat = rustix::fs::fstat(&*self.file)?;
            return Ok((stat.st_size as u64).saturating_sub(stat.st_blocks as u64 * 512).min(self.len));
        }
        let end = self.offset + self.len;
        let (mut at, mut missing) = (self.offset, 0);
        for _ in 0..STRETCHES {
            let data = match rustix::fs::seek(&*self.file, SeekFrom::Data(at)) {
                Err(rustix::io::Errno::NXIO) => end,
                data => data?.min(end),
            };
            missing += data - at;
            if data == end {
                return Ok(missing);
            }
            at = rustix::fs::seek(&*self.file, SeekFrom::Hole(data))?.min(end);
            if at == end {
                return Ok(missing);
            }
        }
        Ok(missing + end - at)
    }

    /// Returns the page size of the file, to which its mappings must be aligned.
    pub(super) fn page_size(&self) -> u64 {
        const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;
        if cfg!(miri) {
            return usual_page();
        }
        match rustix::fs::fstatfs(&*self.file) {
            Ok(fs) if fs.f_type as u64 == HUGETLBFS_MAGIC => fs.f_bsize as u64,
            _ => usual_page(),
        }
    }
}

/// Returns the size of the machine's usual pages, of which there are several sizes.
pub(super) fn usual_page() -> u64 {
    // Miri cannot query it.
    if cfg!(miri) { 4096 } else { rustix::param::page_size() as u64 }
}

/// Memory that is allocated when all pages of a guest's memory are made to exist, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Pages of the files.
    pub pages: u64,
    /// Page tables of this process: 8 bytes for each page of the memory, whether it exists or not.
    pub page_tables: u64,
}

/// Most stretches of a file that are looked at. All bytes behind them count as missing.
#[cfg(not(miri))]
const STRETCHES: usize = 10_000;

/// Returns the most memory that these regions can lack.
#[cfg(not(miri))]
pub(super) fn missing(regions: &[&Region]) -> Missing {
    let pages = regions.iter().map(|region| region.missing().unwrap_or(region.len)).sum();
    let page_tables = regions.iter().map(|region| region.len / region.page_size() * 8).sum();
    Missing { pages, page_tables }
}

/// Miri maps no files.
#[cfg(miri)]
pub(super) fn missing(_: &[&Region]) -> Missing {
    Missing::default()
}

/// Sorts the regions by guest address and checks that each lies in its file and none overlaps another.
pub(super) fn check(regions: &mut [Region]) -> Result<(), MemoryError> {
    if regions.len() > MAX_REGIONS {
        return Err(MemoryError::TooMany(regions.len()));
    }
    for r in regions.iter() {
        let (guest_addr, len) = (r.guest_addr, r.len);
        let wraps = guest_addr.checked_add(len).is_none() || r.user_addr.checked_add(len).is_none();
        if len == 0 || wraps {
            return Err(MemoryError::BadLength { guest_addr, len });
        }
        let end = r.offset.checked_add(len).ok_or(MemoryError::BadLength { guest_addr, len })?;
        let size = r.file_size().map_err(|source| MemoryError::Map { guest_addr, len, source })?;
        if end > size {
            return Err(MemoryError::BeyondFile { guest_addr, end, size });
        }
    }
    let len = regions.iter().fold(0u64, |sum, r| sum.saturating_add(r.len));
    if len > MAX_GUEST {
        return Err(MemoryError::TooLarge { len });
    }
    regions.sort_by_key(|r| r.guest_addr);
    for pair in regions.windows(2) {
        if pair[0].end() > pair[1].guest_addr {
            return Err(MemoryError::Overlap { first: pair[0].guest_addr, second: pair[1].guest_addr });
        }
    }
    Ok(())
}

/// Cuts sorted regions into runs that can be mapped back to back: without gaps, and with every seam on a page boundary
/// of the files on both sides.
pub(super) fn runs(regions: &[Region]) -> impl Iterator<Item = &[Region]> {
    regions.chunk_by(|a, b| {
        let on_page =
            |r: &Region, seam: u64, at: u64| seam.is_multiple_of(r.page_size()) && at.is_multiple_of(r.page_size());
        a.continues_in_file(b)
            || (a.end() == b.guest_addr && on_page(a, a.end(), a.offset + a.len) && on_page(b, b.guest_addr, b.offset))
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[cfg(miri)]
    pub(crate) fn memfd(len: u64) -> Arc<OwnedFd> {
        Arc::new(crate::memory::arena::memory_file(len).unwrap())
    }

    #[cfg(not(miri))]
    pub(crate) fn memfd(len: u64) -> Arc<OwnedFd> {
        use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
        let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, len).unwrap();
        Arc::new(file)
    }

    /// Returns the length of `count` usual pages.
    pub(crate) fn pages(count: u64) -> u64 {
        count * usual_page()
    }

    fn region(guest_addr: u64, len: u64, offset: u64, size: u64) -> Region {
        Region { guest_addr, user_addr: 0, len, offset, file: memfd(size) }
    }

    #[test]
    fn lies_are_refused() {
        let refused = |mut r: Vec<Region>| check(&mut r).unwrap_err().to_string();
        assert!(refused(vec![region(0, 0, 0, 0)]).contains("empty"));
        assert!(refused(vec![region(u64::MAX, 4096, 0, 4096)]).contains("wraps"));
        assert!(refused(vec![region(0, 4096, u64::MAX, 4096)]).contains("wraps"));
        assert!(refused(vec![region(0, 8192, 4096, 8192)]).contains("0x3000"));
        let twice = vec![region(4096, 4096, 0, 4096), region(0, 4097, 0, 8192)];
        assert!(refused(twice).contains("overlap"));
        let many = (0..65).map(|i| region(i * 4096, 4096, 0, 4096)).collect();
        assert!(refused(many).contains("65"));
    }

    #[test]
    fn a_seam_off_the_page_starts_a_new_run() {
        let page = pages(1);
        let mut regions = vec![region(0, page, 0, page), region(page, 100, 0, page), region(page + 100, page, 0, page)];
        check(&mut regions).unwrap();
        let lengths: Vec<_> = runs(&regions).map(<[_]>::len).collect();
        assert_eq!(lengths, [2, 1]);
    }
}
