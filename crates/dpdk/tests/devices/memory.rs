//! Shared memory for tests.

use dpdk::{Device, Region};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Memory that is cut into buffers of the same size, which are numbered. It is mapped as long as it is used.
pub struct Memory {
    mapping: Arc<Mapping>,
    /// Bytes of a buffer.
    pub size: usize,
}

struct Mapping {
    addr: *mut u8,
    len: usize,
    is_gone: Arc<AtomicBool>,
}

// SAFETY: it is only the address of memory that is shared anyway.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.is_gone.store(true, Ordering::SeqCst);
        // SAFETY: nothing uses it any more.
        unsafe { munmap(self.addr.cast(), self.len).unwrap() };
    }
}

impl Memory {
    /// Maps `count` buffers of `size` bytes; together they are a multiple of the page size.
    pub fn new(count: usize, size: usize) -> Memory {
        let len = (count * size).next_multiple_of(rustix::param::page_size());
        let file = memfd_create("buffers", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, len as u64).unwrap();
        // SAFETY: a new mapping, of which nobody else knows.
        let addr =
            unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0) };
        let mapping = Mapping { addr: addr.unwrap().cast(), len, is_gone: Arc::default() };
        Memory { mapping: Arc::new(mapping), size }
    }

    /// Lets a device reach it.
    pub fn share(&self, device: &Device) -> Region {
        let Mapping { addr, len, .. } = *self.mapping;
        // SAFETY: it is shared memory without references, which the mapping keeps.
        unsafe { device.share(addr, len, rustix::param::page_size(), self.mapping.clone()) }.unwrap()
    }

    /// Lets a device reach so few bytes that DPDK finds no place in them.
    pub fn share_scrap(&self, device: &Device) -> Region {
        const SCRAP: usize = 16;
        // SAFETY: as above; the mapping has a page at least.
        unsafe { device.share(self.mapping.addr.add(SCRAP), SCRAP, SCRAP, self.mapping.clone()) }.unwrap()
    }

    /// Returns what becomes true once it is not mapped any more.
    pub fn is_gone(&self) -> Arc<AtomicBool> {
        self.mapping.is_gone.clone()
    }

    /// Returns the address of a buffer.
    pub fn addr(&self, number: u32) -> u64 {
        self.mapping.addr as u64 + u64::from(number) * self.size as u64
    }

    /// Returns the number of the buffer at an address.
    pub fn number(&self, addr: u64) -> Option<u32> {
        let offset = addr.checked_sub(self.mapping.addr as u64).filter(|&offset| offset < self.mapping.len as u64)?;
        Some((offset / self.size as u64) as u32)
    }

    /// Copies bytes in.
    pub fn write(&self, addr: u64, bytes: &[u8]) {
        self.check(addr, bytes.len());
        // SAFETY: it lies in the mapping.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), addr as *mut u8, bytes.len()) };
    }

    /// Copies bytes out.
    pub fn read(&self, addr: u64, len: usize) -> Vec<u8> {
        self.check(addr, len);
        let mut bytes = vec![0; len];
        // SAFETY: it lies in the mapping.
        unsafe { ptr::copy_nonoverlapping(addr as *const u8, bytes.as_mut_ptr(), len) };
        bytes
    }

    /// Writes the same byte everywhere.
    pub fn fill(&self, byte: u8) {
        // SAFETY: it is the mapping.
        unsafe { ptr::write_bytes(self.mapping.addr, byte, self.mapping.len) };
    }

    /// Reports whether each byte is this one.
    pub fn is_filled(&self, byte: u8) -> bool {
        self.read(self.mapping.addr as u64, self.mapping.len).iter().all(|&found| found == byte)
    }

    fn check(&self, addr: u64, len: usize) {
        let offset = addr.checked_sub(self.mapping.addr as u64).expect("it lies in the mapping");
        assert!(offset as usize + len <= self.mapping.len, "{len} bytes at {offset}");
    }
}
