//! MAC addresses.

use std::fmt;
use std::str::FromStr;

/// A MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Reports whether it is one station's: no group, not all zeros.
    pub fn is_unicast(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }

    /// Derives a locally administered address from `name` alone, so that it survives a restart.
    pub fn from_name(name: &str) -> Self {
        // FNV-1a, 64 bits: spreads short names well, and is the same on every machine.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        let [_, _, _, a, b, c, d, e] = hash.to_be_bytes();
        Self([0x02, a, b, c, d, e])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "write six pairs of hexadecimal digits: \"02:00:00:00:00:01\"";
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or(FORM)?;
            // from_str_radix would accept a sign.
            if !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(FORM);
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| FORM)?;
        }
        if parts.next().is_some() { Err(FORM) } else { Ok(Self(bytes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_addresses_are_read_strictly() {
        assert_eq!("02:00:00:00:00:fF".parse(), Ok(Mac([2, 0, 0, 0, 0, 255])));
        for bad in
            ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "2:0:0:0:0:1", "02-00-00-00-00-01", "+2:00:00:00:00:01"]
        {
            assert!(bad.parse::<Mac>().is_err(), "{bad}");
        }
        assert!(!Mac([0xff; 6]).is_unicast());
        assert!(!Mac([0; 6]).is_unicast());
    }

    #[test]
    fn made_up_addresses_are_usable_and_differ() {
        let (a, b) = (Mac::from_name("a"), Mac::from_name("b"));
        assert!(a.is_unicast() && a.0[0] & 2 == 2 && a != b);
    }
}
