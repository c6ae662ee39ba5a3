//! Sizes and offsets of the rings, without any system call.

use libc::{sockaddr_ll, tpacket_block_desc, tpacket_req, tpacket_req3, tpacket2_hdr};
use packet::MAX_FRAME;
use packet::header_len::{ETHERNET, VLAN_TAG};
use packet::offload::{Offloads, header};

/// Milliseconds after which the kernel hands over a block that is not full: the kernel's minimum.
const RETIRE_MS: u32 = 1;

/// Offset of the frame from its `tpacket3_hdr` on an Ethernet interface: `tpacket_rcv` aligns the IP header to 16 bytes
/// after header and address (48 + 20) and at least 16 bytes for the link header, adds the virtio header, and puts the
/// frame 14 bytes before that.
const RX_FRAME_OFFSET: usize = (size_of::<libc::tpacket3_hdr>() + size_of::<sockaddr_ll>() + 16)
    .next_multiple_of(libc::TPACKET_ALIGNMENT)
    + header::LEN
    - ETHERNET;

/// Offset at which the kernel looks for the frame from its `tpacket2_hdr` (`tpacket_parse_header`, without
/// `PACKET_TX_HAS_OFF`).
pub(super) const TX_FRAME_OFFSET: usize = libc::TPACKET2_HDRLEN - size_of::<sockaddr_ll>();

/// Alignment of slots, a cache line: the kernel may complete one while its neighbour is being filled.
const CACHE_LINE: usize = 64;

/// Size of the receive ring.
///
/// A larger block holds more before it changes hands, a smaller one changes hands earlier: frames become visible when
/// their block is full, or after the block retire timeout.
#[derive(Clone, Copy, Debug)]
pub struct RxConfig {
    /// Bytes per block: a multiple of the page size, with room for the longest frame.
    pub block_bytes: usize,
    /// Number of blocks.
    pub blocks: usize,
    /// The work that frames may leave to who receives them ([`RxFrame::offload`](super::RxFrame::offload)). Other checksums are
    /// finished.
    pub offloads: Offloads,
}

impl Default for RxConfig {
    /// 4 MiB in blocks of 64 KiB: each holds seven jumbo frames of 9018 bytes, or about forty of 1518.
    fn default() -> Self {
        Self { block_bytes: 64 << 10, blocks: 64, offloads: Offloads::NONE }
    }
}

impl RxConfig {
    /// Returns the default, or, if messages may be left uncut, 8 MiB in blocks that hold three of the longest.
    pub fn of(offloads: Offloads) -> RxConfig {
        let config = RxConfig { offloads, ..RxConfig::default() };
        if offloads.segmentation().is_none() {
            config
        } else {
            RxConfig { block_bytes: 256 << 10, blocks: 32, ..config }
        }
    }
}

/// Size of the transmit ring.
#[derive(Clone, Copy, Debug)]
pub struct TxConfig {
    /// Slots, each for one frame; rounded up to fill whole blocks.
    pub slots: usize,
    /// The longest frame that a slot can hold, header and VLAN tag included. The MTU is a second limit.
    pub frame_bytes: usize,
    /// Whether frames go to the driver directly (`PACKET_QDISC_BYPASS`). This saves the cost of the queueing
    /// discipline, but also loses its queue: while the driver's queue is full, frames are refused and lost.
    pub bypass_qdisc: bool,
    /// The work that the kernel is to take over, as far as it knows it ([`PacketTx::offloads`](super::PacketTx::offloads)).
    pub offloads: Offloads,
}

impl Default for TxConfig {
    /// 512 jumbo frames of 9000 bytes, through the queueing discipline: 4.6 MiB.
    fn default() -> Self {
        let frame_bytes = 9000 + ETHERNET + VLAN_TAG;
        Self { slots: 512, frame_bytes, bypass_qdisc: false, offloads: Offloads::NONE }
    }
}

impl TxConfig {
    /// Returns the default, or, if messages are left to be cut, 133 slots for the longest: 9.5 MiB.
    pub fn of(offloads: Offloads) -> TxConfig {
        let config = TxConfig { offloads, ..TxConfig::default() };
        if offloads.segmentation().is_none() {
            return config;
        }
        TxConfig { slots: 128, frame_bytes: MAX_FRAME as usize, ..config }
    }
}

/// Layout of the blocks of a receive ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct RxLayout {
    block_bytes: usize,
    pub(super) blocks: usize,
}

impl RxLayout {
    /// Checks the configuration for frames of up to `longest` bytes; the error describes its fault.
    pub(super) fn new(config: &RxConfig, page: usize, longest: usize) -> Result<Self, String> {
        let RxConfig { block_bytes, blocks, .. } = *config;
        if block_bytes == 0 || !block_bytes.is_multiple_of(page) {
            return Err(format!("receive blocks of {block_bytes} bytes are not a multiple of the page size {page}"));
        }
        if blocks < 2 {
            return Err(format!("a receive ring needs 2 blocks or more, not {blocks}"));
        }
        if blocks.checked_mul(block_bytes).is_none_or(|bytes| u32::try_from(bytes).is_err()) {
            return Err(format!("a receive ring of {blocks} blocks of {block_bytes} bytes is over 4 GiB"));
        }
        let layout = Self { block_bytes, blocks };
        if layout.max_frame() < longest {
            return Err(format!(
                "receive blocks of {block_bytes} bytes hold frames of up to {} bytes, and the MTU asks for {longest}; \
                 make the blocks larger",
                layout.max_frame()
            ));
        }
        Ok(layout)
    }

    /// Returns the longest frame that fits (`max_frame_len` of the kernel); longer ones are truncated.
    pub(super) const fn max_frame(&self) -> usize {
        (self.block_bytes - size_of::<tpacket_block_desc>()).saturating_sub(RX_FRAME_OFFSET)
    }

    pub(super) const fn bytes(&self) -> usize {
        self.block_bytes * self.blocks
    }

    pub(super) const fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    pub(super) const fn block_offset(&self, block: usize) -> usize {
        block * self.block_bytes
    }

    pub(super) const fn request(&self) -> tpacket_req3 {
        // Version 3 packs frames by their length; the kernel only checks that these numbers agree. 2048 divides every
        // page size.
        const FRAME: usize = 2048;
        tpacket_req3 {
            tp_block_size: self.block_bytes as u32,
            tp_block_nr: self.blocks as u32,
            tp_frame_size: FRAME as u32,
            tp_frame_nr: (self.block_bytes / FRAME * self.blocks) as u32,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        }
    }
}

/// Layout of the slots of a transmit ring. Slots never straddle blocks, so a block may have unused bytes at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct TxLayout {
    slot_bytes: usize,
    /// Offset of the frame in its slot; a virtio header may precede it.
    frame_offset: usize,
    block_bytes: usize,
    per_block: usize,
    pub(super) slots: usize,
}

impl TxLayout {
    /// Lays out at least the configured number of slots; the error describes the configuration's fault.
    pub(super) fn new(config: &TxConfig, page: usize) -> Result<Self, String> {
        // The kernel's length field could hold more, but no Ethernet interface sends more.
        const MAX_FRAME: usize = 1 << 17;
        const MIN_BLOCK: usize = 64 << 10;
        if !(ETHERNET..=MAX_FRAME).contains(&config.frame_bytes) {
            return Err(format!(
                "transmit slots for frames of {} bytes are not possible; choose {} to {MAX_FRAME}",
                config.frame_bytes, ETHERNET
            ));
        }
        let frame_offset = TX_FRAME_OFFSET + if config.offloads.is_none() { 0 } else { header::LEN };
        let slot_bytes = (frame_offset + config.frame_bytes).next_multiple_of(CACHE_LINE);
        // Of four slots or more, so that little is left at the end.
        let block_bytes = (4 * slot_bytes).next_power_of_two().max(MIN_BLOCK).max(page);
        let per_block = block_bytes / slot_bytes;
        let blocks = config.slots.div_ceil(per_block);
        if blocks == 0 || blocks.checked_mul(block_bytes).is_none_or(|bytes| u32::try_from(bytes).is_err()) {
            return Err(format!("a transmit ring of {} slots is empty or over 4 GiB", config.slots));
        }
        Ok(Self { slot_bytes, frame_offset, block_bytes, per_block, slots: blocks * per_block })
    }

    /// Returns the longest frame that a slot can hold.
    pub(super) const fn max_frame(&self) -> usize {
        self.slot_bytes - self.frame_offset
    }

    pub(super) const fn frame_offset(&self) -> usize {
        self.frame_offset
    }

    pub(super) const fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    pub(super) const fn bytes(&self) -> usize {
        self.slots / self.per_block * self.block_bytes
    }

    pub(super) const fn slot_offset(&self, slot: usize) -> usize {
        slot / self.per_block * self.block_bytes + slot % self.per_block * self.slot_bytes
    }

    /// Returns the send buffer size: every slot, with the kernel's own bookkeeping for each.
    pub(super) const fn send_buffer(&self) -> usize {
        self.slots * (self.slot_bytes + 2048)
    }

    pub(super) const fn request(&self) -> tpacket_req {
        // The slot starts with its header, which must end before the frame.
        const { assert!(TX_FRAME_OFFSET >= size_of::<tpacket2_hdr>()) };
        tpacket_req {
            tp_block_size: self.block_bytes as u32,
            tp_block_nr: (self.slots / self.per_block) as u32,
            tp_frame_size: self.slot_bytes as u32,
            tp_frame_nr: self.slots as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    #[test]
    fn offsets_are_those_of_the_kernel() {
        assert_eq!(RX_FRAME_OFFSET, 92);
        assert_eq!(TX_FRAME_OFFSET, 32);
        assert_eq!(size_of::<tpacket_block_desc>(), 48);
    }

    #[test]
    fn default_rings_hold_jumbo_frames() {
        let rx = RxLayout::new(&RxConfig::default(), PAGE, 9018).unwrap();
        assert_eq!(rx.bytes(), 4 << 20);
        assert_eq!(rx.block_offset(63) + rx.block_bytes(), rx.bytes());
        assert_eq!(TxLayout::new(&TxConfig::default(), PAGE).unwrap().max_frame(), 9056);
    }

    #[test]
    fn rings_for_messages_hold_the_longest() {
        let rx = RxLayout::new(&RxConfig::of(Offloads::ALL), PAGE, MAX_FRAME as usize).unwrap();
        assert!(rx.bytes() == 8 << 20 && rx.max_frame() > 3 * MAX_FRAME as usize);
        let tx = TxLayout::new(&TxConfig::of(Offloads::ALL), PAGE).unwrap();
        assert!(tx.slots == 133 && tx.bytes() < 10 << 20 && tx.max_frame() >= MAX_FRAME as usize);
        assert_eq!(tx.frame_offset(), TX_FRAME_OFFSET + 10);
        assert_eq!(TxConfig::of(Offloads::CHECKSUM).slots, TxConfig::default().slots);
    }

    #[test]
    fn receive_request_satisfies_the_kernel() {
        for (block_bytes, blocks) in [(16 << 10, 2), (64 << 10, 64), (12 << 10, 5)] {
            let request = RxLayout::new(&RxConfig { block_bytes, blocks, offloads: Offloads::NONE }, PAGE, 1518)
                .unwrap()
                .request();
            assert_eq!(request.tp_block_size / request.tp_frame_size * request.tp_block_nr, request.tp_frame_nr);
            assert_eq!(request.tp_frame_size as usize % libc::TPACKET_ALIGNMENT, 0);
        }
    }

    #[test]
    fn unusable_receive_rings_are_refused() {
        let refused = |block_bytes, blocks, longest| {
            RxLayout::new(&RxConfig { block_bytes, blocks, offloads: Offloads::NONE }, PAGE, longest).unwrap_err();
        };
        refused(0, 64, 1518);
        refused(6000, 64, 1518);
        refused(64 << 10, 1, 1518);
        refused(8 << 10, 64, 9018);
        refused(64 << 10, 1 << 16, 1518);
        refused(usize::MAX - 4095, 64, 1518);
    }

    #[test]
    fn slots_stay_in_their_block_and_apart() {
        for frame_bytes in [60, 1518, 2016, 9018, 65_535, 1 << 17] {
            let layout = TxLayout::new(&TxConfig { slots: 100, frame_bytes, ..TxConfig::default() }, PAGE).unwrap();
            assert!(layout.slots >= 100);
            assert!(layout.max_frame() >= frame_bytes);
            let mut end = 0;
            for slot in 0..layout.slots {
                let start = layout.slot_offset(slot);
                assert!(start >= end && start.is_multiple_of(CACHE_LINE));
                end = start + layout.slot_bytes;
                assert_eq!(start / layout.block_bytes, (end - 1) / layout.block_bytes, "straddles a block");
            }
            assert!(end <= layout.bytes());
            let request = layout.request();
            assert_eq!(request.tp_block_size / request.tp_frame_size * request.tp_block_nr, request.tp_frame_nr);
            assert_eq!(request.tp_block_size as usize % PAGE, 0);
        }
    }

    #[test]
    fn unusable_transmit_rings_are_refused() {
        let refused = |slots, frame_bytes| {
            TxLayout::new(&TxConfig { slots, frame_bytes, ..TxConfig::default() }, PAGE).unwrap_err();
        };
        refused(0, 1518);
        refused(512, 13);
        refused(512, (1 << 17) + 1);
        refused(usize::MAX, 1518);
        refused(1 << 20, 9018);
    }
}
