//! The headers of a frame that a path reads.

use packet::{MacAddr, ethertype, header_len};

/// Returns the number of the VLAN that a frame's outermost tag puts it in: 0 is none (IEEE 802.1Q-2022 table 9-2).
pub fn vid(frame: &[u8]) -> Option<u16> {
    let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let tag = word(header_len::MAC_ADDRESSES).filter(|&ethertype| ethertype::is_vlan(ethertype));
    tag.and_then(|_| word(header_len::ETHERNET)).map(|tag| tag & 0xfff).filter(|&vid| vid != 0)
}

/// Returns a frame's destination and source.
pub fn addresses(frame: &[u8]) -> Option<[MacAddr; 2]> {
    let (addresses, _) = frame.split_first_chunk::<{ header_len::MAC_ADDRESSES }>()?;
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5] = *addresses;
    Some([MacAddr([d0, d1, d2, d3, d4, d5]), MacAddr([s0, s1, s2, s3, s4, s5])])
}
