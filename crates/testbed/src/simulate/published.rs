//! Results of the paper's simulation (PA-Flow Section 6.2, tables 4 and 5), for comparison.

use super::topology::Kind;

/// Packets on a link without aggregation and with it.
pub struct Published {
    pub link: &'static str,
    pub without: u64,
    pub with: u64,
    /// Bytes of a frame on average, with aggregation.
    pub bytes: f64,
}

/// Returns the paper's figures of a topology.
pub fn of(topology: Kind) -> &'static [Published] {
    match topology {
        Kind::Converging => &[
            Published { link: "A-1", without: 1_571_032, with: 532_496, bytes: 223.17 },
            Published { link: "1-i", without: 3_131_644, with: 116_744 + 699_264, bytes: 276.43 },
            Published {
                link: "i-sink",
                without: 4_865_252,
                with: 10_240 + 10_848 + 21_068 + 395_988 + 2_452,
                bytes: 897.63,
            },
        ],
        Kind::Branching => &[
            Published { link: "A-1", without: 1_282_443, with: 2_761 + 426_868 + 216, bytes: 225.10 },
            Published { link: "1-i", without: 1_283_147, with: 3_822 + 425_992 + 230, bytes: 225.01 },
            Published { link: "i-sink", without: 3_849_441, with: 2_366 + 2_873 + 939_935 + 503 + 31, bytes: 290.39 },
        ],
        Kind::One | Kind::Tree(_) => &[],
    }
}

/// Frames saved on link (i)-(sink), in percent, as its text has them.
pub const SAID: [(Kind, u32); 2] = [(Kind::Converging, 93), (Kind::Branching, 75)];

impl Published {
    /// Returns the savings by the counts of the table, in percent.
    pub fn saved_percent(&self) -> f64 {
        100.0 * (1.0 - self.with as f64 / self.without as f64)
    }

    /// Returns the packets that the frames with aggregation held, by their mean length: 46 bytes and 60 for each packet.
    pub fn carried(&self) -> f64 {
        (self.bytes - 46.0) / 60.0 * self.with as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_and_the_text_differ_and_the_lengths_say_why() {
        let last = |topology| of(topology).last().unwrap();
        let [one, two] = [Kind::Converging, Kind::Branching].map(last);
        assert_eq!([one, two].map(|link| (10.0 * link.saved_percent()).round()), [909.0, 754.0]);
        // By the lengths, link (i)-(sink) carried twice as much as (1)-(i), and more than it did without aggregation.
        let carried = one.carried();
        assert!((carried / (2.0 * 3_131_644.0) - 1.0).abs() < 0.005, "{carried}");
        assert_eq!((100.0 * (1.0 - one.with as f64 / carried)).round(), 93.0);
        // All other links carried as much as without.
        for link in of(Kind::Converging)[..2].iter().chain(of(Kind::Branching)) {
            assert!((link.carried() / link.without as f64 - 1.0).abs() < 0.01, "{}", link.link);
        }
    }
}
