//! The Internet checksum (RFC 1071).

/// Returns the checksum over `bytes`: the value to store if its field in `bytes` is zero; zero if a stored one is correct.
pub fn checksum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<2>();
    let sum: u64 = words.iter().map(|&word| u64::from(u16::from_be_bytes(word))).sum();
    !fold(sum + rest.first().map_or(0, |&last| u64::from(last) << 8))
}

/// Returns the checksum after one word that it covers changed from `old` to `new` (RFC 1624, equation 3).
pub fn update_checksum(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(checksum(&[0x01]), !0x0100);
    }

    #[test]
    fn the_example_of_rfc_1624() {
        assert_eq!(update_checksum(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn updating_is_as_good_as_computing() {
        let mut bytes: Vec<u8> = (0..40u8).map(|i| i.wrapping_mul(97)).collect();
        for value in [0u16, 1, 0x7fff, 0xfffe, 0xffff] {
            let before = checksum(&bytes);
            let old = super::super::word(&bytes, 8);
            bytes[8..10].copy_from_slice(&value.to_be_bytes());
            assert_eq!(update_checksum(before, old, value), checksum(&bytes), "{value:#x}");
        }
    }
}
