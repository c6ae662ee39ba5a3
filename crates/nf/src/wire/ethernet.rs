//! Ethernet II.

use super::{array, word};
use packet::{MacAddr, ethertype as types, header_len};

/// Bytes of the header.
pub const HEADER: usize = header_len::ETHERNET;
/// Bytes that a frame is padded to, without its checksum.
pub const MIN_FRAME: usize = 60;
/// EtherType of IPv4.
pub const IPV4: u16 = types::IPV4;
/// EtherType of ARP.
pub const ARP: u16 = types::ARP;

/// Returns the EtherType, if there is a whole header.
#[inline]
pub fn ethertype(frame: &[u8]) -> Option<u16> {
    (frame.len() >= HEADER).then(|| word(frame, 12))
}

/// Returns the destination address. The frame must have a header.
#[inline]
pub fn destination(frame: &[u8]) -> MacAddr {
    MacAddr(array(frame, 0))
}

/// Returns the source address. The frame must have a header.
#[inline]
pub fn source(frame: &[u8]) -> MacAddr {
    MacAddr(array(frame, 6))
}

/// Sets both addresses. The frame must have a header.
#[inline]
pub fn set_addresses(frame: &mut [u8], destination: MacAddr, source: MacAddr) {
    frame[..6].copy_from_slice(&destination.0);
    frame[6..12].copy_from_slice(&source.0);
}

/// Swaps both addresses. The frame must have a header.
#[inline]
pub fn swap_addresses(frame: &mut [u8]) {
    let (destination, source) = (destination(frame), source(frame));
    set_addresses(frame, source, destination);
}

/// Writes a whole header. The frame must have room for it.
pub fn write(frame: &mut [u8], destination: MacAddr, source: MacAddr, ethertype: u16) {
    set_addresses(frame, destination, source);
    frame[12..HEADER].copy_from_slice(&ethertype.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swapping_exchanges_both() {
        let mut frame = [0; 20];
        write(&mut frame, MacAddr([1; 6]), MacAddr([2; 6]), IPV4);
        swap_addresses(&mut frame);
        assert_eq!((destination(&frame), source(&frame)), (MacAddr([2; 6]), MacAddr([1; 6])));
        assert_eq!(ethertype(&frame), Some(IPV4));
        assert_eq!(ethertype(&frame[..13]), None);
    }
}
