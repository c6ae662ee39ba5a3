//! A MAC address.

use std::fmt;
use std::str::FromStr;

/// A MAC address, its bytes in the order in which they are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The address of all stations.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// Reports whether it stands for a group of stations, or for all.
    #[inline(always)]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Reports whether it is one station's: no group, not all zeros.
    pub fn is_unicast(self) -> bool {
        !self.is_group() && self.0 != [0; 6]
    }

    /// Derives a locally administered address from `name` alone, so that it survives a restart.
    pub fn from_name(name: &str) -> MacAddr {
        // FNV-1a, 64 bits: spreads short names well, and is the same on every machine.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        let [_, _, _, a, b, c, d, e] = hash.to_be_bytes();
        MacAddr([0x02, a, b, c, d, e])
    }
}

impl From<[u8; 6]> for MacAddr {
    #[inline(always)]
    fn from(bytes: [u8; 6]) -> MacAddr {
        MacAddr(bytes)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Error: a text is not a MAC address. Its message says how to write one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseMacAddrError;

impl fmt::Display for ParseMacAddrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write six pairs of hexadecimal digits: \"02:00:00:00:00:01\"")
    }
}

impl std::error::Error for ParseMacAddrError {}

impl FromStr for MacAddr {
    type Err = ParseMacAddrError;

    fn from_str(text: &str) -> Result<MacAddr, ParseMacAddrError> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or(ParseMacAddrError)?;
            // from_str_radix would accept a sign.
            if !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(ParseMacAddrError);
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| ParseMacAddrError)?;
        }
        if parts.next().is_some() { Err(ParseMacAddrError) } else { Ok(MacAddr(bytes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mac_addresses_are_read_strictly() {
        assert_eq!("02:00:00:00:00:fF".parse(), Ok(MacAddr([2, 0, 0, 0, 0, 255])));
        for bad in
            ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "2:0:0:0:0:1", "02-00-00-00-00-01", "+2:00:00:00:00:01"]
        {
            assert_eq!(bad.parse::<MacAddr>(), Err(ParseMacAddrError), "{bad}");
        }
    }

    #[test]
    fn groups_and_zeros_are_no_single_station() {
        let station = MacAddr([2, 0, 0, 0, 0, 1]);
        assert!(station.is_unicast() && !station.is_group());
        assert!(MacAddr::BROADCAST.is_group() && !MacAddr::BROADCAST.is_unicast());
        assert!(!MacAddr::default().is_unicast());
    }

    #[test]
    fn made_up_addresses_are_usable_and_differ() {
        let (a, b) = (MacAddr::from_name("a"), MacAddr::from_name("b"));
        assert!(a.is_unicast() && a.0[0] & 2 == 2 && a != b);
    }

    proptest! {
        #[test]
        fn a_shown_address_is_read_as_itself(bytes: [u8; 6]) {
            prop_assert_eq!(MacAddr(bytes).to_string().parse(), Ok(MacAddr(bytes)));
        }
    }
}
