//! Pages of an area in this process.

use crate::{Error, PAGE};
use rustix::fd::BorrowedFd;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Neighbouring pages of an area, mapped; an exchange changes their content.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<AtomicU64>,
    pages: usize,
}

// SAFETY: the memory is mapped in the whole process, and is accessed by atomics only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Words of a page.
    pub const WORDS: usize = PAGE / size_of::<u64>();

    pub(crate) fn new(area: BorrowedFd<'_>, first: u32, pages: u32) -> Result<Mapping, Error> {
        let len = pages as usize * PAGE;
        let (protection, offset) = (ProtFlags::READ | ProtFlags::WRITE, u64::from(first) * PAGE as u64);
        // SAFETY: the kernel chooses an address where nothing else is mapped.
        let start = unsafe { mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, area, offset) };
        let start = start.map_err(|error| Error::Map { pages, source: error.into() })?;
        let start = NonNull::new(start.cast()).expect("a mapping is not at address 0");
        Ok(Mapping { start, pages: pages as usize })
    }

    /// Returns its address.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr().cast()
    }

    /// Returns the number of its pages.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Copies the first `len` bytes of page `from` of another mapping to page `to`, as a switch copies a frame.
    ///
    /// # Panics
    ///
    /// Panics if a page is not mapped, or `len` exceeds a page.
    pub fn copy_from(&self, to: usize, other: &Mapping, from: usize, len: usize) {
        assert!(len <= PAGE, "{len} bytes are more than a page");
        let (to, from) = (self.page(to).as_ptr().cast::<u8>(), other.page(from).as_ptr().cast::<u8>());
        // SAFETY: both pages are mapped and writable, and their words are atomics, so that the compiler expects others to change
        // them. If both are the same, the copy changes nothing.
        unsafe { std::ptr::copy(from, to.cast_mut(), len) };
    }

    /// Returns the words of a page, counted from the first page mapped.
    ///
    /// # Panics
    ///
    /// Panics if the page is not mapped.
    pub fn page(&self, page: usize) -> &[AtomicU64] {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        // SAFETY: the page is mapped as long as `self` exists, as areas never shrink. Others write to it, which atomics allow.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(page * Self::WORDS), Self::WORDS) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nobody has a reference into it any more, as these borrow from `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.pages * PAGE) };
        debug_assert!(unmapped.is_ok(), "unmapping: {unmapped:?}");
    }
}
