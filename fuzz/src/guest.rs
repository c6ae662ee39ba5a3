//! A guest's memory, and the places and lengths that a fuzzer picks.

use arbitrary::Arbitrary;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::sync::{Arc, OnceLock};
use virtqueue::memory::{Memory, Region};

/// Two adjacent regions, each from its own file: one extent with a seam in it.
pub const LOW: u64 = 0x1_0000;
pub const LOW_LEN: u64 = 0x2_0000;
/// A distant region that starts within its file.
pub const HIGH: u64 = 0x4000_0000;
pub const HIGH_LEN: u64 = 0x1_0000;

fn region(guest_addr: u64, len: u64, offset: u64) -> Region {
    let file = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, offset + len).unwrap();
    Region { guest_addr, user_addr: guest_addr, len, offset, file: Arc::new(file) }
}

/// Returns the memory, all zeros. It is mapped once and cleared for every input.
pub fn memory() -> &'static Arc<Memory> {
    static MEMORY: OnceLock<Arc<Memory>> = OnceLock::new();
    let memory = MEMORY.get_or_init(|| {
        let half = LOW_LEN / 2;
        let regions = vec![region(LOW, half, 0), region(LOW + half, half, 0), region(HIGH, HIGH_LEN, 0x3000)];
        Arc::new(Memory::map(regions).unwrap())
    });
    for (addr, len) in [(LOW, LOW_LEN), (HIGH, HIGH_LEN)] {
        let start = memory.translate(addr, len).unwrap();
        // SAFETY: the range is mapped, and no queue runs between two inputs.
        unsafe { start.as_ptr().write_bytes(0, len as usize) };
    }
    memory
}

/// Writes `bytes` at `addr` if all of it is mapped.
pub fn write(memory: &Memory, addr: u64, bytes: &[u8]) {
    if let Some(at) = memory.translate(addr, bytes.len() as u64) {
        // SAFETY: the range is mapped; queues run on this thread, and not now.
        unsafe { at.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }
}

/// Returns the bytes at `addr`, or zeros if they are not mapped.
pub fn read<const N: usize>(memory: &Memory, addr: u64) -> [u8; N] {
    let mut bytes = [0; N];
    if let Some(at) = memory.translate(addr, N as u64) {
        // SAFETY: as in `write`.
        unsafe { at.as_ptr().copy_to_nonoverlapping(bytes.as_mut_ptr(), N) }
    }
    bytes
}

/// Panics unless `[ptr, ptr + len)` lies in the guest's shared memory.
pub fn assert_shared(memory: &Memory, ptr: *const u8, len: u32) {
    let inside = [(LOW, LOW_LEN), (HIGH, HIGH_LEN)].iter().any(|&(addr, size)| {
        let start = memory.translate(addr, size).unwrap().as_ptr() as usize;
        let offset = (ptr as usize).wrapping_sub(start) as u64;
        offset <= size && u64::from(len) <= size - offset
    });
    assert!(inside, "{ptr:p} and {len} bytes on is not the guest's");
}

/// A guest address, usually valid.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub struct GuestAddress {
    area: u8,
    offset: u32,
}

impl GuestAddress {
    pub fn addr(self) -> u64 {
        let offset = u64::from(self.offset);
        match self.area % 16 {
            // Close together, so that buffers overlap.
            0..=3 => LOW + LOW_LEN / 2 + offset % 64,
            4..=7 => LOW + offset % LOW_LEN,
            8..=11 => HIGH + offset % HIGH_LEN,
            12 => (LOW + LOW_LEN).wrapping_sub(offset % 64),
            13 => (HIGH + HIGH_LEN).wrapping_sub(offset % 64),
            14 => offset,
            _ => u64::MAX - offset % 64,
        }
    }
}

/// A length, usually possible for a frame.
#[derive(Arbitrary, Debug, Clone, Copy)]
pub struct Length(u8, u32);

impl Length {
    pub fn get(self) -> u32 {
        match self.0 % 8 {
            0 => self.1 % 16,
            1 => 24 + self.1 % 8,
            2 | 3 => self.1 % 100,
            4 | 5 => self.1 % 2000,
            6 => self.1 % (1 << 17),
            _ => self.1,
        }
    }
}
