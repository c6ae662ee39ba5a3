//! Tables of memory regions: accepted ones must be mapped as described, and others must do no harm.

use arbitrary::Arbitrary;
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::sync::{Arc, OnceLock};
use virtqueue::memory::{Memory, MemoryError, Region};

/// A number as in tables: on pages, at edges, or arbitrary.
#[derive(Arbitrary, Debug, Clone, Copy)]
struct Number(u8, u64);

impl Number {
    fn get(self) -> u64 {
        match self.0 % 8 {
            0 => self.1 % 16 * 4096,
            1 | 2 => self.1 % 256 * 4096,
            3 => self.1 % (1 << 20),
            4 => u64::MAX - self.1 % (1 << 13),
            5 => (1 << (self.1 % 64)) - (self.1 >> 32) % 2,
            6 => (self.1 % 64) << 58,
            _ => self.1,
        }
    }
}

#[derive(Arbitrary, Debug)]
struct Entry {
    file: u8,
    /// Starts at the end of the previous entry, instead of at `guest_addr`.
    adjacent: bool,
    guest_addr: Number,
    user_addr: Option<Number>,
    /// The length gives the end of the region.
    up_to: bool,
    len: Number,
    offset: Option<Number>,
}

#[derive(Arbitrary, Debug)]
pub struct Input {
    table: Vec<Entry>,
    added: Option<Entry>,
    removed: u8,
    probes: Vec<(Number, Number)>,
}

/// Returns files of several lengths, including the largest possible, and file descriptors that are not memory.
fn files() -> &'static [Arc<OwnedFd>] {
    static FILES: OnceLock<Vec<Arc<OwnedFd>>> = OnceLock::new();
    FILES.get_or_init(|| {
        let memfd = |len| {
            let file = memfd_create("region", MemfdFlags::CLOEXEC).unwrap();
            ftruncate(&file, len).unwrap();
            Arc::new(file)
        };
        let (read, write) = rustix::pipe::pipe().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        vec![
            memfd(1 << 20),
            memfd(1 << 20),
            memfd(5000),
            memfd(0),
            memfd(i64::MAX as u64),
            memfd(i64::MAX as u64),
            memfd(i64::MAX as u64),
            memfd(1 << 40),
            Arc::new(read),
            Arc::new(write),
            Arc::new(null.into()),
        ]
    })
}

fn region(entry: &Entry, end: u64) -> Region {
    let files = files();
    let guest_addr = if entry.adjacent { end } else { entry.guest_addr.get() };
    let len = entry.len.get();
    Region {
        guest_addr,
        user_addr: entry.user_addr.map_or(0, Number::get),
        len: if entry.up_to { len.wrapping_sub(guest_addr) } else { len },
        offset: entry.offset.map_or(0, Number::get),
        file: files[usize::from(entry.file) % files.len()].clone(),
    }
}

pub fn run(input: &Input) {
    // Memory around a mapping must not change, whatever the request.
    let neighbour = vec![0x5au8; 1 << 16];
    let mut end = 0;
    let mut regions = Vec::new();
    for entry in input.table.iter().take(80) {
        let region = region(entry, end);
        end = region.guest_addr.wrapping_add(region.len);
        regions.push(region);
    }
    let Ok(memory) = Memory::map(regions.clone()) else { return };
    check(&memory);
    assert_eq!(memory.regions().len(), regions.len());
    for (addr, len) in &input.probes {
        probe(&memory, addr.get(), len.get());
        memory.guest_addr(addr.get());
    }
    if let Some(entry) = &input.added
        && let Ok(more) = memory.with_region(region(entry, end))
    {
        check(&more);
        drop(memory);
        if let Some(r) = regions.get(usize::from(input.removed)) {
            let less = match more.without_region(r.guest_addr, r.user_addr, r.len) {
                Ok(less) => less,
                // Both are mapped for a moment, for which there may be too few addresses left.
                Err(MemoryError::Map { .. } | MemoryError::NoAddresses { .. }) => return,
                Err(error) => panic!("it was mapped: {error}"),
            };
            drop(more);
            check(&less);
            assert!(less.translate(r.guest_addr, r.len).is_none());
        }
    }
    assert!(neighbour.iter().all(|&b| b == 0x5a));
}

/// Checks that every region is mapped, from its first byte to its last.
fn check(memory: &Memory) {
    for r in memory.regions() {
        let start = memory.translate(r.guest_addr, r.len).expect("a region is mapped").as_ptr() as usize;
        let last = memory.translate(r.guest_addr + (r.len - 1), 1).expect("so is its last byte").as_ptr() as usize;
        assert_eq!((last - start) as u64, r.len - 1);
        probe(memory, r.guest_addr, 1);
        probe(memory, r.guest_addr + (r.len - 1), 1);
    }
}

/// Checks that a translated range is usable, and lies in regions from end to end.
fn probe(memory: &Memory, addr: u64, len: u64) {
    let Some(at) = memory.translate(addr, len) else { return };
    let mut covered = addr;
    for r in memory.regions().iter().filter(|r| r.guest_addr + r.len > addr) {
        if r.guest_addr <= covered {
            covered = r.guest_addr + r.len;
        }
    }
    assert!(covered >= addr + len);
    if len > 0 {
        // SAFETY: this check verifies that it is mapped; the files do not shrink.
        unsafe {
            at.as_ptr().write_volatile(1);
            at.as_ptr().add((len - 1) as usize).write_volatile(2);
        }
    }
}
