//! Memory that the kernel may write frames to: passes memory of `virtqueue` on to `xsk`.
//!
//! `virtqueue` owns all memory that frames lie in, and `xsk` lends memory to the kernel without knowing its owner. This
//! is the only place where the two meet, and where the safety conditions of `xsk` are argued.
#![allow(unsafe_code)]

use crate::port::pool::Pool;
use std::sync::{Arc, Weak};
use virtqueue::memory::{Arena, Memory, Span};
use xsk::{Area, Chunks, Umem};

/// Memory of the switch and of guests, in one run of addresses for the kernel.
#[derive(Clone, Debug)]
pub struct UmemView {
    umem: Arc<Umem>,
    span: Arc<Span>,
}

/// A [`UmemView`] as long as others keep it.
#[derive(Debug)]
pub struct WeakView {
    umem: Weak<Umem>,
    span: Weak<Span>,
}

impl WeakView {
    /// Returns the view, if it is still in use.
    pub fn upgrade(&self) -> Option<UmemView> {
        Some(UmemView { umem: self.umem.upgrade()?, span: self.span.upgrade()? })
    }
}

impl UmemView {
    /// Maps `memories` into one run, cut into `chunks`.
    pub fn new(memories: &[Arc<Memory>], chunks: Chunks) -> Result<UmemView, String> {
        let span = Arc::new(Span::new(memories).map_err(|e| e.to_string())?);
        let areas = span.parts().iter().map(|part| Area { start: part.start, len: part.len, page: part.page });
        let (base, len, areas) = (span.base(), span.len() as usize, areas.collect());
        // SAFETY: the span, which is the owner, is one mapping from its base on for its length, until it is dropped. No
        // reference to a byte of it exists: it hands out nothing but its address; and the memories that it is made of,
        // by which the same bytes are also mapped, are shared with others who may write to them at any time, so virtqueue
        // touches them by raw pointers and atomics only.
        let umem = unsafe { Umem::new(base, len, areas, chunks, span.clone()) }.map_err(|e| e.to_string())?;
        Ok(UmemView { umem, span })
    }

    /// Returns a handle that does not keep the memory.
    pub fn downgrade(&self) -> WeakView {
        WeakView { umem: Arc::downgrade(&self.umem), span: Arc::downgrade(&self.span) }
    }

    /// Returns the memory for sockets.
    pub fn umem(&self) -> &Arc<Umem> {
        &self.umem
    }

    /// Returns `count` chunks from the arena's address `first` on, if the view covers them all.
    pub fn pool(&self, arena: Arc<Arena>, first: u64, count: u16) -> Option<Pool> {
        Pool::new(arena, first, self.umem.chunks().size, count, |host, len| self.address(host, len))
    }

    /// Returns the kernel's address of `len` bytes at an address in this process.
    #[inline(always)]
    pub fn address(&self, host: u64, len: u32) -> Option<u64> {
        self.span.offset(host, len.into())
    }
}
