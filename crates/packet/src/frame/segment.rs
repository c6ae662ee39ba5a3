//! A borrowed run of bytes: the piece that frames are made of.
#![allow(unsafe_code)]

use crate::checksum::{BLOCK, Sum};
use std::marker::PhantomData;

/// A borrowed run of bytes, perhaps a guest's: others may write to it while we read.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    ptr: *const u8,
    len: u32,
    lent: PhantomData<&'a [u8]>,
}

impl<'a> Segment<'a> {
    /// # Safety
    /// `[ptr, ptr + len)` must stay mapped and readable for `'a`. Others may write to it.
    #[inline(always)]
    pub unsafe fn new(ptr: *const u8, len: u32) -> Self {
        Segment { ptr, len, lent: PhantomData }
    }

    /// Returns the address of the first byte.
    #[inline(always)]
    pub fn as_ptr(&self) -> *const u8 {
        self.ptr
    }

    /// Returns the length in bytes.
    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Reports whether it has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Prefetches the first cache line for reading.
    #[inline(always)]
    pub fn prefetch(&self) {
        crate::copy::prefetch(self.ptr);
    }

    /// Splits it into the first `at` bytes and the rest; `at` is limited to the length.
    #[inline]
    pub fn split_at(self, at: u32) -> (Self, Self) {
        let at = at.min(self.len);
        // SAFETY: both parts lie in the bytes that this segment borrows.
        unsafe { (Segment::new(self.ptr, at), Segment::new(self.ptr.add(at as usize), self.len - at)) }
    }

    /// Copies as many bytes into `out` as fit; returns their number.
    #[inline]
    pub fn copy_to(&self, out: &mut [u8]) -> usize {
        let len = out.len().min(self.len as usize);
        // SAFETY: `len` bytes are readable here and writable there; `out` is borrowed exclusively, so it is not part of
        // the lent bytes.
        unsafe { std::ptr::copy_nonoverlapping(self.ptr, out.as_mut_ptr(), len) };
        len
    }

    /// Adds all bytes to a sum, and reads each once.
    pub fn add_to(&self, sum: &mut Sum) {
        let mut rest = [0; BLOCK];
        let (blocks, end) = self.split_at(self.len - self.len % BLOCK as u32);
        let read = |block: u32| blocks.read_at(block as usize * BLOCK).unwrap_or_default();
        let copied = end.copy_to(&mut rest);
        sum.add_blocks((0..blocks.len / BLOCK as u32).map(read), &rest[..copied]);
    }

    /// Passes copies of all bytes to `each`, in order, in pieces.
    pub fn read_pieces(&self, mut each: impl FnMut(&[u8])) {
        let (mut room, mut rest) = ([0; 256], *self);
        while !rest.is_empty() {
            let copied = rest.copy_to(&mut room);
            each(&room[..copied]);
            (_, rest) = rest.split_at(copied as u32);
        }
    }

    /// Returns a copy of the first `N` bytes, or `None` if there are fewer.
    #[inline(always)]
    pub fn read<const N: usize>(&self) -> Option<[u8; N]> {
        self.read_at(0)
    }

    /// Returns a copy of `N` bytes from `at`, or `None` if there are fewer.
    #[inline(always)]
    pub fn read_at<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        if at.checked_add(N)? > self.len as usize {
            return None;
        }
        let mut bytes = [0; N];
        // SAFETY: N bytes from `at` are readable, as they end within `len`; a torn value is as valid as any other that a guest may
        // write.
        unsafe { std::ptr::copy_nonoverlapping(self.ptr.add(at), bytes.as_mut_ptr(), N) };
        // Keeps the compiler from replacing uses of `bytes` by a second read of guest memory.
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::AcqRel);
        Some(bytes)
    }

    /// Returns the same bytes without their lifetime: only to be stored in a type that restores it.
    #[inline(always)]
    pub(super) fn forget(&self) -> Segment<'static> {
        Segment { ptr: self.ptr, len: self.len, lent: PhantomData }
    }
}

impl<'a> From<&'a [u8]> for Segment<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        debug_assert!(bytes.len() <= u32::MAX as usize);
        Segment { ptr: bytes.as_ptr(), len: bytes.len() as u32, lent: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_bytes() {
        let bytes: Vec<u8> = (0..300).map(|at| (at * 7) as u8).collect();
        for (from, to) in [(0, 0), (0, 1), (1, 64), (0, 64), (3, 130), (0, 300), (1, 300)] {
            let (mut sum, mut expected) = (Sum::new(), Sum::new());
            for part in [&bytes[..from], &bytes[from..to]] {
                Segment::from(part).add_to(&mut sum);
                expected.add(part);
            }
            assert_eq!(sum.finish(), expected.finish(), "{from} to {to}");
        }
    }
}
