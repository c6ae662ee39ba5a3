//! Memory for sockets: a range with an external owner, and the rules for addresses that the kernel accepts.

mod area;
mod chunks;

use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::net::xdp::{XdpUmemReg, XdpUmemRegFlags};
use rustix::param::page_size;

use crate::queue::Socket;
use crate::{Error, Result};
pub use area::Area;
pub use chunks::Chunks;

/// A range of memory that sockets receive to and send from, in chunks.
///
/// It never changes: other memory requires another `Umem` and new sockets. One `Umem` may serve any number of queues,
/// of several interfaces, each with its own rings. Several may cover the same memory, cut into different chunks. The
/// kernel pins the pages from when the first socket opens until the last one is gone.
pub struct Umem {
    base: NonNull<u8>,
    len: u64,
    page: u64,
    areas: Vec<Area>,
    chunks: Chunks,
    /// Sockets bound with this memory, whose registration the next one can share.
    sockets: Mutex<Vec<Weak<Socket>>>,
    /// Dropped last: it owns the memory.
    owner: Arc<dyn Send + Sync>,
}

// SAFETY: the pointer is only handed out; its use is up to the holders of `owner`, which may be shared.
unsafe impl Send for Umem {}
// SAFETY: as above.
unsafe impl Sync for Umem {}

impl Umem {
    /// Describes the `len` bytes at `base`, which start on a page.
    ///
    /// `areas` lists the parts whose pages are larger than the system's; the rest, such as guard pages, need not be in
    /// any. All of the range must be mapped, readable and writable, else the kernel refuses it when the first socket
    /// opens. A guard page before and after borrowed memory keeps chunks acceptable that reach over its edges: no frame
    /// is written there, but the kernel counts whole chunks.
    ///
    /// # Safety
    /// As long as `owner` lives, the range stays mapped. The kernel writes to filled chunks at any time, so no Rust
    /// reference may exist to any filled byte, whichever code filled it: filling is not unsafe.
    pub unsafe fn new(
        base: NonNull<u8>,
        len: usize,
        areas: Vec<Area>,
        chunks: Chunks,
        owner: Arc<dyn Send + Sync>,
    ) -> Result<Arc<Self>> {
        Self::on_pages(page_size() as u64, base, len, areas, chunks, owner)
    }

    /// Describes memory of a system with pages of this size.
    fn on_pages(
        page: u64,
        base: NonNull<u8>,
        len: usize,
        areas: Vec<Area>,
        chunks: Chunks,
        owner: Arc<dyn Send + Sync>,
    ) -> Result<Arc<Self>> {
        let len = len as u64;
        let problem = if !(base.as_ptr() as u64).is_multiple_of(page) {
            Some(format!("it begins at {base:p}, which is not a multiple of the page size {page}"))
        } else if len == 0 || len >= 1 << 47 || base.as_ptr().addr().checked_add(len as usize).is_none() {
            Some(format!("{len} bytes are not a possible length"))
        } else if !chunks.unaligned && !len.is_multiple_of(chunks.size.max(1).into()) {
            Some(format!("its {len} bytes are not a multiple of the {} of an aligned chunk", chunks.size))
        } else {
            chunks.problem(page).or_else(|| area::problem(&areas, len, page))
        };
        match problem {
            Some(problem) => Err(Error::Memory { problem }),
            None => Ok(Arc::new(Self { base, len, page, areas, chunks, sockets: Mutex::default(), owner })),
        }
    }

    /// Returns its division into chunks.
    pub fn chunks(&self) -> Chunks {
        self.chunks
    }

    /// Returns its length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns the owner, which keeps the memory mapped.
    pub fn owner(&self) -> &Arc<dyn Send + Sync> {
        &self.owner
    }

    /// Returns the address of a byte, if it is in this memory.
    #[inline]
    pub fn address(&self, ptr: *const u8) -> Option<u64> {
        let address = (ptr.addr() as u64).checked_sub(self.base.as_ptr().addr() as u64)?;
        (address < self.len).then_some(address)
    }

    /// Returns a pointer to the `len` bytes at an address, if they are in this memory.
    #[inline]
    pub fn ptr(&self, address: u64, len: u32) -> Option<NonNull<u8>> {
        // SAFETY: just checked to lie in the range, which stays mapped as long as `owner` lives.
        self.holds(address, len.into()).then(|| unsafe { self.base.add(address as usize) })
    }

    /// Returns the address to fill so that a frame lands at `frame`, or `None` if no chunk can lie so. The kernel may
    /// still refuse it, see [`Self::accepts`].
    #[inline(always)]
    pub fn fill_address(&self, frame: u64) -> Option<u64> {
        self.chunks.fill_address(frame)
    }

    /// Returns the first byte of a received descriptor's frame.
    #[inline]
    pub fn frame_address(&self, address: u64) -> u64 {
        self.chunks.frame_address(address)
    }

    /// Returns the filled address that led to the descriptor with this address.
    #[inline(always)]
    pub fn filled_address(&self, address: u64) -> u64 {
        self.chunks.filled_address(address)
    }

    /// Reports whether the kernel accepts this address from the fill ring (`xp_check_unaligned`, `xp_check_aligned`).
    /// The kernel drops other addresses silently, so check before filling.
    ///
    /// The whole chunk must be in the memory. In zero-copy mode it must also not cross into a page that need not be
    /// adjacent for the hardware; within a huge page it may.
    #[inline(always)]
    pub fn accepts(&self, address: u64, zero_copy: bool) -> bool {
        let (address, size) = (self.chunks.filled_address(address), u64::from(self.chunks.size));
        self.holds(address, size) && (!zero_copy || self.contiguous(address, size))
    }

    /// Reports whether the kernel sends these bytes from where they are (`xp_unaligned_validate_desc` and its like). A
    /// descriptor that it refuses ends a wake-up.
    #[inline(always)]
    pub fn sends(&self, address: u64, len: u32, zero_copy: bool) -> bool {
        let Chunks { size, unaligned, .. } = self.chunks;
        let room = if unaligned { size } else { size - (address & u64::from(size - 1)) as u32 };
        let address = self.chunks.frame_address(address);
        0 < len
            && len <= room
            && self.holds(address, len.into())
            && (!zero_copy || self.contiguous(address, len.into()))
    }

    #[inline(always)]
    fn holds(&self, address: u64, len: u64) -> bool {
        len <= self.len && address <= self.len - len
    }

    /// Reports whether bytes of this memory are in one page, or in pages that are certainly contiguous for the hardware.
    #[inline]
    fn contiguous(&self, address: u64, len: u64) -> bool {
        let first = self.base.as_ptr().addr() as u64 + address;
        let last = first + len - 1;
        // Pages of every size are aligned to it.
        first / self.page == last / self.page
            || self.areas.iter().any(|area| area.holds(address, len) && first / area.page == last / area.page)
    }

    pub(crate) fn registration(&self) -> XdpUmemReg {
        let unaligned = XdpUmemRegFlags::XDP_UMEM_UNALIGNED_CHUNK_FLAG;
        XdpUmemReg {
            addr: self.base.as_ptr().expose_provenance() as u64,
            len: self.len,
            chunk_size: self.chunks.size,
            headroom: self.chunks.headroom,
            flags: if self.chunks.unaligned { unaligned } else { XdpUmemRegFlags::empty() },
            tx_metadata_len: 0,
        }
    }

    /// Waits until no queue that is being opened with this memory refers to the socket of another one. A socket that its
    /// owner has dropped before is closed then.
    pub fn settle(&self) {
        drop(self.sockets());
    }

    /// Returns the sockets bound with this memory. Held locked while a socket opens: the next one checks whether there
    /// is one to share with.
    pub(crate) fn sockets(&self) -> MutexGuard<'_, Vec<Weak<Socket>>> {
        // A panic leaves nothing half-done in a list of weak references.
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Umem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { base, len, areas, chunks, .. } = self;
        f.debug_struct("Umem")
            .field("base", base)
            .field("len", len)
            .field("areas", areas)
            .field("chunks", chunks)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BASE: usize = 0x10_0000_0000;
    const HUGE: u64 = 2 << 20;

    /// Describes memory that does not exist, on pages of 4 KiB; nothing here accesses it.
    fn describe(base: usize, len: u64, areas: &[Area], chunks: Chunks) -> Result<Arc<Umem>> {
        let base = NonNull::new(std::ptr::without_provenance_mut(base)).unwrap();
        Umem::on_pages(4096, base, len as usize, areas.to_vec(), chunks, Arc::new(()))
    }

    #[test]
    fn addresses_and_pointers() {
        let umem = describe(BASE, 8192, &[], Chunks::unaligned(2048)).unwrap();
        let at = |offset: usize| std::ptr::without_provenance(BASE + offset);
        assert_eq!(umem.address(at(0)), Some(0));
        assert_eq!(umem.address(at(8191)), Some(8191));
        assert_eq!(umem.address(at(8192)), None);
        assert_eq!(umem.address(std::ptr::without_provenance(BASE - 1)), None);
        assert_eq!(umem.ptr(8000, 193), None);
        assert_eq!(umem.ptr(u64::MAX, 2), None);
    }

    #[test]
    fn chunks_in_the_range() {
        let umem = describe(BASE, 8192, &[], Chunks::unaligned(2048)).unwrap();
        for good in [0, 1, 2049, 6143, 6144, 6144 | 700 << 48] {
            assert!(umem.accepts(good, false), "{good}");
        }
        for bad in [6145, 8191, 8192, 1 << 47] {
            assert!(!umem.accepts(bad, false), "{bad}");
        }
        let umem = describe(BASE, 8192, &[], Chunks::aligned(4096)).unwrap();
        assert!(umem.accepts(8191, false) && umem.accepts(4096, true));
        assert!(!umem.accepts(8192, false));
    }

    #[test]
    fn pages_in_zero_copy_mode() {
        // Guard, huge pages, small pages, guard.
        let areas = [Area { start: HUGE, len: 2 * HUGE, page: HUGE }, Area { start: 3 * HUGE, len: HUGE, page: 4096 }];
        let umem = describe(BASE, 5 * HUGE, &areas, Chunks::unaligned(2048)).unwrap();
        let accepts = |address| {
            assert!(umem.accepts(address, false));
            umem.accepts(address, true)
        };
        // Within a huge page, but not from one to the next, nor over the edges of the area.
        assert!(accepts(HUGE) && accepts(HUGE + 4000) && accepts(2 * HUGE - 2048) && accepts(3 * HUGE - 2048));
        assert!(!accepts(HUGE - 1) && !accepts(2 * HUGE - 2047) && !accepts(3 * HUGE - 2047));
        // On small pages only within one.
        assert!(accepts(3 * HUGE + 2048) && accepts(3 * HUGE) && accepts(0));
        assert!(!accepts(3 * HUGE + 2049) && !accepts(4 * HUGE - 1) && !accepts(4095));
    }

    #[test]
    fn ranges_that_can_be_sent() {
        let umem = describe(BASE, 8192, &[], Chunks::unaligned(2048)).unwrap();
        assert!(umem.sends(4095, 2048, false) && umem.sends(8191, 1, true));
        assert!(!umem.sends(4095, 2, true), "crosses pages");
        assert!(!umem.sends(0, 0, false) && !umem.sends(0, 2049, false) && !umem.sends(8191, 2, false));
        assert!(!umem.sends(u64::MAX, 1, false));
        let umem = describe(BASE, 8192, &[], Chunks::aligned(2048)).unwrap();
        assert!(umem.sends(2100, 1996, true));
        assert!(!umem.sends(2100, 1997, true), "leaves its chunk");
    }

    #[test]
    fn memory_that_does_not_fit() {
        let good = Chunks::unaligned(2048);
        for (base, len, chunks) in [
            (BASE + 1, 8192, good),
            (BASE, 0, good),
            (BASE, 1 << 47, good),
            (BASE, 8192 + 2048, Chunks::aligned(4096)),
            (BASE, 8192, Chunks::aligned(0)),
        ] {
            describe(base, len, &[], chunks).unwrap_err();
        }
        describe(BASE, 8192, &[Area { start: 8192, len: 1, page: 4096 }], good).unwrap_err();
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..<_>::default() })]
        /// The kernel's rule, over a table of pages (`xp_desc_crosses_non_contig_pg`).
        #[test]
        fn zero_copy_is_the_kernels_rule(
            address in 0..40 * 4096u64,
            size in 2048..=4096u32,
            // In units of two small pages, which serve as huge pages here.
            (start, end) in (0..20u64, 0..20u64).prop_map(|(a, b)| (a.min(b), a.max(b))),
        ) {
            let area = Area { start: start * 8192, len: (end - start) * 8192, page: 8192 };
            let umem = describe(BASE, 40 * 4096, &[area], Chunks::unaligned(size)).unwrap();
            let inside = address + u64::from(size) <= umem.len();
            prop_assert_eq!(umem.accepts(address, false), inside);
            let crosses = address % 4096 + u64::from(size) > 4096;
            let page = address / 4096;
            let next_is_contiguous = (start..end).contains(&(page / 2)) && page % 2 == 0;
            prop_assert_eq!(umem.accepts(address, true), inside && (!crosses || next_is_contiguous));
        }
    }
}
