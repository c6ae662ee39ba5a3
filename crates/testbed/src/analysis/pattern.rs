//! Copies that a switch makes of a frame: the copy patterns of Kawashima, "Software Physical/Virtual Rx Queue Mapping Toward
//! High-Performance Containerized Networking", IEEE TNSM 18 (2021), table III, and two more for a switch that also sends in
//! place.

use clap::ValueEnum;
use serde::Serialize;
use std::fmt;

/// Treatment of a frame's bytes between two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// They are copied.
    Copy,
    /// They stay where they are, and a descriptor says that they were copied: the receiver finds the previous bytes.
    Fake,
    /// They are where they belong already.
    Zero,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Copy => "copy",
            Way::Fake => "fake",
            Way::Zero => "zero",
        })
    }
}

/// A pattern: the copies from the NIC to the network function (Rx), and on the way back (Tx).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Rx copy, Tx copy
    A,
    /// Rx copy, Tx fake zero copy
    B,
    /// Rx fake zero copy, Tx copy
    C,
    /// Rx fake zero copy, Tx fake zero copy
    D,
    /// Rx zero copy, Tx copy
    E,
    /// Rx zero copy, Tx fake zero copy
    F,
    /// Rx zero copy, Tx zero copy, which the paper does not have: a mapping
    G,
    /// Rx copy, Tx zero copy
    H,
}

impl Pattern {
    /// Returns the treatment of frames for the network function.
    pub fn receive(self) -> Way {
        match self {
            Pattern::A | Pattern::B | Pattern::H => Way::Copy,
            Pattern::C | Pattern::D => Way::Fake,
            Pattern::E | Pattern::F | Pattern::G => Way::Zero,
        }
    }

    /// Returns the treatment of frames from the network function.
    pub fn transmit(self) -> Way {
        match self {
            Pattern::A | Pattern::C | Pattern::E => Way::Copy,
            Pattern::B | Pattern::D | Pattern::F => Way::Fake,
            Pattern::G | Pattern::H => Way::Zero,
        }
    }

    /// Reports whether all frames arrive as they were sent.
    pub fn is_sound(self) -> bool {
        self.receive() != Way::Fake && self.transmit() != Way::Fake
    }

    /// Returns its letter.
    pub fn letter(self) -> char {
        (b'a' + self as u8).into()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}) {}/{}", self.letter(), self.receive(), self.transmit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_the_paper() {
        let shown: Vec<String> = Pattern::value_variants()[..6].iter().map(Pattern::to_string).collect();
        let expected =
            ["(a) copy/copy", "(b) copy/fake", "(c) fake/copy", "(d) fake/fake", "(e) zero/copy", "(f) zero/fake"];
        assert_eq!(shown, expected);
        let sound: String =
            Pattern::value_variants().iter().filter(|pattern| pattern.is_sound()).map(|p| p.letter()).collect();
        assert_eq!(sound, "aegh");
    }
}
