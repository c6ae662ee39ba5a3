//! Memory to measure with: copies, and pages that leave and enter page tables.
#![allow(unsafe_code)]

use packet::copy::Copier;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::ptr::NonNull;

pub const PAGE: usize = 4096;

/// Shared memory, as guests have it.
pub struct Shared {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is mapped in the whole process; threads access it as bytes by volatile accesses only, and a mixture of
// old and new bytes is as good as any.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps memory, and touches all of it.
    pub fn new(len: usize) -> std::io::Result<Shared> {
        let file = memfd_create("exchange-model", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, len as u64)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an address where nothing else is.
        let start = unsafe { mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, &file, 0)? };
        let shared = Shared { start: NonNull::new(start.cast()).expect("not at address 0"), len };
        (0..len / PAGE).for_each(|page| shared.touch(page));
        Ok(shared)
    }

    pub fn pages(&self) -> usize {
        self.len / PAGE
    }

    /// Returns the place of `len` bytes.
    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset <= self.len && len <= self.len - offset, "{len} bytes at {offset}");
        // SAFETY: it lies within the mapping.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// Writes to a page.
    pub fn touch(&self, page: usize) {
        let at = self.at(page * PAGE, 1);
        // SAFETY: the byte is mapped.
        unsafe { at.write_volatile(1) };
    }

    /// Reads a byte of a page.
    pub fn look(&self, page: usize) -> u8 {
        let at = self.at(page * PAGE, 1);
        // SAFETY: the byte is mapped.
        unsafe { at.read_volatile() }
    }

    /// Takes pages out of the page table; their contents stay.
    pub fn unmap(&self, page: usize, pages: usize) {
        let at = self.at(page * PAGE, pages * PAGE);
        // SAFETY: the pages are of a file, and come back with the next access.
        unsafe { madvise(at.cast(), pages * PAGE, Advice::LinuxDontNeed) }.expect("the pages are mapped");
    }

    /// Makes a page zero.
    pub fn zero(&self, page: usize) {
        let at = self.at(page * PAGE, PAGE);
        // SAFETY: the page is mapped.
        unsafe { std::ptr::write_bytes(at, 0, PAGE) };
        std::hint::black_box(at);
    }

    /// Copies `len` bytes from one offset to another.
    pub fn copy(&self, copier: Copier, to: usize, from: usize, len: usize) {
        let (to, from) = (self.at(to, len), self.at(from, len));
        // SAFETY: both are mapped.
        unsafe { copier.copy(to, from, len) };
        std::hint::black_box(to);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it is no longer used. If this fails, it stays mapped, which does no harm.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
