//! A model of a learning bridge between two guests: the addresses that it knows after the frames sent through it.

use super::fate::{Fate, Side};
use super::headers::addresses;
use packet::MacAddr;
use std::collections::HashMap;

/// The addresses that bridges keep to themselves (IEEE 802.1Q-2022 table 8-1), without their last four bits.
const RESERVED: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0];

/// The stations behind two guests.
///
/// A capture has both directions of its conversations. Each frame is sent by the guest that its destination is not behind, so that the
/// bridge carries all of them: stations move from one guest to the other as it needs.
#[derive(Debug, Default)]
pub struct Stations(HashMap<MacAddr, Station>);

#[derive(Debug)]
struct Station {
    /// The guest that it was last seen behind.
    behind: Side,
    /// Whether it was behind the other one before.
    moved: bool,
}

impl Stations {
    /// Returns the guest that has to send a frame.
    pub fn side(&self, frame: &[u8]) -> Side {
        let destination = addresses(frame).and_then(|[destination, _]| self.0.get(&destination));
        destination.map_or(0, |station| 1 - station.behind)
    }

    /// Notes that a guest sends a frame, and returns the frame's fate.
    pub fn send(&mut self, from: Side, frame: &[u8]) -> Fate {
        let Some([destination, source]) = addresses(frame) else { return Fate::Carried };
        if !source.is_group() {
            let station = self.0.entry(source).or_insert(Station { behind: from, moved: false });
            station.moved |= station.behind != from;
            station.behind = from;
        }
        if destination.is_group() {
            let [first @ .., last] = destination.0;
            return if first == RESERVED[..5] && last < 0x10 { Fate::Dropped("reserved") } else { Fate::Carried };
        }
        match self.0.get(&destination) {
            Some(station) if station.behind == from => Fate::Either("hairpin"),
            // The bridge learns from a later frame if it is busy with its table, which it sweeps now and then.
            Some(station) if station.moved => Fate::Either("hairpin"),
            _ => Fate::Carried,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESERVED_GROUP: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0x0e];

    fn station(number: u8) -> [u8; 6] {
        [2, 0, 0, 0, 0, number]
    }

    /// Sends a frame from the guest that has to, and returns the guest and the frame's fate.
    fn send(stations: &mut Stations, source: [u8; 6], destination: [u8; 6]) -> (Side, Fate) {
        let frame = [destination, source].concat();
        let side = stations.side(&frame);
        (side, stations.send(side, &frame))
    }

    #[test]
    fn conversations_go_to_and_fro_and_stations_move_if_they_have_to() {
        let mut stations = Stations::default();
        let [a, b, c] = [1, 2, 3].map(station);
        assert_eq!(send(&mut stations, a, b), (0, Fate::Carried));
        assert_eq!(send(&mut stations, b, a), (1, Fate::Carried));
        assert_eq!(send(&mut stations, a, b), (0, Fate::Carried));
        assert_eq!(send(&mut stations, c, b), (0, Fate::Carried));
        // Both are behind the same guest: one moves.
        assert_eq!(send(&mut stations, a, c), (1, Fate::Carried));
        assert_eq!(send(&mut stations, b, a), (0, Fate::Either("hairpin")));
    }

    #[test]
    fn groups_are_flooded_but_for_reserved_ones() {
        let mut stations = Stations::default();
        let broadcast = [0xff; 6];
        assert_eq!(send(&mut stations, station(1), broadcast), (0, Fate::Carried));
        assert_eq!(send(&mut stations, station(1), RESERVED_GROUP), (0, Fate::Dropped("reserved")));
        let [first @ .., _] = RESERVED_GROUP;
        let [a, b, c, d, e] = first;
        assert_eq!(send(&mut stations, station(1), [a, b, c, d, e, 0x10]), (0, Fate::Carried));
        // A group is no source: nothing is learned.
        assert_eq!(send(&mut stations, broadcast, station(9)), (0, Fate::Carried));
        assert_eq!(send(&mut stations, station(9), station(9)), (0, Fate::Either("hairpin")));
    }

    #[test]
    fn frames_too_short_for_addresses_go_anywhere() {
        let mut stations = Stations::default();
        assert_eq!((stations.side(&[1; 11]), stations.send(0, &[1; 11])), (0, Fate::Carried));
    }
}
