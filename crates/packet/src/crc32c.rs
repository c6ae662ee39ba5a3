//! CRC-32C, the checksum of SCTP (RFC 9260 appendix A): computed over parts ([`Crc`]), or updated after a change of the bytes
//! that it covers ([`change`]).
//!
//! Without its initial value and its last inversion, the checksum is linear: it changes by the remainder of the difference,
//! times as many powers of x as there are bits after it.

/// The polynomial; the bit of the highest power is the lowest one.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The polynomial 1, and x to the power of 8.
const ONE: u32 = 1 << 31;
const BYTE: u32 = 1 << 23;

const fn times_x(polynomial: u32) -> u32 {
    if polynomial & 1 == 0 { polynomial >> 1 } else { polynomial >> 1 ^ POLYNOMIAL }
}

fn product(a: u32, mut b: u32) -> u32 {
    (0..32).fold(0, |product, power| {
        let part = if a & ONE >> power == 0 { 0 } else { b };
        b = times_x(b);
        product ^ part
    })
}

/// The remainders of all bytes.
static REMAINDERS: [u32; 256] = {
    let mut remainders = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut remainder, mut bit) = (byte as u32, 0);
        while bit < 8 {
            remainder = times_x(remainder);
            bit += 1;
        }
        remainders[byte] = remainder;
        byte += 1;
    }
    remainders
};

/// The checksum of the parts so far.
#[derive(Clone, Copy, Debug)]
pub struct Crc(u32);

impl Default for Crc {
    fn default() -> Crc {
        Crc::new()
    }
}

impl Crc {
    /// Returns the checksum of nothing.
    pub const fn new() -> Crc {
        Crc(!0)
    }

    /// Adds the next bytes on the wire.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |crc, byte| REMAINDERS[usize::from(crc as u8 ^ byte)] ^ crc >> 8);
    }

    /// Returns the checksum: a number whose lowest byte is sent first.
    pub const fn finish(self) -> u32 {
        !self.0
    }
}

/// Returns the bits of the checksum that change with these bytes, which `after` others follow: those of a number whose lowest byte is sent
/// first.
pub fn change(old: &[u8], new: &[u8], after: usize) -> u32 {
    let remainder = old.iter().zip(new).fold(0, |remainder, (old, new)| {
        (0..8).fold(remainder ^ u32::from(old ^ new), |remainder, _| times_x(remainder))
    });
    let (mut shift, mut power, mut left) = (ONE, BYTE, after);
    while left != 0 {
        if left & 1 != 0 {
            shift = product(shift, power);
        }
        (power, left) = (product(power, power), left >> 1);
    }
    product(remainder, shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the checksum bit by bit.
    fn crc32c(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| times_x(crc)))
    }

    #[test]
    fn a_change_is_that_of_the_whole() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283, "the check value of this polynomial");
        let mut crc = Crc::new();
        [&b"1234"[..], b"", b"56789"].iter().for_each(|part| crc.add(part));
        assert_eq!(crc.finish(), 0xe306_9283);
        let mut bytes: Vec<u8> = (0..1500u32).map(|at| (at * 91) as u8).collect();
        for (at, len) in [(0, 4), (0, 2), (2, 2), (700, 4), (1496, 4)] {
            let (before, old) = (crc32c(&bytes), bytes[at..at + len].to_vec());
            bytes[at..at + len].iter_mut().for_each(|byte| *byte = byte.wrapping_mul(7) ^ 0x5a);
            let after = bytes.len() - at - len;
            assert_eq!(before ^ change(&old, &bytes[at..at + len], after), crc32c(&bytes), "{len} bytes at {at}");
        }
        assert_eq!(change(&[1, 2], &[1, 2], 9), 0);
    }
}
