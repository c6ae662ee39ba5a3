//! Memory that DPDK and the IOMMU know, counted: several devices may share it.

use crate::abi::{RawRegion, Table};
use crate::error::{Error, Result};
use crate::sentence::call;
use rustix::mm::{Advice, madvise};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A range of memory, and the addresses of its pages for devices.
pub struct Range {
    pub addr: u64,
    pub len: u64,
    pub page: u64,
    /// None if they are those of this process.
    pub iovas: Option<Box<[u64]>>,
}

impl Range {
    /// Describes memory for devices that use this process's addresses, or those of the machine, which `pagemap` tells.
    pub fn new(addr: *mut u8, len: usize, page: usize, pagemap: Option<&File>) -> Result<Range> {
        let fits = page.is_power_of_two() && len > 0 && (addr as usize | len).is_multiple_of(page);
        if !fits {
            return Err(Error::Invalid(format!("{len} bytes at {addr:p} are not made of pages of {page} bytes")));
        }
        let iovas = pagemap.map(|pagemap| machine_addresses(addr, len, page, pagemap)).transpose()?;
        Ok(Range { addr: addr as u64, len: len as u64, page: page as u64, iovas })
    }

    /// Describes it for the plugin, which may use it as long as `self` is there.
    pub fn raw(&self) -> RawRegion {
        let iovas = self.iovas.as_ref().map_or(std::ptr::null(), |iovas| iovas.as_ptr());
        RawRegion { addr: self.addr, len: self.len, page: self.page, iovas }
    }

    fn is_same(&self, entry: &Entry) -> bool {
        (entry.addr, entry.len) == (self.addr, self.len)
    }
}

/// Reads where the machine has the pages of a range, which are made present first.
fn machine_addresses(addr: *mut u8, len: usize, page: usize, pagemap: &File) -> Result<Box<[u64]>> {
    let failed =
        |error: std::io::Error| Error::Invalid(format!("addresses of the machine for memory at {addr:p}: {error}"));
    // SAFETY: it makes the pages of a mapping present, and changes no byte of it.
    unsafe { madvise(addr.cast(), len, Advice::LinuxPopulateWrite) }.map_err(|error| failed(error.into()))?;
    let kernel_page = rustix::param::page_size();
    let address = |offset: usize| {
        let mut entry = [0; 8];
        let number = (addr as usize + offset) / kernel_page;
        pagemap.read_exact_at(&mut entry, number as u64 * 8).map_err(failed)?;
        let entry = u64::from_ne_bytes(entry);
        // admin-guide/mm/pagemap: bit 63 is "present", bits 0 to 54 are the number of the frame, 0 without rights.
        match entry & ((1 << 55) - 1) {
            frame if entry >> 63 == 1 && frame != 0 => Ok(frame * kernel_page as u64),
            _ => Err(failed(std::io::Error::from(std::io::ErrorKind::PermissionDenied))),
        }
    };
    (0..len).step_by(page).map(address).collect()
}

struct Entry {
    addr: u64,
    len: u64,
    /// Devices that may reach it, and those of them that do so by the IOMMU. They share a mapping.
    users: u32,
    mapped: u32,
}

/// Memory that DPDK knows.
#[derive(Default)]
pub struct Memory(Vec<Entry>);

impl Memory {
    /// Makes memory known, and lets the device behind `port` reach it if there is an IOMMU for it.
    pub fn add(&mut self, table: &Table, range: &Range, port: Option<u16>) -> Result<()> {
        let raw = range.raw();
        let known = self.0.iter().position(|entry| range.is_same(entry));
        if known.is_none() {
            // SAFETY: the caller of `Device::share` says that this is shared memory, which stays mapped until `remove`.
            call(|error| unsafe { (table.memory_register)(&raw, error) })?;
            self.0.push(Entry { addr: range.addr, len: range.len, users: 0, mapped: 0 });
        }
        let at = known.unwrap_or(self.0.len() - 1);
        self.0[at].users += 1;
        let Some(port) = port else { return Ok(()) };
        self.0[at].mapped += 1;
        if self.0[at].mapped == 1
            // SAFETY: as above.
            && let Err(error) = call(|error| unsafe { (table.memory_map)(port, &raw, error) })
        {
            self.0[at].mapped = 0;
            self.remove(table, range, false);
            return Err(error);
        }
        Ok(())
    }

    /// Takes memory away from a device, and forgets it with the last one.
    pub fn remove(&mut self, table: &Table, range: &Range, is_mapped: bool) {
        let raw = range.raw();
        let Some(at) = self.0.iter().position(|entry| range.is_same(entry)) else { return };
        let entry = &mut self.0[at];
        if is_mapped {
            entry.mapped -= 1;
            if entry.mapped == 0 {
                // SAFETY: it was mapped by `add`. Devices that use it still get faults.
                unsafe { (table.memory_unmap)(&raw) };
            }
        }
        entry.users -= 1;
        if entry.users == 0 {
            self.0.swap_remove(at);
            // SAFETY: it was registered by `add`.
            unsafe { (table.memory_unregister)(&raw) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    use rustix::param::page_size;
    use std::collections::BTreeSet;

    #[test]
    fn memory_is_made_of_whole_pages() {
        let range = |addr: usize, len, page| Range::new(addr as *mut u8, len, page, None);
        assert!(range(0x4000, 0x3000, 0x1000).is_ok());
        for (addr, len, page) in
            [(0x4001, 0x1000, 0x1000), (0x4000, 0x1001, 0x1000), (0x4000, 0, 0x1000), (0x6000, 0x6000, 0x3000)]
        {
            let said = range(addr, len, page).err().unwrap().to_string();
            assert!(said.contains(&format!("are not made of pages of {page} bytes")), "{said}");
        }
    }

    #[test]
    fn each_page_has_an_address_of_the_machine_that_only_root_may_know() {
        let len = 4 * page_size();
        // SAFETY: a new mapping, of which nobody else knows.
        let addr =
            unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED) }
                .unwrap();
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        match Range::new(addr.cast(), len, page_size(), Some(&pagemap)) {
            Ok(range) => {
                let iovas: BTreeSet<u64> = range.iovas.unwrap().iter().copied().collect();
                assert_eq!(iovas.len(), 4);
                assert!(iovas.iter().all(|&iova| iova != 0 && iova.is_multiple_of(page_size() as u64)), "{iovas:x?}");
            }
            Err(error) => assert!(error.to_string().contains("addresses of the machine"), "{error}"),
        }
        // SAFETY: nothing uses it any more.
        unsafe { munmap(addr, len) }.unwrap();
    }
}
