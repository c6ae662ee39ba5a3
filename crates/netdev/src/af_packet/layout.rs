//! Sizes and offsets of the rings, without any system call.

use super::kernel;
use super::socket::Socket;
use crate::error::Result;
use libc::{sockaddr_ll, tpacket_req, tpacket2_hdr};
use packet::header_len::{ETHERNET, VLAN_TAG};
use packet::offload::{Offloads, header};

/// Offset of a received frame from its `tpacket2_hdr` on an Ethernet interface: `tpacket_rcv` aligns the IP header to 16 bytes
/// after header and address (32 + 20) and at least 16 bytes for the link header, adds the virtio header, and puts the
/// frame 14 bytes before that.
const RX_FRAME_OFFSET: usize =
    (libc::TPACKET2_HDRLEN + 16).next_multiple_of(libc::TPACKET_ALIGNMENT) + header::LEN - ETHERNET;

/// Bytes of a received frame's header and address. A slot that ends before [`RX_FRAME_OFFSET`] has no byte of a frame.
const RX_HEADERS: usize = libc::TPACKET2_HDRLEN;

const _: () = assert!(RX_HEADERS.next_multiple_of(CACHE_LINE) < RX_FRAME_OFFSET);

/// Offset at which the kernel looks for the virtio header of a frame from its `tpacket2_hdr` (`tpacket_parse_header`, without
/// `PACKET_TX_HAS_OFF`), and for the frame itself.
pub(super) const TX_HEADER_OFFSET: usize = libc::TPACKET2_HDRLEN - size_of::<sockaddr_ll>();
pub(super) const TX_FRAME_OFFSET: usize = TX_HEADER_OFFSET + header::LEN;

// A slot starts with its `tpacket2_hdr`, which must end before.
const _: () = assert!(TX_HEADER_OFFSET >= size_of::<tpacket2_hdr>());

/// Alignment of slots, a cache line: the kernel may complete one while its neighbour is being filled.
const CACHE_LINE: usize = 64;

/// The usual MTU, and the longest whose frames have a slot each.
const ETH_DATA: usize = 1500;
const JUMBO: usize = 9000;

/// Size of the receive ring.
#[derive(Clone, Copy, Debug)]
pub struct RxConfig {
    /// Slots, each for a frame of the interface's MTU, or of 9000 bytes if that is less or messages may be left uncut; rounded up to
    /// fill whole blocks. With more of them, the kernel drops fewer frames while nobody receives, and the processor's caches have
    /// fewer of them.
    pub slots: usize,
    /// The work that frames may leave to who receives them ([`RxFrame::offload`](super::RxFrame::offload)). Other checksums are
    /// finished.
    pub offloads: Offloads,
    /// Whether slots hold no frames, and the kernel keeps all of them beside the ring. Kernels before 6.2 need it
    /// ([`PacketRx`](super::PacketRx)).
    pub are_beside: bool,
}

impl Default for RxConfig {
    /// 1024 frames: 1.6 MiB at an MTU of 1500, 9.1 MiB at 9000; in slots if the kernel allows it.
    fn default() -> Self {
        Self { slots: 1024, offloads: Offloads::NONE, are_beside: !kernel::cuts_udp() }
    }
}

impl RxConfig {
    /// Returns the default with these offloads.
    pub fn of(offloads: Offloads) -> RxConfig {
        RxConfig { offloads, ..RxConfig::default() }
    }
}

/// Size of the transmit ring.
#[derive(Clone, Copy, Debug)]
pub struct TxConfig {
    /// Slots, each for one frame; rounded up to fill whole blocks.
    pub slots: usize,
    /// The longest frame that a slot can hold, header and VLAN tag included. Longer ones go to the kernel one by one, with a system call
    /// each.
    pub frame_bytes: usize,
    /// Whether frames go to the driver directly (`PACKET_QDISC_BYPASS`). This saves the cost of the queueing
    /// discipline, but also loses its queue: while the driver's queue is full, frames are refused and lost.
    pub bypass_qdisc: bool,
    /// The work that the kernel is to take over, as far as it knows it ([`PacketTx::offloads`](super::PacketTx::offloads)).
    pub offloads: Offloads,
}

impl Default for TxConfig {
    /// 1024 frames of the usual MTU, through the queueing discipline: 2 MiB.
    fn default() -> Self {
        // With its headers, 2 KiB.
        Self { slots: 1024, frame_bytes: 2000, bypass_qdisc: false, offloads: Offloads::NONE }
    }
}

impl TxConfig {
    /// Returns the default with these offloads.
    pub fn of(offloads: Offloads) -> TxConfig {
        TxConfig { offloads, ..TxConfig::default() }
    }

    /// Sets the options of a socket, before it has a ring.
    pub(super) fn apply(&self, socket: &Socket<'_>) -> Result<()> {
        if self.bypass_qdisc {
            socket.set(libc::PACKET_QDISC_BYPASS, 1, "bypass its queueing discipline")?;
        }
        // Kernels have this for transmit rings since 4.6.
        socket.set(libc::PACKET_VNET_HDR, 1, "describe frames to the kernel")
    }
}

/// The slots of a ring. They never straddle blocks, so a block may have unused bytes at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots {
    pub(super) slot_bytes: usize,
    block_bytes: usize,
    per_block: usize,
    pub(super) count: usize,
}

impl Slots {
    /// Lays out this number of slots, or a few more, of `room` bytes or more. `None` if that is none, or over 4 GiB.
    fn new(count: usize, room: usize, page: usize) -> Option<Self> {
        const MIN_BLOCK: usize = 64 << 10;
        let slot_bytes = room.next_multiple_of(CACHE_LINE);
        // Of four slots or more, so that little is left at the end.
        let block_bytes = (4 * slot_bytes).next_power_of_two().max(MIN_BLOCK).max(page);
        let per_block = block_bytes / slot_bytes;
        let blocks = count.div_ceil(per_block);
        let is_possible = blocks > 0 && blocks.checked_mul(block_bytes).is_some_and(|all| u32::try_from(all).is_ok());
        is_possible.then(|| Self { slot_bytes, block_bytes, per_block, count: blocks * per_block })
    }

    pub(super) const fn bytes(&self) -> usize {
        self.count / self.per_block * self.block_bytes
    }

    pub(super) const fn offset(&self, slot: usize) -> usize {
        slot / self.per_block * self.block_bytes + slot % self.per_block * self.slot_bytes
    }

    pub(super) const fn request(&self) -> tpacket_req {
        tpacket_req {
            tp_block_size: self.block_bytes as u32,
            tp_block_nr: (self.count / self.per_block) as u32,
            tp_frame_size: self.slot_bytes as u32,
            tp_frame_nr: self.count as u32,
        }
    }
}

/// A place in a ring, which moves from slot to slot without a division.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) slot: usize,
    /// Bytes from the start of the ring.
    pub(super) offset: usize,
    in_block: usize,
}

impl Place {
    #[inline(always)]
    pub(super) const fn next(self, slots: &Slots) -> Place {
        let Place { slot, offset, in_block } = self;
        if in_block + 1 < slots.per_block {
            return Place { slot: slot + 1, offset: offset + slots.slot_bytes, in_block: in_block + 1 };
        }
        let offset = offset - in_block * slots.slot_bytes + slots.block_bytes;
        if slot + 1 < slots.count { Place { slot: slot + 1, offset, in_block: 0 } } else { FIRST }
    }
}

const FIRST: Place = Place { slot: 0, offset: 0, in_block: 0 };

/// Lays out the receive ring of an interface with this MTU; the error describes the configuration's fault.
pub(super) fn receive_slots(config: &RxConfig, page: usize, mtu: usize) -> std::result::Result<Slots, String> {
    // Of messages that are left uncut, the short ones fit as well.
    let longest = if config.offloads.segmentation().is_none() { mtu.clamp(ETH_DATA, JUMBO) } else { JUMBO };
    let room = if config.are_beside { RX_HEADERS } else { RX_FRAME_OFFSET + longest + ETHERNET + VLAN_TAG };
    // Numbers of slots are told in 16 bits.
    let slots = Slots::new(config.slots, room, page).filter(|slots| slots.count <= 1 << 16);
    slots.ok_or_else(|| format!("a receive ring of {} slots is not possible; choose 1 to 60,000", config.slots))
}

/// Returns the longest MTU whose frames these slots hold.
pub(super) const fn longest_mtu(slots: &Slots) -> usize {
    slots.slot_bytes.saturating_sub(RX_FRAME_OFFSET + ETHERNET + VLAN_TAG)
}

/// Lays out a transmit ring; the error describes the configuration's fault.
pub(super) fn transmit_slots(config: &TxConfig, page: usize) -> std::result::Result<Slots, String> {
    // The kernel's length field could hold more, but no Ethernet interface sends more.
    const MAX_FRAME: usize = 1 << 17;
    if !(ETHERNET..=MAX_FRAME).contains(&config.frame_bytes) {
        return Err(format!(
            "transmit slots for frames of {} bytes are not possible; choose {} to {MAX_FRAME}",
            config.frame_bytes, ETHERNET
        ));
    }
    let slots = Slots::new(config.slots, TX_FRAME_OFFSET + config.frame_bytes, page);
    slots.ok_or_else(|| format!("a transmit ring of {} slots is empty or over 4 GiB", config.slots))
}

/// Returns the longest frame that a slot of a transmit ring holds.
pub(super) const fn longest_sent(slots: &Slots) -> usize {
    slots.slot_bytes - TX_FRAME_OFFSET
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    #[test]
    fn offsets_are_those_of_the_kernel() {
        assert_eq!(RX_FRAME_OFFSET, 76);
        assert_eq!((TX_HEADER_OFFSET, TX_FRAME_OFFSET), (32, 42));
    }

    #[test]
    fn a_receive_slot_holds_a_frame_of_the_mtu() {
        for (mtu, slots, block) in [(68, 1040, 64), (1500, 1040, 64), (9000, 1029, 64), (65_535, 1029, 64)] {
            let ring = receive_slots(&RxConfig::default(), PAGE, mtu).unwrap();
            assert_eq!((ring.count, ring.block_bytes), (slots, block << 10), "{mtu}");
            assert!(longest_mtu(&ring) >= mtu.min(9000));
        }
        let ring = receive_slots(&RxConfig { are_beside: true, ..RxConfig::default() }, PAGE, 1500).unwrap();
        assert_eq!((ring.slot_bytes, ring.count, longest_mtu(&ring)), (64, 1024, 0));
    }

    #[test]
    fn a_transmit_slot_has_two_kibibytes() {
        let slots = transmit_slots(&TxConfig::default(), PAGE).unwrap();
        assert_eq!((slots.slot_bytes, slots.count, longest_sent(&slots)), (2048, 1024, 2006));
    }

    #[test]
    fn unusable_receive_rings_are_refused() {
        for slots in [0, (1 << 16) + 1, usize::MAX] {
            let error = receive_slots(&RxConfig { slots, ..RxConfig::default() }, PAGE, 1500).unwrap_err();
            assert!(error.contains(&format!("{slots} slots is not possible")), "{error}");
        }
    }

    #[test]
    fn slots_stay_in_their_block_and_apart() {
        for frame_bytes in [60, 1518, 2016, 9018, 65_535, 1 << 17] {
            let slots = transmit_slots(&TxConfig { slots: 100, frame_bytes, ..TxConfig::default() }, PAGE).unwrap();
            assert!(longest_sent(&slots) >= frame_bytes);
            assert!(slots.count >= 100);
            let (mut end, mut place) = (0, FIRST);
            for slot in 0..slots.count {
                let start = slots.offset(slot);
                assert_eq!((place.slot, place.offset), (slot, start));
                place = place.next(&slots);
                assert!(start >= end && start.is_multiple_of(CACHE_LINE));
                end = start + slots.slot_bytes;
                assert_eq!(start / slots.block_bytes, (end - 1) / slots.block_bytes, "straddles a block");
            }
            assert_eq!((place.slot, place.offset), (0, 0));
            assert!(end <= slots.bytes());
            let request = slots.request();
            assert_eq!(request.tp_block_size / request.tp_frame_size * request.tp_block_nr, request.tp_frame_nr);
            assert_eq!(request.tp_block_size as usize % PAGE, 0);
        }
    }

    #[test]
    fn unusable_transmit_rings_are_refused() {
        let refused = |slots, frame_bytes| {
            transmit_slots(&TxConfig { slots, frame_bytes, ..TxConfig::default() }, PAGE).unwrap_err();
        };
        refused(0, 1518);
        refused(512, 13);
        refused(512, (1 << 17) + 1);
        refused(usize::MAX, 1518);
        refused(1 << 20, 9018);
    }
}
