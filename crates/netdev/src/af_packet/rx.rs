//! The receive ring.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::{ptr, slice};

use libc::{sockaddr_ll, tpacket_block_desc, tpacket_hdr_v1, tpacket3_hdr};

use super::layout::{RxConfig, RxLayout};
use super::left;
use super::ring_memory::RingMemory;
use super::socket::{EVERY_PROTOCOL, Socket, get};
use super::vlan::Vlan;
use crate::error::{Error, Result};
use crate::link::Link;
use packet::header_len::{ETHERNET, VLAN_TAG};
use packet::offload::{Offload, Offloads, header};
use packet::{MAX_FRAME, MappedMemory};

/// A receive ring on an interface: it receives every frame that arrives, for any address, and none that leaves.
///
/// Frames are lent out of the ring: [`next_frame`](Self::next_frame) lends one after the other, and
/// [`release`](Self::release) returns all that were lent since. The kernel gets a block of the ring back once all its
/// frames have been lent and released; frames that arrive while it has no block are dropped and counted.
///
/// # Latency
/// The kernel hands over a block when it is full, or 1 ms after it was opened (if the kernel's timer counts ticks,
/// after one to two of them: up to 8 ms at 250 Hz). At low rates a frame waits that long, with or without busy polling;
/// at high rates, until the block is full.
///
/// # Checksums
/// A sender on this host leaves checksums to its (virtual) hardware. Unless they may be left ([`RxConfig::offloads`]), the ring
/// completes them before it lends the frame, which costs a pass over its payload.
///
/// # Frames longer than the MTU
/// The host may merge received segments (GRO, LRO), or a veth peer may send segments that it left for the hardware to
/// cut (TSO). Such frames arrive unchanged, longer than the MTU; one longer than a block is truncated. A port that
/// forwards frames either takes over to have them cut ([`RxFrame::offload`]), or wants these features off (`ethtool -K`): receive
/// offloads on this interface, send offloads on the veth peer.
#[derive(Debug)]
pub struct PacketRx {
    // First, because fields are dropped in this order and the mapping does not keep the socket open.
    ring: Arc<RingMemory>,
    socket: Arc<OwnedFd>,
    layout: RxLayout,
    /// The work that frames may leave.
    allowed: Offloads,
    /// The block that is returned first.
    oldest: Cell<usize>,
    /// Blocks taken from the kernel and not yet returned, from `oldest` on. While `remaining` is not 0, frames come
    /// from the last of them.
    held: Cell<usize>,
    /// How many of these have frames that were lent since the last release or hold: the last ones.
    recent: Cell<usize>,
    /// By block: how often it was held ([`PacketRx::hold`]).
    holds: Box<[Cell<u16>]>,
    /// Offset in the ring of the next frame, while `remaining` is not 0.
    next: Cell<usize>,
    /// Frames of the last held block not lent yet.
    remaining: Cell<u32>,
}

/// Statistics of a ring, for use while another thread takes frames out of it.
#[derive(Debug)]
pub struct RxMonitor(Weak<OwnedFd>);

/// A frame on loan from the receive ring.
#[derive(Clone, Copy, Debug)]
pub struct RxFrame<'a> {
    bytes: &'a [u8],
    wire_len: u32,
    status: u32,
    vlan: Vlan,
    left: Offload,
}

/// The kernel's counts for a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxStatistics {
    /// Frames that arrived, including dropped ones.
    pub packets: u64,
    /// Frames dropped because the ring was full.
    pub drops: u64,
    /// Number of times that the ring became full.
    pub freezes: u64,
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
        let may_be_uncut = !config.offloads.segmentation().is_none();
        let longest = if may_be_uncut { MAX_FRAME as usize } else { link.mtu + ETHERNET + VLAN_TAG };
        let layout = RxLayout::new(config, rustix::param::page_size(), longest).map_err(problem)?;

        let mut group = None;
        let mut opened = Vec::with_capacity(queues);
        for _ in 0..queues {
            let socket = Socket::open(link)?;
            // All before the bind, so that no frame arrives that an option or the ring would have kept out.
            socket.set(libc::PACKET_IGNORE_OUTGOING, 1, "leave out the frames it sends")?;
            socket.set(libc::PACKET_VNET_HDR, 1, "ask for what is left to do in a frame")?;
            let ring = socket.map_ring(
                libc::tpacket_versions::TPACKET_V3,
                libc::PACKET_RX_RING,
                layout.request(),
                layout.bytes(),
            )?;
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
        let allowed = config.offloads;
        Ok(opened.into_iter().map(|(socket, ring)| Self::new(socket.into_fd(), ring, layout, allowed)).collect())
    }

    fn new(socket: OwnedFd, ring: RingMemory, layout: RxLayout, allowed: Offloads) -> Self {
        Self {
            ring: Arc::new(ring),
            socket: Arc::new(socket),
            holds: (0..layout.blocks).map(|_| Cell::new(0)).collect(),
            layout,
            allowed,
            oldest: Cell::new(0),
            held: Cell::new(0),
            recent: Cell::new(0),
            next: Cell::new(0),
            remaining: Cell::new(0),
        }
    }

    /// Lends the next frame, without a system call; `None` if there is none, or if all blocks are on loan.
    #[inline]
    pub fn next_frame(&self) -> Option<RxFrame<'_>> {
        loop {
            if self.remaining.get() == 0 && !self.take_block() {
                return None;
            }
            if let Some(frame) = self.take_frame() {
                return Some(frame);
            }
        }
    }

    /// Lends at most `max` frames. The next call continues where this one stopped, even within a block.
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
    /// No frame lent before is used after this call, by reference or by address, unless its block is held.
    pub unsafe fn release_shared(&self) {
        // Keep the last block while it has frames left to lend.
        let keep = usize::from(self.remaining.get() > 0);
        let mut held = self.held.get();
        let mut oldest = self.oldest.get();
        while held > keep && self.holds[oldest].get() == 0 {
            self.block_status(oldest).store(libc::TP_STATUS_KERNEL, Ordering::Release);
            oldest += 1;
            if oldest == self.layout.blocks {
                oldest = 0;
            }
            held -= 1;
        }
        self.oldest.set(oldest);
        self.held.set(held);
        self.recent.set(keep);
    }

    /// Holds the blocks of all frames lent since the last release or hold: a release does not return them, nor those after them.
    /// Appends their numbers to `blocks`.
    pub fn hold(&self, blocks: &mut Vec<u16>) {
        for newer in (0..self.recent.get()).rev() {
            let block = self.block(self.held.get() - 1 - newer);
            self.holds[block].set(self.holds[block].get() + 1);
            blocks.push(block as u16);
        }
        self.recent.set(usize::from(self.remaining.get() > 0));
    }

    /// Ends holds, each of one block: frames lent before may be used until the next release only.
    pub fn give_back(&self, blocks: &[u16]) {
        for &block in blocks {
            if let Some(holds) = self.holds.get(usize::from(block)) {
                holds.set(holds.get().saturating_sub(1));
            }
        }
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> usize {
        self.layout.blocks
    }

    /// Returns the memory that its frames lie in.
    pub fn memory(&self) -> Arc<dyn MappedMemory> {
        self.ring.clone()
    }

    /// Returns a monitor. One is enough: each count is reported to one only.
    pub fn monitor(&self) -> RxMonitor {
        RxMonitor(Arc::downgrade(&self.socket))
    }

    /// Takes the pending error of the socket, such as `ENETDOWN` when the interface went down. Until then poll and
    /// epoll report it. The ring resumes by itself when the interface is up again.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(rustix::net::sockopt::socket_error(&self.socket)?.err().map(Into::into))
    }

    /// Takes the next block that has frames from the kernel, if there is one.
    fn take_block(&self) -> bool {
        // When all are held, the next one would be the oldest again, whose frames were already lent.
        while self.held.get() < self.layout.blocks {
            let block = self.block(self.held.get());
            if self.block_status(block).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return false;
            }
            self.held.set(self.held.get() + 1);
            self.recent.set(self.recent.get() + 1);
            let header: *const tpacket_hdr_v1 = self.block_header(block);
            // SAFETY: the header lies inside the mapping and is aligned (blocks are pages). The kernel has handed the
            // block over, which was acquired above, and does not write to it until it is returned.
            let (frames, first) = unsafe {
                (ptr::read(&raw const (*header).num_pkts), ptr::read(&raw const (*header).offset_to_first_pkt))
            };
            self.next.set(self.layout.block_offset(block) + first as usize);
            self.remaining.set(frames);
            if frames > 0 {
                return true;
            }
        }
        false
    }

    /// Takes the next frame of the last held block. Skips an outgoing frame, which kernels older than the fanout flag
    /// for that let through.
    fn take_frame(&self) -> Option<RxFrame<'_>> {
        let offset = self.next.get();
        let header: *const tpacket3_hdr = self.ring.at(offset, size_of::<tpacket3_hdr>() + size_of::<sockaddr_ll>());
        // SAFETY: `remaining` says that a frame starts here, in a block that the kernel has handed over and does not
        // write to; its header lies inside the mapping and is aligned to TPACKET_ALIGNMENT. The address follows it.
        let (header, kind) = unsafe {
            let address: *const sockaddr_ll = header.add(1).cast();
            (ptr::read(header), ptr::read(&raw const (*address).sll_pkttype))
        };
        self.next.set(offset + header.tp_next_offset as usize);
        self.remaining.set(self.remaining.get() - 1);
        if kind == libc::PACKET_OUTGOING {
            return None;
        }
        let length = header.tp_snaplen as usize;
        let start = offset + usize::from(header.tp_mac);
        let at: *mut u8 = self.ring.at(start, length);
        let mut left = Offload::NONE;
        if header.tp_status & libc::TP_STATUS_CSUMNOTREADY != 0 {
            let asked: *const [u8; header::LEN] = self.ring.at(start - header::LEN, header::LEN);
            // SAFETY: with PACKET_VNET_HDR that header lies right before the frame, inside the block. The kernel writes
            // to neither until the block is returned, and no frame is lent twice: this is the only reference.
            let (asked, frame) = unsafe { (asked.read(), slice::from_raw_parts_mut(at, length)) };
            left = left::read(asked, self.allowed, frame);
        }
        Some(RxFrame {
            // SAFETY: the kernel has put this many bytes there, inside the block, and writes no more until the block is
            // returned. That takes an exclusive borrow of `self`, which the slice's lifetime excludes, or the promise
            // of the caller of `release_shared`.
            bytes: unsafe { slice::from_raw_parts(at, length) },
            wire_len: header.tp_len,
            status: header.tp_status,
            // Both are 16 bits wide; the TCI's field in the header is wider.
            vlan: Vlan { tpid: header.hv1.tp_vlan_tpid, tci: header.hv1.tp_vlan_tci as u16 },
            left,
        })
    }

    /// Returns the number of the block at this place behind the oldest.
    fn block(&self, place: usize) -> usize {
        let block = self.oldest.get() + place;
        if block >= self.layout.blocks { block - self.layout.blocks } else { block }
    }

    fn block_header(&self, block: usize) -> *mut tpacket_hdr_v1 {
        let block: *mut tpacket_block_desc = self.ring.at(self.layout.block_offset(block), self.layout.block_bytes());
        block.wrapping_byte_add(std::mem::offset_of!(tpacket_block_desc, hdr)).cast()
    }

    fn block_status(&self, block: usize) -> &AtomicU32 {
        let status = self.block_header(block).wrapping_byte_add(std::mem::offset_of!(tpacket_hdr_v1, block_status));
        // SAFETY: the word lies inside the mapping, which lives as long as `self`, and is aligned. Both sides access it
        // only as a whole; no other reference to it exists.
        unsafe { AtomicU32::from_ptr(status.cast()) }
    }
}

impl RxMonitor {
    /// Returns the kernel's counts since the last call (one system call); `None` once the ring is closed.
    pub fn take(&self) -> Option<io::Result<RxStatistics>> {
        let socket = self.0.upgrade()?;
        // The three members of tpacket_stats_v3. Reading resets the kernel's counters.
        let counted = get::<[u32; 3]>(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS);
        Some(counted.map(|[packets, drops, freezes]| RxStatistics {
            packets: packets.into(),
            drops: drops.into(),
            freezes: freezes.into(),
        }))
    }
}

/// For poll and epoll: readable while there is a block to take, and also while the newest one is on loan, so release
/// everything before waiting (or wait for edges).
impl AsFd for PacketRx {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
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

    /// Reports whether the frame was longer than a block and is truncated.
    pub const fn is_truncated(&self) -> bool {
        (self.wire_len as usize) > self.bytes.len()
    }

    /// Returns the frame's length on arrival, without the VLAN tag that was removed.
    pub const fn wire_len(&self) -> usize {
        self.wire_len as usize
    }
}
