//! The receive half of an AF_XDP queue.

mod splice;
mod zero_copy;

use super::in_flight::InFlight;
use super::rings::RxRings;
use super::{Stuck, UmemView};
use crate::drops::Drops;
use crate::port::own_frames::{OwnFrames, Part};
use crate::port::pool::Pool;
use crate::port::unfinished::Unfinished;
use crate::port::zero_copy::{Lending, RESERVE, RESERVE_ASLEEP, ZeroCopyRx};
use crate::port::{HoldBursts, LifeCycle, RxQueue, Wait};
use packet::{Burst, MappedMemory};
use rustix::net::{SendFlags, send};
use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use virtqueue::device::{Loan, Loans};
use xsk::{Descriptor, Fill};

/// Interval at which a sleeping worker retries frames that could not be sent.
const LATER: Duration = Duration::from_micros(100);

/// Receive half: frames from the interface.
pub struct XdpReceive {
    /// `None` once stopped.
    socket: Option<Socket>,
    own: OwnFrames,
    /// Own chunks that are free.
    spare: RefCell<Vec<u16>>,
    /// Own chunks that the kernel has.
    filled: Cell<usize>,
    /// Loans that the kernel has.
    lent: RefCell<Lent>,
    lending: Option<Lending>,
    /// Addresses to be pushed to the kernel; they count as filled or lent. The ring has room for all of them, but the
    /// kernel delivers frames before it reports that it has taken the addresses of their buffers.
    addresses: RefCell<Vec<u64>>,
    stuck: Arc<Stuck>,
}

/// Loans that the kernel has.
struct Lent {
    /// Filled addresses.
    addresses: InFlight,
    /// By the ids of the addresses.
    loans: Loans,
}

impl Lent {
    /// Takes the loan that the kernel returned, by its filled address.
    #[inline(always)]
    fn take(&mut self, filled: u64) -> Option<(u16, Loan)> {
        let id = self.addresses.take(filled)?;
        Some((id, self.loans.take(id)?))
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.addresses.len()
    }
}

/// The socket, and the memory that the kernel fills.
struct Socket {
    rings: RefCell<RxRings>,
    /// A duplicate of the socket's descriptor, to wait on without the rings.
    wake: OwnedFd,
    view: UmemView,
    zero_copy: bool,
}

impl XdpReceive {
    /// Returns a half that lends its chunks and receives frames. With `lending`, for at most as many loans as there are
    /// chunks, it prefers a guest's buffers if they are available, from the first round on.
    pub(super) fn new(
        rings: RxRings,
        view: UmemView,
        pool: Pool,
        lending: Option<Lending>,
        stuck: Arc<Stuck>,
        drops: Arc<Drops>,
        unfinished: Option<Unfinished>,
    ) -> std::io::Result<XdpReceive> {
        let (count, size) = (pool.count(), usize::from(pool.count()));
        let wake = rings.rx.as_fd().try_clone_to_owned()?;
        let zero_copy = rings.rx.bound().zero_copy;
        let port = XdpReceive {
            socket: Some(Socket { rings: RefCell::new(rings), wake, view, zero_copy }),
            spare: RefCell::new((0..pool.count()).rev().collect()),
            filled: Cell::new(0),
            lent: RefCell::new(Lent { addresses: InFlight::new(count), loans: Loans::new(count) }),
            lending,
            addresses: RefCell::new(Vec::with_capacity(size)),
            own: OwnFrames::new(pool, drops, unfinished),
            stuck,
        };
        match &port.lending {
            Some(lending) if lending.mapped().is_reachable() => drop(port.fill_reserve(lending.mapped().reserve())),
            _ => port.recycle(),
        }
        Ok(port)
    }

    /// Adds the frame in the own chunk `index` to `burst`, once it is complete.
    #[inline(always)]
    fn push_own<'q>(&'q self, index: u16, at: u64, part: Descriptor, burst: &mut Burst<'_, 'q>) {
        self.filled.set(self.filled.get() - 1);
        self.own.push(Part { chunk: index, at, len: part.len, more: part.more() }, burst);
    }

    /// Lends own chunks from `more` to the kernel, and pushes addresses that wait.
    fn fill_own(&self, socket: &Socket, mut more: impl FnMut() -> Option<u16>) {
        let mut addresses = self.addresses.borrow_mut();
        // With loans, at most as many as the pool has: the rings have room for these.
        let room = usize::from(self.own.pool.count()).saturating_sub(self.filled.get() + self.lent.borrow().len());
        let mut added = 0;
        while added < room
            && let Some(index) = more()
        {
            // The address of the whole chunk; the kernel adds its headroom.
            addresses.push(self.own.pool.address(index));
            added += 1;
        }
        self.filled.set(self.filled.get() + added);
        push(&mut addresses, |some| socket.rings.borrow_mut().fill.push(some));
    }

    /// Lends own chunks until the kernel has `reserve` buffers. Reports whether it lent any.
    fn fill_reserve(&self, reserve: u16) -> bool {
        let Some(socket) = &self.socket else { return false };
        let mut out = self.filled.get() + self.lent.borrow().len();
        if out >= reserve.into() {
            return false;
        }
        let before = self.filled.get();
        let mut spare = self.spare.borrow_mut();
        self.fill_own(socket, || {
            let wanted = out < reserve.into();
            out += 1;
            if wanted { spare.pop() } else { None }
        });
        self.filled.get() > before
    }

    /// After a poll without frames: pushes addresses that wait for room, and wakes a driver that stopped for want of
    /// chunks just before it got some. The driver reports this too late for the push itself to notice.
    #[inline(always)]
    fn refill_late(&self, fill: &mut Fill) {
        push(&mut self.addresses.borrow_mut(), |some| fill.push(some));
        if fill.needs_wakeup() && fill.room() < self.own.pool.count().into() {
            // As in `notify`.
            let _ = fill.wake();
        }
    }

    /// Wakes the kernel for frames that wait to be sent.
    #[inline(always)]
    fn unstick(&self, socket: &Socket) {
        if self.stuck.is_set() {
            // The next sender of a frame handles other errors.
            self.stuck.set(send(&socket.wake, &[], SendFlags::DONTWAIT).is_err_and(|e| e == rustix::io::Errno::AGAIN));
        }
    }
}

/// Pushes addresses to a ring, which returns how many it had room for. The others wait, in order.
#[inline(always)]
fn push(addresses: &mut Vec<u64>, ring: impl FnOnce(&[u64]) -> usize) {
    if !addresses.is_empty() {
        let pushed = ring(addresses);
        addresses.drain(..pushed);
    }
}

impl RxQueue for XdpReceive {
    fn receive<'q>(&'q self, burst: &mut Burst<'_, 'q>) -> bool {
        let Some(socket) = &self.socket else { return false };
        self.unstick(socket);
        if self.lending.is_some() {
            // There is no guest, or this worker cannot borrow from it.
            self.fill_reserve(RESERVE);
        }
        let rings = &mut *socket.rings.borrow_mut();
        let mut any = false;
        for part in rings.rx.burst(burst.room() as u32) {
            any = true;
            let at = socket.view.umem().frame_address(part.address);
            match (self.own.pool.index(at), &self.lending) {
                (Some(index), _) => self.push_own(index, at, part, burst),
                (None, Some(lending)) => {
                    let loan = self.lent.borrow_mut().take(socket.view.umem().filled_address(part.address));
                    loan.into_iter().for_each(|(_, loan)| lending.strand(loan));
                }
                (None, None) => {}
            }
        }
        if !any {
            self.refill_late(&mut rings.fill);
        }
        any
    }

    fn recycle(&self) {
        let Some(socket) = &self.socket else { return };
        let (mut taken, mut spare) = (self.own.taken.borrow_mut(), self.spare.borrow_mut());
        self.fill_own(socket, || taken.pop().or_else(|| spare.pop()));
        spare.append(&mut taken);
    }

    fn notify(&self) {
        if let Some(socket) = &self.socket {
            let fill = &socket.rings.borrow().fill;
            if fill.needs_wakeup() {
                // The port's watcher notices an interface that is down.
                let _ = fill.wake();
            }
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(|socket| socket.wake.as_fd())
    }

    fn arm(&self) -> Wait {
        if self.zero_copy().is_some() {
            self.fill_reserve(RESERVE_ASLEEP);
        }
        let Some(socket) = &self.socket else { return Wait::Event };
        push(&mut self.addresses.borrow_mut(), |some| socket.rings.borrow_mut().fill.push(some));
        self.notify();
        if socket.rings.borrow_mut().rx.waiting() > 0 {
            return Wait::Ready;
        }
        let waits = self.stuck.is_set() || !self.addresses.borrow().is_empty();
        if waits { Wait::Time(LATER) } else { Wait::Event }
    }

    fn life_cycle(&mut self) -> Option<&mut dyn LifeCycle> {
        Some(self)
    }

    #[inline]
    fn zero_copy(&self) -> Option<&dyn ZeroCopyRx> {
        self.lending.as_ref().filter(|lending| lending.mapped().is_reachable()).map(|_| self as &dyn ZeroCopyRx)
    }

    fn holds(&self) -> Option<&dyn HoldBursts> {
        Some(self)
    }
}

impl HoldBursts for XdpReceive {
    fn memories(&self) -> Vec<Arc<dyn MappedMemory>> {
        let guest = self.lending.iter().filter_map(|lending| lending.mapped().memory());
        guest.map(|memory| memory as _).chain([self.own.pool.arena.clone() as _]).collect()
    }

    fn buffers(&self) -> usize {
        self.own.pool.count().into()
    }

    fn hold(&self, held: &mut Vec<u16>) {
        held.append(&mut self.own.taken.borrow_mut());
    }

    fn give_back(&self, held: &[u16]) {
        debug_assert!(held.iter().all(|&index| index < self.own.pool.count()));
        self.spare.borrow_mut().extend_from_slice(held);
    }
}

impl LifeCycle for XdpReceive {
    fn stop(&mut self) -> u64 {
        let waiting = |socket: Socket| u64::from(socket.rings.borrow_mut().rx.waiting());
        self.socket.take().map_or(0, waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::push;

    #[test]
    fn addresses_without_room_wait_for_it() {
        let (mut waiting, mut ring) = (vec![1, 2, 3, 4, 5], Vec::new());
        for room in [0, 2, 1, 9] {
            push(&mut waiting, |some| {
                let taken = room.min(some.len());
                ring.extend_from_slice(&some[..taken]);
                taken
            });
        }
        assert_eq!((ring, waiting), (vec![1, 2, 3, 4, 5], vec![]));
    }
}
