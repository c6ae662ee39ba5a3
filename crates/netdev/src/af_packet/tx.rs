//! The transmit ring.

use std::cell::Cell;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use libc::tpacket2_hdr;

use super::direct::Direct;
use super::kernel;
use super::layout::{Slots, TX_FRAME_OFFSET, TX_HEADER_OFFSET, TxConfig, longest_sent, transmit_slots};
use super::outcome::{Flushed, Loss, PushError};
use super::ring_memory::RingMemory;
use super::socket::{NO_PROTOCOL, Socket};
use crate::error::{Error, Result};
use crate::link::Link;
use crate::segment::RawSegment;
use packet::MAX_FRAME;
use packet::header_len::{ETHERNET, MAC_ADDRESSES, VLAN_TAG};
use packet::offload::{Offload, Offloads, Work, header};

/// Frames that one flush moves up after lost ones before it leaves the rest to the next flush. A burst of 45 frames,
/// all refused, stays below; a whole ring of them must not stall a worker for milliseconds.
const MAX_MOVES_PER_FLUSH: usize = 1024;

/// Type of a frame with an 802.1Q tag. Only this tag makes room for itself (`packet_extra_vlan_len_allowed`).
const TAGGED: [u8; 2] = (libc::ETH_P_8021Q as u16).to_be_bytes();

/// Bytes of the kernel's own bookkeeping for a slot.
const BOOKKEEPING: usize = 2048;

/// Bytes of a long frame that the kernel has together, for its headers. It takes the rest in pages.
const LINEAR: usize = 128;

/// A transmit ring on an interface.
///
/// [`push`](Self::push) and [`push_raw`](Self::push_raw) gather a frame into the next slot; [`flush`](Self::flush) hands
/// all pushed frames to the kernel, with one system call unless it refuses some. The kernel refers to the slot until the driver is
/// done with the frame, so a slot becomes free some time after the flush.
///
/// The kernel is asked, by the virtio header before each frame, to copy the frame whole into memory of its own. Else it refers to the
/// slot's pages, and an interface of the same machine allocates and copies pages for it.
///
/// A frame that is too long for a slot goes to the kernel as it is pushed, after all that were pushed before it. The kernel copies
/// it from where it lies: a long frame's second copy costs more than a system call.
#[derive(Debug)]
pub struct PacketTx {
    // First, because fields are dropped in this order and the mapping does not keep the socket open.
    ring: RingMemory,
    socket: OwnedFd,
    direct: Direct,
    slots: Slots,
    offloads: Offloads,
    state: Arc<TxState>,
    // Frames are numbered as they are pushed; a frame's slot is its number modulo the number of slots.
    // `done <= sent <= pushed <= done + slots`.
    /// First frame whose slot may be in use.
    done: Cell<usize>,
    /// First frame not handed to the kernel yet, which is where the kernel looks next.
    sent: Cell<usize>,
    /// Number of the next frame.
    pushed: Cell<usize>,
    /// Frames that were handed to the kernel since the last flush, because a long one came after them.
    early: Cell<Flushed>,
}

/// The interface's state as used by a transmit ring. The monitor of the interface keeps it up to date: the ring itself
/// never asks.
#[derive(Debug)]
pub struct TxState {
    mtu: AtomicUsize,
    is_up: AtomicBool,
}

impl TxState {
    fn new(link: &Link) -> Self {
        Self { mtu: AtomicUsize::new(link.mtu), is_up: AtomicBool::new(link.is_up) }
    }

    /// Updates the state.
    pub fn set(&self, link: &Link) {
        self.mtu.store(link.mtu, Ordering::Relaxed);
        self.is_up.store(link.is_up, Ordering::Relaxed);
    }
}

impl PacketTx {
    /// Opens a transmit ring on an interface.
    pub fn open(link: &Link, config: &TxConfig) -> Result<Self> {
        link.require_ethernet()?;
        let slots = transmit_slots(config, rustix::param::page_size())
            .map_err(|problem| Error::Config { interface: link.name.clone(), problem })?;
        let socket = Socket::open(link)?;
        config.apply(&socket)?;
        let ring = socket.map_ring(
            libc::tpacket_versions::TPACKET_V2,
            libc::PACKET_TX_RING,
            slots.request(),
            slots.bytes(),
        )?;
        // The ring should be the limit, not the socket's default of about 200 KiB.
        socket.set_send_buffer(slots.count * (slots.slot_bytes + BOOKKEEPING))?;
        socket.bind(NO_PROTOCOL)?;
        Ok(Self {
            ring,
            socket: socket.into_fd(),
            direct: Direct::open(link, config)?,
            slots,
            offloads: if kernel::cuts_udp() { config.offloads } else { config.offloads & !Offloads::UDP },
            state: Arc::new(TxState::new(link)),
            done: Cell::new(0),
            sent: Cell::new(0),
            pushed: Cell::new(0),
            early: Cell::default(),
        })
    }

    /// Returns the number of frames that can be pushed now.
    pub fn space(&self) -> usize {
        self.reclaim();
        self.slots.count - (self.pushed.get() - self.done.get())
    }

    /// Counts frames not yet handed to the kernel.
    pub fn pending(&self) -> usize {
        self.pushed.get() - self.sent.get()
    }

    /// Returns the longest frame that can be pushed, header included: MTU + 14. A frame with an 802.1Q tag may be 4 bytes longer. Of a
    /// message that is to be cut, the segments may be as long.
    pub fn max_frame(&self) -> usize {
        self.state.mtu.load(Ordering::Relaxed) + ETHERNET
    }

    /// Returns the work on frames that may be left to the kernel.
    pub fn offloads(&self) -> Offloads {
        self.offloads
    }

    /// Returns its state, to be kept up to date.
    pub fn state(&self) -> Arc<TxState> {
        self.state.clone()
    }

    /// Puts one frame, gathered from slices, into the ring. The next [`flush`](Self::flush) sends it.
    #[inline]
    pub fn push(&self, segments: &[&[u8]]) -> Result<(), PushError> {
        // SAFETY: slices can be read.
        unsafe { self.gather(Offload::NONE, segments.iter().map(|&segment| RawSegment::from(segment))) }
    }

    /// Puts one frame, gathered from raw memory, into the ring, and leaves this work on it to the kernel, which must be among
    /// [`offloads`](Self::offloads). The next [`flush`](Self::flush) sends it; the memory is free again when this call returns.
    ///
    /// Another process may write to that memory meanwhile: a mixture of old and new bytes is then sent. The checks of
    /// the frame use the copy in the slot.
    ///
    /// # Safety
    /// Until the call returns, every segment must be memory that can be read, and no Rust code may write to it.
    #[inline]
    pub unsafe fn push_raw(&self, left: Offload, segments: &[RawSegment]) -> Result<(), PushError> {
        // SAFETY: the caller vouches for the segments.
        unsafe { self.gather(left, segments.iter().copied()) }
    }

    /// Hands all pushed frames to the kernel. An error concerns the socket, not one frame; the frames stay. Counts those that went there
    /// with long frames since the last flush, too.
    pub fn flush(&self) -> io::Result<Flushed> {
        let mut flushed = self.early.take();
        let mut moves = 0;
        while self.pending() > 0 && moves < MAX_MOVES_PER_FLUSH {
            let result = self.send();
            let sent = self.advance();
            flushed.sent += sent;
            let error = match result {
                // Not all: another call may send the rest, or reports why not.
                Ok(()) if sent > 0 => continue,
                Ok(()) => break,
                Err(error) => error,
            };
            // The kernel stops at a frame that it does not send, now the first pending one, and would stop there for
            // ever: it must be removed.
            match error.raw_os_error() {
                _ if self.pending() > 0 && self.status_of(self.sent.get()) & libc::TP_STATUS_WRONG_FORMAT != 0 => {
                    moves += self.remove_first();
                    flushed.wrong_format += 1;
                }
                Some(libc::EAGAIN) => break,
                code => match self.loss(code) {
                    // Frames that waited for the link would be stale when it returns.
                    Some(Loss::LinkDown) => flushed.link_down += self.remove_all(),
                    Some(loss) if self.pending() > 0 => {
                        moves += self.remove_first();
                        flushed.lose(loss);
                    }
                    _ => return Err(error),
                },
            }
        }
        flushed.pending = self.pending();
        Ok(flushed)
    }

    /// Copies one frame into the next slot and marks it for sending.
    ///
    /// # Safety
    /// Every segment must be memory that can be read.
    #[inline]
    unsafe fn gather(
        &self,
        left: Offload,
        segments: impl Iterator<Item = RawSegment> + Clone,
    ) -> Result<(), PushError> {
        debug_assert!(self.offloads.has(left.needs()), "{left:?} is left, and the kernel takes {:?}", self.offloads);
        let len = segments.clone().fold(0, |sum: usize, segment| sum.saturating_add(segment.len()));
        let untagged = self.max_frame();
        let max = untagged + VLAN_TAG;
        if len < ETHERNET {
            return Err(PushError::TooShort { len });
        }
        // As long as it will be on the wire: the kernel cuts a message by the size that its sender asked for, whatever the MTU.
        let sent = match left.work() {
            Work::Cut(cut) => len.min(usize::from(cut.start) + usize::from(cut.header) + usize::from(cut.size)),
            _ => len,
        };
        if sent > max || len > MAX_FRAME as usize {
            return Err(PushError::TooLong { len, max: untagged });
        }
        if len > longest_sent(&self.slots) {
            // SAFETY: the caller vouches for the segments.
            if sent > untagged && unsafe { ether_type(segments.clone()) } != TAGGED {
                return Err(PushError::TooLong { len, max: untagged });
            }
            // SAFETY: the caller vouches for the segments.
            return unsafe { self.push_direct(left, len, segments) };
        }
        let frame = self.pushed.get();
        if frame - self.done.get() == self.slots.count {
            self.reclaim();
            if frame - self.done.get() == self.slots.count {
                return Err(PushError::Full);
            }
        }

        let data = self.data(frame);
        let mut to = data;
        let header = header_of(left, len);
        // SAFETY: the slot is free, so only this side touches it, and has room for the header before its frame.
        unsafe { ptr::copy_nonoverlapping(header.as_ptr(), self.header(frame), header.len()) };
        for segment in segments {
            // SAFETY: the caller vouches for the source. The slot is free, so only this side touches it, and holds
            // that many bytes; the lengths, which are copies of our own, were summed up above. The ring is
            // private to this value, so they don't overlap.
            unsafe {
                ptr::copy_nonoverlapping(segment.ptr(), to, segment.len());
                to = to.add(segment.len());
            }
        }
        if sent > untagged {
            // SAFETY: the slot holds an Ethernet header, whose last two bytes are the type. Volatile, so that the slot
            // is read: the source might have another type by now.
            let ether_type = unsafe { ptr::read_volatile(data.add(MAC_ADDRESSES).cast::<[u8; 2]>()) };
            if ether_type != TAGGED {
                return Err(PushError::TooLong { len, max: untagged });
            }
        }
        self.set_len(frame, (header.len() + len) as u32);
        self.status(frame).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.pushed.set(frame + 1);
        Ok(())
    }

    /// Hands a frame that is too long for a slot to the kernel, after those of the ring.
    ///
    /// # Safety
    /// Every segment must be memory that can be read.
    #[inline(never)]
    unsafe fn push_direct(
        &self,
        left: Offload,
        len: usize,
        segments: impl Iterator<Item = RawSegment>,
    ) -> Result<(), PushError> {
        let mut early = if self.pending() > 0 { self.flush().map_err(|_| PushError::Full)? } else { self.early.get() };
        let header = header_of(left, LINEAR.min(len));
        let is_free = early.pending == 0;
        // SAFETY: the caller vouches for the segments.
        let outcome = is_free.then(|| unsafe { self.direct.send(&header, segments) });
        let pushed = match outcome.map(|sent| sent.map_err(|error| error.raw_os_error())) {
            // Frames of one sender stay in order.
            None | Some(Err(Some(libc::EAGAIN))) => Err(PushError::Full),
            Some(Ok(())) => {
                early.sent += 1;
                Ok(())
            }
            Some(Err(code)) => {
                early.lose(self.loss(code).unwrap_or(Loss::Malformed));
                Ok(())
            }
        };
        self.early.set(Flushed { pending: 0, ..early });
        pushed
    }

    /// Returns the loss that an error means, if it concerns one frame, or the interface.
    fn loss(&self, code: Option<i32>) -> Option<Loss> {
        match code? {
            // A removed interface does not return.
            libc::ENXIO | libc::ENODEV => Some(Loss::LinkDown),
            libc::ENETDOWN if !self.state.is_up.load(Ordering::Relaxed) => Some(Loss::LinkDown),
            // ENETDOWN: a virtual interface without a queueing discipline whose driver's queue is full.
            libc::ENOBUFS | libc::ENETDOWN => Some(Loss::Refused),
            _ => None,
        }
    }

    /// Makes the kernel send, without waiting, every marked frame from its position in the ring on.
    fn send(&self) -> io::Result<()> {
        // SAFETY: no memory is passed.
        let sent = unsafe { libc::sendto(self.socket.as_raw_fd(), ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Counts the frames that the kernel has accepted, and moves `sent` past them.
    fn advance(&self) -> usize {
        let first = self.sent.get();
        let mut frame = first;
        while frame < self.pushed.get()
            && self.status_of(frame) & (libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_WRONG_FORMAT) == 0
        {
            frame += 1;
        }
        self.sent.set(frame);
        frame - first
    }

    /// Moves `done` past the frames that the driver has finished, up to the first unfinished one.
    fn reclaim(&self) {
        let mut frame = self.done.get();
        while frame < self.sent.get() && self.status_of(frame) & libc::TP_STATUS_SENDING == 0 {
            frame += 1;
        }
        self.done.set(frame);
    }

    /// Removes the first pending frame from the ring. The kernel waits at its slot, so the others move up; returns how
    /// many.
    fn remove_first(&self) -> usize {
        let last = self.pushed.get() - 1;
        for frame in self.sent.get()..last {
            let len = self.len(frame + 1);
            // SAFETY: both slots belong to pending frames, which the kernel does not touch outside of a send, and hold
            // this many bytes, headers included; they differ, as there are at least two frames.
            unsafe { ptr::copy_nonoverlapping(self.header(frame + 1), self.header(frame), len as usize) };
            self.set_len(frame, len);
            self.status(frame).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        }
        self.status(last).store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
        self.pushed.set(last);
        last - self.sent.get()
    }

    /// Removes all pending frames from the ring and counts them.
    fn remove_all(&self) -> usize {
        let pending = self.sent.get()..self.pushed.get();
        self.pushed.set(pending.start);
        pending.map(|frame| self.status(frame).store(libc::TP_STATUS_AVAILABLE, Ordering::Release)).count()
    }

    fn slot(&self, frame: usize) -> *mut tpacket2_hdr {
        self.ring.at(self.slots.offset(frame % self.slots.count), self.slots.slot_bytes)
    }

    /// Returns where the kernel finds the header of a frame, which the frame follows.
    fn header(&self, frame: usize) -> *mut u8 {
        self.slot(frame).wrapping_byte_add(TX_HEADER_OFFSET).cast()
    }

    fn data(&self, frame: usize) -> *mut u8 {
        self.slot(frame).wrapping_byte_add(TX_FRAME_OFFSET).cast()
    }

    fn status(&self, frame: usize) -> &AtomicU32 {
        let status = self.slot(frame).wrapping_byte_add(offset_of!(tpacket2_hdr, tp_status));
        // SAFETY: the word lies inside the mapping, which lives as long as `self`, and is aligned. Both sides access it
        // only as a whole; no other reference to it exists.
        unsafe { AtomicU32::from_ptr(status.cast()) }
    }

    fn status_of(&self, frame: usize) -> u32 {
        self.status(frame).load(Ordering::Acquire)
    }

    fn len(&self, frame: usize) -> u32 {
        let slot = self.slot(frame);
        // SAFETY: the field lies inside the mapping and is aligned, and the kernel does not write it.
        unsafe { ptr::read(&raw const (*slot).tp_len) }
    }

    fn set_len(&self, frame: usize, len: u32) {
        let slot = self.slot(frame);
        // SAFETY: the field lies inside the mapping and is aligned, and the kernel reads it only during a send.
        unsafe { ptr::write(&raw mut (*slot).tp_len, len) }
    }
}

/// Returns the type of a frame that has an Ethernet header. Another process may change it afterwards: a message then has segments that are
/// 4 bytes too long, and the kernel or the driver drops them.
///
/// # Safety
/// Every segment must be memory that can be read.
unsafe fn ether_type(segments: impl Iterator<Item = RawSegment>) -> [u8; 2] {
    let bytes = segments.flat_map(|segment| (0..segment.len()).map(move |at| segment.ptr().wrapping_add(at)));
    let mut at = bytes.skip(MAC_ADDRESSES);
    // SAFETY: the caller vouches for the segments. Volatile, as others may write there.
    let mut next = || at.next().map_or(0, |byte| unsafe { ptr::read_volatile(byte) });
    [next(), next()]
}

/// Returns the header of a frame of which the kernel is to copy this many bytes into one piece of memory: kernels use the length of
/// headers (`hdr_len`) for nothing else.
fn header_of(left: Offload, linear: usize) -> [u8; header::LEN] {
    let mut header = header::write(left);
    let headers = u16::from_le_bytes([header[2], header[3]]);
    let linear = u16::try_from(linear).unwrap_or(u16::MAX);
    header[2..4].copy_from_slice(&headers.max(linear).to_le_bytes());
    header
}

/// For poll and epoll: writable while a slot is free.
impl AsFd for PacketTx {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
