//! Memory like a guest's: files, mapped back to back between guard pages.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::param::page_size;
use xsk::{Area, Chunks, Umem};

/// Regions from memfds in one range: guard, region, region, ..., guard. Unmapped on drop.
pub struct Memory {
    base: NonNull<u8>,
    len: usize,
    regions: Vec<usize>,
}

// SAFETY: the memory is only used by copying from and to it.
unsafe impl Send for Memory {}
// SAFETY: as above; the tests do not depend on bytes that threads copy at the same time.
unsafe impl Sync for Memory {}

impl Memory {
    /// Bytes of guard before and after, so that the first region starts at a multiple of every chunk.
    pub fn guard() -> usize {
        page_size()
    }

    /// Maps regions of these lengths, in whole pages.
    pub fn new(regions: &[usize]) -> Arc<Self> {
        let len = regions.iter().sum::<usize>() + 2 * Self::guard();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping overlaps nothing that exists.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::PRIVATE) }.unwrap();
        let this = Self { base: NonNull::new(base.cast()).unwrap(), len, regions: regions.to_vec() };
        for (index, &bytes) in regions.iter().enumerate() {
            let file = memfd_create("xsk-test", MemfdFlags::CLOEXEC).unwrap();
            ftruncate(&file, bytes as u64).unwrap();
            // SAFETY: the region lies in the range that was just mapped, which nothing uses yet.
            unsafe {
                let at = this.base.as_ptr().add(this.region(index) as usize);
                mmap(at.cast(), bytes, access, MapFlags::SHARED | MapFlags::FIXED, &file, 0).unwrap();
            }
        }
        this.write(0, &vec![0xee; len]);
        Arc::new(this)
    }

    /// Returns the address of a region's first byte; the index after the last gives the guard after it.
    pub fn region(&self, index: usize) -> u64 {
        (Self::guard() + self.regions[..index].iter().sum::<usize>()) as u64
    }

    /// Returns all of it, as memory for sockets.
    pub fn umem(self: &Arc<Self>, chunks: Chunks) -> Arc<Umem> {
        let area = |index: usize| Area {
            start: self.region(index),
            len: self.regions[index] as u64,
            page: page_size() as u64,
        };
        let areas = (0..self.regions.len()).map(area).collect();
        // SAFETY: mapped as long as it lives, and no reference to it is ever made.
        unsafe { Umem::new(self.base, self.len, areas, chunks, self.clone()) }.unwrap()
    }

    /// Returns a pointer to the first byte.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the length in bytes, including guards.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns a copy of some bytes.
    pub fn read(&self, address: u64, len: usize) -> Vec<u8> {
        assert!(address as usize + len <= self.len);
        let mut bytes = vec![0; len];
        // SAFETY: the bytes were just checked to be in the mapping; the kernel is done with them, or their value does
        // not matter.
        unsafe { ptr::copy_nonoverlapping(self.base.as_ptr().add(address as usize), bytes.as_mut_ptr(), len) };
        bytes
    }

    /// Overwrites some bytes.
    pub fn write(&self, address: u64, bytes: &[u8]) {
        assert!(address as usize + bytes.len() <= self.len);
        // SAFETY: as in `read`.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.as_ptr().add(address as usize), bytes.len());
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this value owns the range; sockets hold it while they use it.
        unsafe { munmap(self.base.as_ptr().cast(), self.len) }.unwrap();
    }
}
