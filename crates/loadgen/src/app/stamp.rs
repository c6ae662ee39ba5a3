//! The stamp of each packet, at the start of its payload: 22 bytes, so that it fits into a frame of 64 bytes. All numbers are
//! little-endian.
//!
//! ```text
//!  0        8        16       17      18     20     22
//!  +--------+--------+--------+-------+------+------+-----------
//!  | number | time   | phase  | flow  | mark | sum  | payload ...
//!  +--------+--------+--------+-------+------+------+-----------
//! ```
//!
//! - `number`: packets of a flow are numbered from 0, in all phases.
//! - `time`: the sender's cycle counter at sending.
//! - `phase`: 0 warm-up, 1 measured, 2 cool-down. The sender alone decides which packets count, so that both ends of a pair count
//!   the same ones, on any machine.
//! - `flow`: the sender's number.
//! - `mark`: 0x4d52, which tells these packets from others.
//! - `sum`: the sum of all bytes after the stamp, modulo 2^16, if the sender fills payloads; else 0.

/// Bytes of a stamp.
pub const SIZE: usize = 22;

/// Shortest frame with a stamp, in bytes without the checksum.
pub const SHORTEST: u16 = (crate::endpoint::HEADERS + SIZE) as u16;

const MARK: u16 = 0x4d52;

/// Part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Before the measured seconds.
    WarmUp = 0,
    /// The measured seconds.
    Measured = 1,
    /// After the measured seconds.
    CoolDown = 2,
}

/// Identification of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Number in its flow, counted from 0.
    pub number: u64,
    /// The sender's cycle counter at sending.
    pub time: u64,
    /// Part of the run.
    pub phase: Phase,
    /// The sender's number.
    pub flow: u8,
    /// Sum of the bytes after the stamp.
    pub sum: u16,
}

impl Stamp {
    /// Writes the stamp to the start of a payload of at least [`SIZE`] bytes.
    #[inline(always)]
    pub fn write(&self, payload: &mut [u8]) {
        payload[..8].copy_from_slice(&self.number.to_le_bytes());
        payload[8..16].copy_from_slice(&self.time.to_le_bytes());
        payload[16] = self.phase as u8;
        payload[17] = self.flow;
        payload[18..20].copy_from_slice(&MARK.to_le_bytes());
        payload[20..22].copy_from_slice(&self.sum.to_le_bytes());
    }

    /// Reads the stamp of a payload; `None` if it has none.
    #[inline(always)]
    pub fn read(payload: &[u8]) -> Option<Stamp> {
        let bytes: &[u8; SIZE] = payload.first_chunk()?;
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let phase = match bytes[16] {
            0 => Phase::WarmUp,
            1 => Phase::Measured,
            2 => Phase::CoolDown,
            _ => return None,
        };
        let stamp = Stamp { number: word(0), time: word(8), phase, flow: bytes[17], sum: short(20) };
        (short(18) == MARK).then_some(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let stamp = Stamp { number: 7, time: u64::MAX - 1, phase: Phase::CoolDown, flow: 4, sum: 0xfffe };
        let mut payload = [0xaa; 30];
        stamp.write(&mut payload);
        assert_eq!(Stamp::read(&payload), Some(stamp));
        assert_eq!(payload[SIZE..], [0xaa; 30 - SIZE]);
        assert_eq!(Stamp::read(&payload[..SIZE - 1]), None);
        payload[18] ^= 1;
        assert_eq!(Stamp::read(&payload), None);
    }
}
