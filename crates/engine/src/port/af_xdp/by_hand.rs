//! A queue without an interface, for measurements and tests: its owner does the kernel's part by hand.

use super::device::{CHUNKS, LIMITS};
use super::rings::{RxRings, TxRings};
use super::{Stuck, UmemView, XdpReceive, XdpTransmit};
use crate::port::unfinished::Unfinished;
use crate::port::zero_copy::{Lending, Mapped};
use packet::Segment;
use std::sync::Arc;
use virtqueue::NET_HEADER;
use virtqueue::memory::Arena;
use xsk::{Chunks, Descriptor, Kernel, Queue};

/// The kernel's part of a queue, with the memory that it knows.
pub struct Nic {
    /// The other side of the queue's rings.
    pub kernel: Kernel,
    view: UmemView,
    own: Arc<Arena>,
    guest: Arc<Arena>,
}

impl Nic {
    /// Opens a queue of `size` descriptors, a power of two, that reaches a guest's memory. If it is `mapped` to the guest, frames stay in
    /// place. It finishes checksums if they may be `unfinished`.
    pub fn open(
        guest: Arc<Arena>,
        size: u16,
        mapped: Option<Arc<Mapped>>,
        unfinished: bool,
    ) -> Result<(XdpReceive, XdpTransmit, Nic), String> {
        let bytes = u64::from(size) * u64::from(CHUNKS[0]);
        let mut own = Arena::new(2 * bytes + 4096, false).map_err(|e| e.to_string())?;
        let pools = [(); 2].map(|()| own.allocate(bytes, 4096).ok_or("its memory is too small"));
        let own = Arc::new(own);
        let chunks = Chunks::limited(CHUNKS[0], LIMITS[0]).ok_or("that is less than a chunk")?;
        let view = UmemView::new(&[own.memory().clone(), guest.memory().clone()], chunks)?;
        let pool = |first| view.pool(own.clone(), first, size).ok_or("its memory is in pieces");
        let [receiving, sending] = [pool(pools[0]?)?, pool(pools[1]?)?];
        let (queue, kernel) = Queue::by_hand(view.umem(), size.into(), false).map_err(|e| e.to_string())?;
        let Queue { fill, rx, tx, completion } = queue;
        let room = NET_HEADER + chunks.frame_limit(false);
        let lending = mapped.clone().map(|mapped| Lending::new(mapped, room));
        let (stuck, unfinished) = (Arc::<Stuck>::default(), unfinished.then(Unfinished::default));
        let rings = RxRings { rx, fill };
        let rx = XdpReceive::new(rings, view.clone(), receiving, lending, stuck.clone(), Arc::default(), unfinished);
        let tx = XdpTransmit::new(TxRings { tx, completion }, view.clone(), sending, LIMITS[0], mapped, stuck);
        Ok((rx.map_err(|e| e.to_string())?, tx, Nic { kernel, view, own, guest }))
    }

    /// Finds the memory and its address of `len` bytes at an address of the kernel's.
    fn locate(&self, address: u64, len: u32) -> Option<(&Arena, u64)> {
        [&self.own, &self.guest].into_iter().find_map(|arena| {
            let first = self.view.address(arena.host(Arena::BASE, 1)?.addr().get() as u64, 1)?;
            let at = Arena::BASE + address.checked_sub(first)?;
            arena.host(at, len.into()).map(|_| (&**arena, at))
        })
    }

    /// Returns a filled chunk with a frame in it to the queue.
    pub fn receive(&mut self, filled: u64, frame: &[u8]) {
        let (at, len) = (self.kernel.frame_address(filled), frame.len() as u32);
        let (arena, at) = self.locate(at, len).expect("frames lie in a memory");
        arena.gather(at, std::iter::once(Segment::from(frame)));
        self.kernel.receive(filled, len, false);
    }

    /// Takes the frame that was sent first, with its bytes, if there is one; [`Kernel::complete`] returns it to the queue.
    pub fn take_sent(&mut self) -> Option<(Descriptor, Vec<u8>)> {
        let (sent, at) = self.kernel.take_sent()?;
        let (arena, at) = self.locate(at, sent.len).expect("frames lie in a memory");
        let frame = arena.segment(at, sent.len).expect("they lie in one piece");
        let mut bytes = vec![0; sent.len as usize];
        frame.copy_to(&mut bytes);
        Some((sent, bytes))
    }
}
