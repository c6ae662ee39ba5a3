//! The only copy of a frame: from the sender's memory to the receiver's.
//!
//! Short runs are copied inline, 16 bytes at a time; the last step overlaps the one before, so there is no loop over
//! single bytes. Longer runs use the processor's fastest method, chosen once at start: one binary fits every x86-64. On arm64 all
//! steps are of 16 bytes, by NEON, which every such processor has.
#![allow(unsafe_code)]

/// Length from which a call to wide vector code pays. Measured: 5 to 10 % of a frame of 512 bytes.
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code))]
const WIDE_FROM: usize = 256;

/// Length from which `rep movsb` pays. Measured: below about 1 KB its start-up costs more than it saves.
const STRING_FROM: usize = 1024;

/// Longest run that is copied without a loop. For every method that copies, `from` is no less.
const SHORT: usize = 64;

/// Copy method for long runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(all(target_arch = "x86_64", not(miri))), allow(dead_code))]
enum Long {
    /// 16 bytes a step; works on every x86-64.
    Vector,
    /// 64 bytes a step; needs AVX-512.
    Wide,
    /// The processor's string copy, where it reports that to be fast (ERMS).
    String,
    /// No copy at all.
    #[cfg(feature = "analysis")]
    Omitted,
}

/// A copy routine chosen for this processor.
#[derive(Clone, Copy, Debug)]
pub struct Copier {
    long: Long,
    /// Shortest run for which `long` is used.
    from: usize,
}

impl Copier {
    /// Returns the best copier for this processor.
    pub fn detect() -> Copier {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if std::is_x86_feature_detected!("avx512f") {
            return Copier { long: Long::Wide, from: WIDE_FROM };
        } else if std::is_x86_feature_detected!("ermsb") {
            return Copier { long: Long::String, from: STRING_FROM };
        }
        Copier { long: Long::Vector, from: STRING_FROM }
    }

    /// Returns a copier that copies nothing, to measure the rest of a data path.
    #[cfg(feature = "analysis")]
    pub fn omitting() -> Copier {
        Copier { long: Long::Omitted, from: 0 }
    }

    /// Copies `len` bytes. Either side may be guest memory that others change meanwhile; the result is then any mixture
    /// of old and new bytes.
    ///
    /// # Safety
    /// `[src, src + len)` must be readable, `[dst, dst + len)` writable. They may overlap, as when a guest sends a
    /// buffer that it has posted; the content of `dst` is then unspecified.
    #[inline(always)]
    pub unsafe fn copy(self, dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: passed on to the caller; for every method that copies, `from` is at least 64, and at least 256 for
        // `Wide`, which `detect` chooses only where there is AVX-512.
        unsafe {
            // Most frames are short: their length alone tells it.
            if len <= SHORT && (cfg!(not(feature = "analysis")) || len < self.from) {
                short(dst, src, len);
            } else if len < self.from {
                vector(dst, src, len);
            } else {
                match self.long {
                    Long::Vector => vector(dst, src, len),
                    Long::Wide => wide(dst, src, len),
                    Long::String => string(dst, src, len),
                    #[cfg(feature = "analysis")]
                    Long::Omitted => {}
                }
            }
        }
    }
}

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod arch {
    #[cfg(target_arch = "aarch64")]
    use std::arch::aarch64::{uint8x16_t as Vector, vld1q_u8, vst1q_u8};
    #[cfg(target_arch = "x86_64")]
    use std::arch::x86_64::{
        __m128i as Vector, _mm_loadu_si128, _mm_storeu_si128, _mm512_loadu_si512, _mm512_storeu_si512,
    };

    /// # Safety
    /// `src` must be readable for 16 bytes from `at` on.
    #[inline(always)]
    unsafe fn load(src: *const u8, at: usize) -> Vector {
        // SAFETY: the caller passes 16 readable bytes; neither needs alignment.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            return _mm_loadu_si128(src.add(at).cast());
            #[cfg(target_arch = "aarch64")]
            vld1q_u8(src.add(at))
        }
    }

    /// # Safety
    /// `dst` must be writable for 16 bytes from `at` on.
    #[inline(always)]
    unsafe fn store(dst: *mut u8, at: usize, value: Vector) {
        // SAFETY: the caller passes 16 writable bytes; neither needs alignment.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            _mm_storeu_si128(dst.add(at).cast(), value);
            #[cfg(target_arch = "aarch64")]
            vst1q_u8(dst.add(at), value);
        }
    }

    /// # Safety
    /// As [`super::Copier::copy`], and `len` is at most [`super::SHORT`].
    #[inline(always)]
    pub(super) unsafe fn short(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: every step lies in [0, len): the last one of each class starts at len minus its own size.
        unsafe {
            if len < 16 {
                tiny(dst, src, len);
            } else {
                // The four overlap below 64 bytes; all loads come first, so that none sees another's store.
                let second = if len > 32 { 16 } else { 0 };
                let (a, b) = (load(src, 0), load(src, second));
                let (c, d) = (load(src, len - 16 - second), load(src, len - 16));
                store(dst, 0, a);
                store(dst, second, b);
                store(dst, len - 16 - second, c);
                store(dst, len - 16, d);
            }
        }
    }

    /// # Safety
    /// As [`super::Copier::copy`], and `len` is at least 64.
    #[inline(always)]
    pub(super) unsafe fn vector(dst: *mut u8, src: *const u8, len: usize) {
        let mut at = 0;
        // SAFETY: steps of 64 bytes from 0 as long as one fits, then the last 64 bytes.
        unsafe {
            let step = |at: usize| {
                let (a, b, c, d) = (load(src, at), load(src, at + 16), load(src, at + 32), load(src, at + 48));
                store(dst, at, a);
                store(dst, at + 16, b);
                store(dst, at + 32, c);
                store(dst, at + 48, d);
            };
            while at + 64 < len {
                step(at);
                at += 64;
            }
            step(len - 64);
        }
    }

    /// # Safety
    /// As [`super::Copier::copy`]; `len` is at least 256, and the processor has AVX-512.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn wide(dst: *mut u8, src: *const u8, len: usize) {
        let mut at = 0;
        // SAFETY: steps of 256 bytes from 0 as long as one fits, then the last 256 bytes.
        unsafe {
            let step = |at: usize| {
                let load = |o: usize| _mm512_loadu_si512(src.add(at + o).cast());
                let (a, b, c, d) = (load(0), load(64), load(128), load(192));
                _mm512_storeu_si512(dst.add(at).cast(), a);
                _mm512_storeu_si512(dst.add(at + 64).cast(), b);
                _mm512_storeu_si512(dst.add(at + 128).cast(), c);
                _mm512_storeu_si512(dst.add(at + 192).cast(), d);
            };
            while at + 256 < len {
                step(at);
                at += 256;
            }
            step(len - 256);
        }
    }

    /// # Safety
    /// As [`super::Copier::copy`].
    #[cold]
    unsafe fn tiny(dst: *mut u8, src: *const u8, len: usize) {
        // Two overlapping halves, both loaded before either is stored. The lengths in an aggregate are this short, and
        // a call to memcpy would cost more than the copy.
        // SAFETY: each step starts at 0 or at `len` minus its own size, which is at most `len`; none asks for alignment.
        unsafe {
            if len >= 8 {
                let (a, b) = (src.cast::<u64>().read_unaligned(), src.add(len - 8).cast::<u64>().read_unaligned());
                dst.cast::<u64>().write_unaligned(a);
                dst.add(len - 8).cast::<u64>().write_unaligned(b);
            } else if len >= 4 {
                let (a, b) = (src.cast::<u32>().read_unaligned(), src.add(len - 4).cast::<u32>().read_unaligned());
                dst.cast::<u32>().write_unaligned(a);
                dst.add(len - 4).cast::<u32>().write_unaligned(b);
            } else if len >= 2 {
                let (a, b) = (src.cast::<u16>().read_unaligned(), src.add(len - 2).cast::<u16>().read_unaligned());
                dst.cast::<u16>().write_unaligned(a);
                dst.add(len - 2).cast::<u16>().write_unaligned(b);
            } else if len == 1 {
                *dst = *src;
            }
        }
    }

    /// # Safety
    /// As [`super::Copier::copy`].
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) unsafe fn string(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: `rep movsb` copies exactly rcx bytes upwards; the ABI guarantees that the direction flag is clear.
        unsafe {
            std::arch::asm!(
                "rep movsb",
                inout("rcx") len => _,
                inout("rdi") dst => _,
                inout("rsi") src => _,
                options(nostack, preserves_flags)
            );
        }
    }

    #[cfg(target_arch = "aarch64")]
    pub(super) use {vector as string, vector as wide};
}

#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
mod arch {

    /// # Safety
    /// As [`super::Copier::copy`].
    pub(super) unsafe fn short(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: passed on.
        unsafe { std::ptr::copy(src, dst, len) }
    }

    pub(super) use {short as string, short as vector, short as wide};
}

use arch::{short, string, vector, wide};

/// Prefetches the cache line at `ptr` for reading.
#[inline(always)]
pub fn prefetch(ptr: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch of any address has no effect that a program can observe.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(ptr.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) ptr, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    let _ = ptr;
}

/// Prefetches the cache line at `ptr` for writing.
#[inline(always)]
pub fn prefetch_write(ptr: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch of any address has no effect; processors without PREFETCHW treat it as a no-op.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) ptr, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) ptr, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    let _ = ptr;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_exactly() {
        let src: Vec<u8> = (0..4096u32).map(|i| (i % 251) as u8).collect();
        let of = |long| Copier { long, from: 64 };
        // Miri has only one method.
        let all = [Copier::detect(), of(Long::Vector), of(Long::String)];
        for copier in &all[..if cfg!(miri) { 1 } else { 3 }] {
            for len in
                (0..if cfg!(miri) { 20 } else { 300 }).chain([511, 512, 1000, 1023, 1024, 1025, 1500, 1518, 4000])
            {
                for offset in if cfg!(miri) { 15..16 } else { 0..16 } {
                    let mut dst = vec![0xee; len + 64];
                    // SAFETY: both ranges lie in their vectors.
                    unsafe { copier.copy(dst.as_mut_ptr().add(32), src.as_ptr().add(offset), len) };
                    assert!(dst[..32].iter().chain(&dst[32 + len..]).all(|&b| b == 0xee), "length {len}");
                    assert_eq!(dst[32..32 + len], src[offset..offset + len], "length {len}");
                }
            }
        }
    }
}
