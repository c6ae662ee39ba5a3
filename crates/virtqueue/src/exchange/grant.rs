//! The file by which a function learns where the group's buffers lie, and which of them it has.

use super::geometry::Geometry;
use super::group::Seat;

/// "MRXG", and the version of all this.
const MAGIC: u32 = u32::from_le_bytes(*b"MRXG");
const VERSION: u32 = 1;

/// Bytes before the numbers of buffers.
const HEADER: usize = 48;

/// The share of a group that a function gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Where the buffers lie in the group's memory.
    pub geometry: Geometry,
    /// The numbers of the function's own buffers.
    pub buffers: Vec<u16>,
}

impl Grant {
    /// Returns the grant of a seat whose queues do not run yet.
    pub fn of(seat: &Seat) -> Grant {
        Grant { geometry: seat.group().options().geometry, buffers: seat.buffers() }
    }

    /// Returns the content of the file (docs/exchange.md).
    pub fn encode(&self) -> Vec<u8> {
        let Grant { geometry, buffers } = self;
        let mut file = Vec::with_capacity(HEADER + 2 * buffers.len());
        let words = [MAGIC, VERSION, geometry.count().into(), geometry.size(), geometry.room(), geometry.headroom()];
        words.iter().for_each(|word| file.extend(word.to_le_bytes()));
        [geometry.offset(0), geometry.stride(), buffers.len() as u64]
            .iter()
            .for_each(|word| file.extend(word.to_le_bytes()));
        buffers.iter().for_each(|number| file.extend(number.to_le_bytes()));
        file
    }

    /// Reads the content of the file. `None` if it is of another version, or contradicts itself.
    pub fn decode(file: &[u8]) -> Option<Grant> {
        let word = |at: usize| file.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let geometry = Geometry::new(u16::try_from(word(8)?).ok()?, word(12)?)?;
        let numbers = file.get(HEADER..)?.as_chunks::<2>().0;
        let buffers: Vec<u16> = numbers.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
        let mut seen = vec![false; geometry.count().into()];
        let mut is_new =
            |number: &u16| seen.get_mut(usize::from(*number)).is_some_and(|seen| !std::mem::replace(seen, true));
        let is_valid = buffers.iter().all(&mut is_new);
        let grant = Grant { geometry, buffers };
        (is_valid && grant.encode() == file).then_some(grant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 5 } else { 300 }, failure_persistence: None, ..Default::default() })]

        #[test]
        fn a_file_is_read_as_it_was_written(count in 1..500u16, size in 0..65_536u32, step in 1..9usize, at: u16, bits in 1u8..) {
            let grant = Grant { geometry: Geometry::new(count, size).unwrap(), buffers: (0..count).rev().step_by(step).collect() };
            let mut file = grant.encode();
            prop_assert_eq!(Grant::decode(&file), Some(grant.clone()));
            prop_assert_eq!(Grant::decode(&file[..file.len() - 1]), None);
            let at = usize::from(at) % file.len();
            file[at] ^= bits;
            // A grant that is read names buffers that exist, each once.
            if let Some(other) = Grant::decode(&file) {
                let mut buffers = other.buffers.clone();
                buffers.sort_unstable();
                buffers.dedup();
                prop_assert!(other != grant && buffers.len() == other.buffers.len());
                prop_assert!(buffers.iter().all(|buffer| *buffer < other.geometry.count()));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(file in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(Grant::decode(&file), None);
        }
    }
}
