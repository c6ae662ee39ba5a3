//! Ethernet II.

use super::{array, word};
use std::fmt;
use std::str::FromStr;

/// Bytes of the header.
pub const HEADER: usize = 14;
/// Bytes that a frame is padded to, without its checksum.
pub const MIN_FRAME: usize = 60;
/// EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// EtherType of ARP.
pub const ARP: u16 = 0x0806;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The broadcast address.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// Reports whether it is a multicast or the broadcast address.
    pub fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Error: the text is not an Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an Ethernet address is six bytes like 02:00:00:00:00:01")]
pub struct BadMac;

impl FromStr for MacAddr {
    type Err = BadMac;

    fn from_str(text: &str) -> Result<MacAddr, BadMac> {
        let mut mac = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut mac {
            let part = parts.next().filter(|p| p.len() == 2 && !p.starts_with('+')).ok_or(BadMac)?;
            *byte = u8::from_str_radix(part, 16).map_err(|_| BadMac)?;
        }
        if parts.next().is_none() { Ok(MacAddr(mac)) } else { Err(BadMac) }
    }
}

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
    fn addresses_are_parsed_and_printed() {
        let mac: MacAddr = "02:00:0a:ff:00:01".parse().unwrap();
        assert_eq!(mac, MacAddr([2, 0, 10, 255, 0, 1]));
        assert_eq!(mac.to_string(), "02:00:0a:ff:00:01");
        for bad in
            ["", "02:00:0a:ff:00", "02:00:0a:ff:00:01:02", "2:0:0:0:0:1", "02:00:0a:ff:00:0g", "+2:00:00:00:00:00"]
        {
            assert!(bad.parse::<MacAddr>().is_err(), "{bad}");
        }
    }

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
