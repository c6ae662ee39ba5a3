//! The receive ring.

use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::{mem, ptr, slice};

use libc::{sockaddr_ll, tpacket2_hdr};
use rustix::io::Errno;

use super::layout::{Place, RxConfig, Slots, longest_mtu, receive_slots};
use super::left;
use super::long::LongRoom;
use super::ring_memory::RingMemory;
use super::socket::{EVERY_PROTOCOL, Socket, get};
use super::vlan::Vlan;
use crate::error::{Error, Result};
use crate::link::Link;
use packet::copy::prefetch;
use packet::offload::{Offload, Offloads, header};
use packet::{MAX_FRAME, MappedMemory};

/// Calls that read a long frame at most: each may return an error of the interface instead.
const READS: usize = 8;

/// Bytes of frames longer than a slot that wait in the kernel; it doubles this. A TCP sender has up to 6 MiB on its way.
const LONG_WAITING: usize = 4 << 20;

/// A receive ring on an interface: it receives every frame that arrives, for any address, and none that leaves.
///
/// Frames are lent out of the ring: [`next_frame`](Self::next_frame) lends one after the other, and
/// [`release`](Self::release) returns all that were lent since. Each has a slot; the kernel drops and counts frames that arrive while it
/// has no slot.
///
/// # Checksums
/// A sender on this host leaves checksums to its (virtual) hardware. Unless they may be left ([`RxConfig::offloads`]), the ring
/// completes them before it lends the frame, which costs a pass over its payload.
///
/// # Frames longer than a slot
/// The host may merge received segments (GRO, LRO), or a veth peer may send segments that it left for the hardware to
/// cut (TSO). The kernel keeps such a frame whole beside the ring, from where it is read with a system call in its turn.
/// It is lent unchanged, longer than the MTU. A port that
/// forwards frames either takes over to have them cut ([`RxFrame::offload`]), or wants these features off (`ethtool -K`): receive
/// offloads on this interface, send offloads on the veth peer.
///
/// # Frames that the kernel cannot describe
/// The kernel loses the slot of a frame that leaves work which a virtio header has no words for, such as segments of SCTP, and with it
/// every later frame (`tpacket_rcv` takes the slot, and does not give it back). [`RxMonitor::is_jammed`] tells, and only a new ring helps.
/// Kernels before 6.2 have no words for messages of UDP either, which are common: there, slots hold no frames, and the kernel makes no
/// descriptions for them ([`RxConfig::are_beside`]). All frames are read as long ones are.
#[derive(Debug)]
pub struct PacketRx {
    // First, because fields are dropped in this order and the mapping does not keep the socket open.
    ring: Arc<RingMemory>,
    socket: Arc<Kernel>,
    slots: Slots,
    long: LongRoom,
    /// The work that frames may leave.
    allowed: Offloads,
    /// The slot that is returned first.
    oldest: Cell<Place>,
    /// The slot of the next frame.
    next: Cell<Place>,
    /// Slots taken from the kernel and not yet returned, from `oldest` to `next`.
    taken: Cell<usize>,
    /// How many of these were taken since the last release or hold: the last ones.
    recent: Cell<usize>,
    /// By slot.
    uses: Box<[Cell<Use>]>,
}

/// How a slot that was taken from the kernel is used.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// End of its frame in the room for long ones; 0 if it lies in the slot.
    long_end: u32,
    /// A release does not return it ([`PacketRx::hold`]).
    is_held: bool,
}

/// The kernel's side.
#[derive(Debug)]
struct Kernel {
    fd: OwnedFd,
    /// Frames that had a slot, and that the kernel had no memory for, since the last count.
    lost: AtomicU64,
}

/// Statistics of a ring, for use while another thread takes frames out of it.
#[derive(Debug)]
pub struct RxMonitor {
    socket: Weak<Kernel>,
    ring: Weak<RingMemory>,
    slots: Slots,
    /// Counts in a row in which the kernel dropped all frames, though all slots were free.
    jammed: Cell<u32>,
}

/// A frame on loan from the receive ring.
#[derive(Clone, Copy, Debug)]
pub struct RxFrame<'a> {
    bytes: &'a [u8],
    status: u32,
    vlan: Vlan,
    left: Offload,
}

/// The kernel's counts for a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxStatistics {
    /// Frames that arrived, including dropped ones.
    pub packets: u64,
    /// Frames dropped because the ring was full, or the kernel had no memory for a long one.
    pub drops: u64,
}

impl PacketRx {
    /// Opens `queues` receive rings on an interface and makes it promiscuous.
    ///
    /// Several rings form a new fanout group: each flow goes to one of them by its hash. All queues receive frames from
    /// the return of this function on. The interface should be up; a single ring also opens on an interface that is
    /// down, and receives once that is up.
    pub fn open(link: &Link, queues: usize, config: &RxConfig) -> Result<Vec<Self>> {
        let problem = |problem| Error::Config { interface: link.name.clone(), problem };
        // PACKET_FANOUT_MAX of older kernels.
        const MAX_QUEUES: usize = 256;
        if !(1..=MAX_QUEUES).contains(&queues) {
            return Err(problem(format!("{queues} receive rings are not possible; choose 1 to {MAX_QUEUES}")));
        }
        link.require_ethernet()?;
        let slots = receive_slots(config, rustix::param::page_size(), link.mtu).map_err(problem)?;

        let mut group = None;
        let mut opened = Vec::with_capacity(queues);
        for _ in 0..queues {
            let socket = Socket::open(link)?;
            // All before the bind, so that no frame arrives that an option or the ring would have kept out.
            socket.set(libc::PACKET_IGNORE_OUTGOING, 1, "leave out the frames it sends")?;
            socket.set(libc::PACKET_VNET_HDR, 1, "ask for what is left to do in a frame")?;
            socket.set(libc::PACKET_COPY_THRESH, 1, "keep frames that are longer than a slot")?;
            socket.set_receive_buffer(LONG_WAITING)?;
            let version = libc::tpacket_versions::TPACKET_V2;
            let ring = socket.map_ring(version, libc::PACKET_RX_RING, slots.request(), slots.bytes())?;
            socket.set_promiscuous()?;
            if queues > 1 {
                // Between bind and joining the group, a socket would see every flow.
                socket.receive_nothing()?;
                socket.bind(EVERY_PROTOCOL)?;
                group = Some(socket.join_fanout(group)?);
            } else {
                socket.bind(EVERY_PROTOCOL)?;
            }
            opened.push((socket, ring));
        }
        if queues > 1 {
            // Only now does each flow go to the queue that it will stay with.
            opened.iter().try_for_each(|(socket, _)| socket.receive_again())?;
        }
        let opened = opened.into_iter().map(|(socket, ring)| Self::new(socket.into_fd(), ring, slots, config.offloads));
        opened.collect::<io::Result<_>>().map_err(Error::system(
            &link.name,
            "map memory for long frames",
            "free memory",
        ))
    }

    fn new(fd: OwnedFd, ring: RingMemory, slots: Slots, allowed: Offloads) -> io::Result<Self> {
        Ok(Self {
            ring: Arc::new(ring),
            socket: Arc::new(Kernel { fd, lost: AtomicU64::new(0) }),
            uses: (0..slots.count).map(|_| Cell::default()).collect(),
            long: LongRoom::new()?,
            slots,
            allowed,
            oldest: Cell::default(),
            next: Cell::default(),
            taken: Cell::new(0),
            recent: Cell::new(0),
        })
    }

    /// Lends the next frame, without a system call unless it is longer than a slot; `None` if there is none, or if all slots are on loan.
    #[inline]
    pub fn next_frame(&self) -> Option<RxFrame<'_>> {
        // When all are taken, the next one would be the oldest again, whose frame was already lent.
        while self.taken.get() < self.slots.count {
            let place = self.next.get();
            let status = self.status(place).load(Ordering::Acquire);
            if status & libc::TP_STATUS_USER == 0 {
                return None;
            }
            let next = place.next(&self.slots);
            prefetch(self.ring.at::<u8>(next.offset, 0));
            let header: *const tpacket2_hdr = self.ring.at(place.offset, self.slots.slot_bytes);
            // SAFETY: the header lies at the start of a slot, aligned. The kernel has handed the slot over, which was acquired
            // above, and does not write to it until it is returned. The address follows the header.
            let (header, kind) = unsafe {
                let address: *const sockaddr_ll = header.add(1).cast();
                (ptr::read(header), ptr::read(&raw const (*address).sll_pkttype))
            };
            let frame = if status & libc::TP_STATUS_COPY == 0 {
                self.in_slot(place, &header)
            } else {
                // Without room, it stays the next one.
                self.long_frame(place, &header)?
            };
            self.next.set(next);
            self.taken.set(self.taken.get() + 1);
            self.recent.set(self.recent.get() + 1);
            // Kernels older than the fanout flag for that let outgoing frames through.
            if kind != libc::PACKET_OUTGOING
                && let Some((bytes, left)) = frame
            {
                // Both are 16 bits wide.
                let vlan = Vlan { tpid: header.tp_vlan_tpid, tci: header.tp_vlan_tci };
                return Some(RxFrame { bytes, status, vlan, left });
            }
        }
        None
    }

    /// Lends at most `max` frames. The next call continues where this one stopped.
    #[inline]
    pub fn burst(&self, max: usize) -> impl Iterator<Item = RxFrame<'_>> {
        std::iter::from_fn(|| self.next_frame()).take(max)
    }

    /// Returns all lent frames to the ring.
    #[inline]
    pub fn release(&mut self) {
        // SAFETY: frames borrow `self`, so none is left now that it is borrowed exclusively.
        unsafe { self.release_shared() }
    }

    /// [`release`](Self::release) for callers that keep frames by address, where the compiler cannot check that their
    /// use has ended.
    ///
    /// # Safety
    /// No frame lent before is used after this call, by reference or by address, unless its slot is held.
    pub unsafe fn release_shared(&self) {
        let (mut oldest, mut taken) = (self.oldest.get(), self.taken.get());
        while taken > 0 {
            let Use { long_end, is_held } = self.uses[oldest.slot].get();
            if is_held {
                break;
            }
            if long_end > 0 {
                self.uses[oldest.slot].take();
                self.long.release(long_end as usize);
            }
            self.status(oldest).store(libc::TP_STATUS_KERNEL, Ordering::Release);
            oldest = oldest.next(&self.slots);
            taken -= 1;
        }
        self.oldest.set(oldest);
        self.taken.set(taken);
        self.recent.set(0);
    }

    /// Holds the slots of all frames lent since the last release or hold: a release does not return them, nor those after them.
    /// Appends their numbers to `slots`.
    pub fn hold(&self, slots: &mut Vec<u16>) {
        let end = self.next.get().slot + self.slots.count;
        for slot in end - self.recent.replace(0)..end {
            let slot = slot % self.slots.count;
            self.uses[slot].set(Use { is_held: true, ..self.uses[slot].get() });
            slots.push(slot as u16);
        }
    }

    /// Ends holds of slots: their frames may be used until the next release only.
    pub fn give_back(&self, slots: &[u16]) {
        for &slot in slots {
            if let Some(usage) = self.uses.get(usize::from(slot)) {
                usage.set(Use { is_held: false, ..usage.get() });
            }
        }
    }

    /// Reports whether the next frame has arrived.
    pub fn is_ready(&self) -> bool {
        let status = || self.status(self.next.get()).load(Ordering::Acquire);
        self.taken.get() < self.slots.count && status() & libc::TP_STATUS_USER != 0
    }

    /// Reports whether there is anything to release or hold since the last time: lent frames, or lost ones.
    #[inline]
    pub fn has_recent(&self) -> bool {
        self.recent.get() > 0
    }

    /// Returns the longest MTU whose frames fit into slots. None does on some kernels, so that the MTU does not matter.
    pub fn longest_mtu(&self) -> usize {
        match longest_mtu(&self.slots) {
            0 => usize::MAX,
            mtu => mtu,
        }
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> usize {
        self.slots.count
    }

    /// Returns the memories that its frames lie in.
    pub fn memories(&self) -> [Arc<dyn MappedMemory>; 2] {
        [self.ring.clone(), self.long.memory().clone()]
    }

    /// Returns a monitor. One is enough: each count is reported to one only.
    pub fn monitor(&self) -> RxMonitor {
        let (socket, ring) = (Arc::downgrade(&self.socket), Arc::downgrade(&self.ring));
        RxMonitor { socket, ring, slots: self.slots, jammed: Cell::new(0) }
    }

    /// Takes the pending error of the socket, such as `ENETDOWN` when the interface went down. Until then, or until a long frame is
    /// read, poll and epoll report it. The ring resumes by itself when the interface is up again.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(rustix::net::sockopt::socket_error(&self.socket.fd)?.err().map(Into::into))
    }

    /// Returns the frame in a slot that was taken, and the work left on it; `None` if it is not whole.
    #[inline(always)]
    fn in_slot(&self, place: Place, header: &tpacket2_hdr) -> Option<(&[u8], Offload)> {
        let len = header.tp_snaplen as usize;
        if header.tp_snaplen < header.tp_len {
            self.lose();
            return None;
        }
        let start = place.offset + usize::from(header.tp_mac);
        let at: *mut u8 = self.ring.at(start, len);
        prefetch(at);
        let asked: *const [u8; header::LEN] = self.ring.at(start - header::LEN, header::LEN);
        // SAFETY: with PACKET_VNET_HDR that header lies right before the frame, inside the slot. The kernel writes
        // to neither until the slot is returned, and no frame is lent twice: this is the only reference. To return the slot
        // takes an exclusive borrow of `self`, or the promise of the caller of `release_shared`.
        Some(unsafe { self.lent(header.tp_status, asked, at, len) })
    }

    /// Reads the frame of a slot that the kernel keeps beside the ring. `None` if there is no room; no frame if it is lost.
    #[cold]
    fn long_frame(&self, place: Place, header: &tpacket2_hdr) -> Option<Option<(&[u8], Offload)>> {
        let len = header.tp_len as usize;
        let (start, end) = self.long.take(len.min(MAX_FRAME as usize))?;
        self.uses[place.slot].set(Use { long_end: end as u32, is_held: false });
        let at: *mut u8 = self.long.memory().at(start, end - start);
        let mut asked = [0; header::LEN];
        // SAFETY: this part of the room was just taken, so that no one else has a reference into it.
        let room = unsafe { slice::from_raw_parts_mut(at, end - start) };
        let mut buffers = [IoSliceMut::new(&mut asked), IoSliceMut::new(room)];
        let mut read = || rustix::io::readv(&self.socket.fd, &mut buffers);
        // The kernel tells an error of the interface before the frame, which stays. Other errors take the frame away.
        let read = (0..READS).map(|_| read()).find(|read| !matches!(read, Err(Errno::NETDOWN)));
        if read != Some(Ok(header::LEN + len)) {
            self.lose();
            return Some(None);
        }
        // SAFETY: as above; the room is given back when the slot is.
        Some(Some(unsafe { self.lent(header.tp_status, &raw const asked, at, len) }))
    }

    /// Returns a frame to lend, and the work that its sender left: completes it if that may not be left.
    ///
    /// # Safety
    /// The memory of the frame stays as it is while it is lent, and no other reference to it exists. The header can be read.
    #[inline(always)]
    unsafe fn lent(
        &self,
        status: u32,
        asked: *const [u8; header::LEN],
        frame: *mut u8,
        len: usize,
    ) -> (&[u8], Offload) {
        let mut left = Offload::NONE;
        if status & libc::TP_STATUS_CSUMNOTREADY != 0 {
            // SAFETY: the caller vouches for both.
            let (asked, frame) = unsafe { (asked.read(), slice::from_raw_parts_mut(frame, len)) };
            left = left::read(asked, self.allowed, frame);
        }
        // SAFETY: the caller vouches for it.
        (unsafe { slice::from_raw_parts(frame, len) }, left)
    }

    /// Counts a frame that the kernel had no memory for, or whose end it lost.
    #[cold]
    fn lose(&self) {
        self.socket.lost.fetch_add(1, Ordering::Relaxed);
    }

    #[inline(always)]
    fn status(&self, place: Place) -> &AtomicU32 {
        status(&self.ring, place.offset)
    }
}

/// Returns the word by which the slot at `offset` changes hands.
#[inline(always)]
fn status(ring: &RingMemory, offset: usize) -> &AtomicU32 {
    let status = ring.at(offset + mem::offset_of!(tpacket2_hdr, tp_status), size_of::<u32>());
    // SAFETY: the word lies inside the mapping, which lives as long as the ring's memory, and is aligned. Both sides access it
    // only as a whole; no other reference to it exists.
    unsafe { AtomicU32::from_ptr(status) }
}

impl RxMonitor {
    /// Returns the kernel's counts since the last call (one system call); `None` once the ring is closed.
    pub fn take(&self) -> Option<io::Result<RxStatistics>> {
        let socket = self.socket.upgrade()?;
        // The two members of tpacket_stats. Reading resets the kernel's counters.
        let [packets, drops] = match get::<[u32; 2]>(socket.fd.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS) {
            Ok(counted) => counted.map(u64::from),
            Err(error) => return Some(Err(error)),
        };
        if packets > 0 {
            let lost_all = packets == drops && self.are_slots_free();
            self.jammed.set(if lost_all { self.jammed.get() + 1 } else { 0 });
        }
        Some(Ok(RxStatistics { packets, drops: drops + socket.lost.swap(0, Ordering::Relaxed) }))
    }

    /// Reports whether the kernel dropped all frames before the last two calls of [`take`](Self::take) that counted any, though it had
    /// slots: it has lost one (see [`PacketRx`]).
    pub fn is_jammed(&self) -> bool {
        self.jammed.get() >= 2
    }

    fn are_slots_free(&self) -> bool {
        let free = |ring: &RingMemory, slot| {
            status(ring, self.slots.offset(slot)).load(Ordering::Relaxed) == libc::TP_STATUS_KERNEL
        };
        self.ring.upgrade().is_some_and(|ring| (0..self.slots.count).all(|slot| free(&ring, slot)))
    }
}

/// For poll and epoll: readable while there is a frame to take, and also while the newest one is on loan, so release
/// everything before waiting (or wait for edges).
impl AsFd for PacketRx {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.fd.as_fd()
    }
}

impl<'a> RxFrame<'a> {
    /// Returns the frame, without the VLAN tag that [`vlan`](Self::vlan) returns.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the work that its sender left to others, of that allowed, as it is without the VLAN tag that was removed.
    pub const fn offload(&self) -> Offload {
        self.left
    }

    /// Returns the outermost VLAN tag, which the kernel (or the NIC) removed from the frame. It belongs after the two
    /// MAC addresses: see [`Vlan::to_bytes`].
    pub const fn vlan(&self) -> Option<Vlan> {
        match self.status & (libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID) {
            0 | libc::TP_STATUS_VLAN_TPID_VALID => None,
            libc::TP_STATUS_VLAN_VALID => Some(Vlan { tpid: libc::ETH_P_8021Q as u16, tci: self.vlan.tci }),
            _ => Some(self.vlan),
        }
    }

    /// Reports whether the kernel or the NIC verified the transport checksum.
    pub const fn checksum_valid(&self) -> bool {
        self.status & libc::TP_STATUS_CSUM_VALID != 0
    }
}
