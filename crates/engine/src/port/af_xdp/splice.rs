//! The rings of a socket as those of a driver, whose entries are spliced with those of a guest's queue
//! ([`virtqueue::device::Spliced`]).

use super::UmemView;
use super::in_flight::InFlight;
use super::rings::{RxRings, TxRings};
use crate::port::pool::Pool;
use virtqueue::NET_HEADER;
use virtqueue::driver::{Buffer, Reach, Run, Take, TakenBack};
use xsk::Descriptor;

/// The kernel as it fills loans: they go by the fill ring, and come back by the receive ring.
pub(super) struct Filler<'s> {
    pub(super) rings: &'s mut RxRings,
    /// Filled addresses that the kernel has.
    pub(super) addresses: &'s mut InFlight,
    /// Maximum number of these.
    pub(super) most: u16,
    pub(super) reach: FillReach<'s>,
    /// Whether frames may come whose checksums are unfinished.
    pub(super) leaves_checksums: bool,
}

/// Where the kernel fills loans.
#[derive(Clone, Copy)]
pub(super) struct FillReach<'s> {
    pub(super) view: &'s UmemView,
    /// Offset in a loan at which a frame will begin.
    pub(super) start: u32,
    pub(super) zero_copy: bool,
}

impl Reach for FillReach<'_> {
    /// Returns the address to fill.
    #[inline(always)]
    fn address(&self, at: u64, len: u32) -> Option<u64> {
        let umem = self.view.umem();
        let frame = self.view.address(at, len)? + u64::from(self.start);
        umem.fill_address(frame).filter(|&address| umem.accepts(address, self.zero_copy))
    }
}

impl<'s> Run for Filler<'s> {
    const WRITES_HEADERS: bool = false;

    type Reach = FillReach<'s>;

    #[inline(always)]
    fn reach(&self) -> FillReach<'s> {
        self.reach
    }

    fn leaves_checksums(&self) -> bool {
        self.leaves_checksums
    }

    #[inline(always)]
    fn free(&self) -> u16 {
        self.most.saturating_sub(self.addresses.len() as u16)
    }

    /// Entries of the fill ring are available at once.
    fn publish(&mut self) {}

    #[inline(always)]
    fn take_back(&mut self, most: u16, mut take: impl Take) -> TakenBack {
        let umem = self.reach.view.umem();
        let (mut addresses, mut stopped) = (self.addresses.walk(), false);
        let chains = self.rings.rx.take_while(most.into(), |part| {
            let id = addresses.find(umem.filled_address(part.address)).filter(|_| !part.more());
            stopped = !id.is_some_and(|id| take.take(id, NET_HEADER.saturating_add(part.len)));
            if !stopped {
                addresses.pop();
            }
            !stopped
        });
        addresses.end();
        TakenBack { chains: chains as u16, stopped }
    }

    #[inline(always)]
    fn add_each(&mut self, most: u16, mut next: impl FnMut(u16) -> Option<Buffer>) -> u16 {
        let mut addresses = self.addresses.walk();
        let filled = std::iter::from_fn(|| {
            let Buffer { addr, .. } = next(addresses.free_id()?)?;
            addresses.push(addr);
            Some(addr)
        });
        let added = self.rings.fill.push_from(filled.take(most.into()));
        addresses.end();
        added as u16
    }
}

/// The kernel as it sends a guest's frames: they go by the transmit ring, and come back by the completion ring.
pub(super) struct Sender<'s> {
    pub(super) rings: &'s mut TxRings,
    /// Addresses of the guest's frames that the kernel has.
    pub(super) addresses: &'s mut InFlight,
    pub(super) reach: SendReach<'s>,
    /// Own chunks, in which other frames were sent, and those that the kernel does not have.
    pub(super) pool: &'s Pool,
    pub(super) free: &'s mut Vec<u16>,
}

/// Where the kernel finds a guest's frames.
#[derive(Clone, Copy)]
pub(super) struct SendReach<'s> {
    pub(super) view: &'s UmemView,
    /// Maximum length of a frame on the interface.
    pub(super) limit: u32,
    pub(super) zero_copy: bool,
}

impl SendReach<'_> {
    /// Returns the address of a frame of `len` bytes at the address `at` of this process, if the kernel sends it from there.
    #[inline(always)]
    pub(super) fn frame(&self, at: u64, len: u32) -> Option<u64> {
        let address = self.view.address(at, len).filter(|_| len <= self.limit)?;
        self.view.umem().sends(address, len, self.zero_copy).then_some(address)
    }
}

impl Reach for SendReach<'_> {
    /// Returns the address of the frame in the buffer.
    #[inline(always)]
    fn address(&self, at: u64, len: u32) -> Option<u64> {
        self.frame(at + u64::from(NET_HEADER), len - NET_HEADER)
    }
}

impl<'s> Run for Sender<'s> {
    // Nothing is filled.
    const WRITES_HEADERS: bool = true;

    type Reach = SendReach<'s>;

    #[inline(always)]
    fn reach(&self) -> SendReach<'s> {
        self.reach
    }

    #[inline(always)]
    fn free(&self) -> u16 {
        self.pool.count() - self.addresses.len() as u16
    }

    /// Entries of the transmit ring are available at once.
    fn publish(&mut self) {}

    #[inline(always)]
    fn take_back(&mut self, most: u16, mut take: impl Take) -> TakenBack {
        let Sender { rings, addresses, pool, free, .. } = self;
        let (mut addresses, mut own, mut stopped) = (addresses.walk(), 0, false);
        let sent = rings.completion.take_while(most.into(), |address| {
            let first = addresses.first_is(address);
            if first.is_none()
                && let Some(index) = pool.index(address)
            {
                free.push(index);
                own += 1;
                return true;
            }
            stopped = !first.or_else(|| addresses.find(address)).is_some_and(|id| take.take(id, 0));
            if !stopped {
                addresses.pop();
            }
            !stopped
        });
        addresses.end();
        TakenBack { chains: (sent - own) as u16, stopped }
    }

    #[inline(always)]
    fn add_each(&mut self, most: u16, mut next: impl FnMut(u16) -> Option<Buffer>) -> u16 {
        let mut addresses = self.addresses.walk();
        let frames = std::iter::from_fn(|| {
            let Buffer { addr, len, .. } = next(addresses.free_id()?)?;
            addresses.push(addr);
            Some(Descriptor::new(addr, len - NET_HEADER))
        });
        let added = self.rings.tx.push_from(frames.take(most.into()));
        addresses.end();
        added as u16
    }
}
