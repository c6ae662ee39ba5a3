//! Contestants and conditions of a comparison.

use super::choices::{Forward, LoadKind, Peer};
use super::options::Compare;
use crate::ring_format::RingFormat;
use clap::ValueEnum;
use lab::{dpdk, ovs};
use loadgen::load::TouchLevel;
use std::fmt;

/// One of the two compared switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contestant {
    /// Millrace.
    Millrace(Forward),
    /// Another build of Millrace.
    Against(Forward),
    /// DPDK's testpmd.
    Testpmd,
    /// Open vSwitch with DPDK.
    Ovs,
}

impl Contestant {
    /// Returns the two contestants: without a peer named, one way of forwarding against testpmd.
    pub fn pair(forward: &[Forward], peer: Option<Peer>) -> Option<[Contestant; 2]> {
        match (forward, peer) {
            (&[only], None | Some(Peer::Testpmd)) => Some([Contestant::Millrace(only), Contestant::Testpmd]),
            (&[only], Some(Peer::Ovs)) => Some([Contestant::Millrace(only), Contestant::Ovs]),
            (&[only], Some(Peer::Millrace)) => Some([Contestant::Millrace(only), Contestant::Against(only)]),
            (&[a, b], None) => Some([Contestant::Millrace(a), Contestant::Millrace(b)]),
            _ => None,
        }
    }

    /// Reports whether it is a build of Millrace.
    pub fn is_millrace(self) -> bool {
        matches!(self, Contestant::Millrace(_) | Contestant::Against(_))
    }

    /// Returns the memory that its DPDK uses, in MiB.
    pub fn dpdk_megabytes(self) -> u64 {
        match self {
            Contestant::Millrace(_) | Contestant::Against(_) => 0,
            Contestant::Testpmd => dpdk::MEGABYTES,
            Contestant::Ovs => ovs::MEGABYTES,
        }
    }
}

impl Contestant {
    /// Returns its name in records.
    pub fn key(self) -> String {
        let forward = |forward: Forward| {
            let value = forward.to_possible_value();
            format!("millrace {}", value.as_ref().map_or("", |value| value.get_name()))
        };
        match self {
            Contestant::Millrace(way) => forward(way),
            Contestant::Against(way) => forward(way) + ", other build",
            Contestant::Testpmd => "testpmd".to_owned(),
            Contestant::Ovs => "ovs".to_owned(),
        }
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forward = |forward: &Forward| match forward {
            Forward::Patch => "Millrace patch",
            Forward::Bridge => "Millrace bridge",
            Forward::Map => "Millrace mapped",
            Forward::BridgeMap => "Millrace bridge mapped",
            Forward::Openflow => "Millrace flows",
            Forward::Exchange => "Millrace exchange",
            Forward::BridgeExchange => "Millrace bridge exchange",
        };
        match self {
            Contestant::Millrace(way) => f.write_str(forward(way)),
            Contestant::Against(way) => write!(f, "{}, other build", forward(way)),
            Contestant::Testpmd => f.write_str("testpmd"),
            Contestant::Ovs => f.write_str("OVS"),
        }
    }
}

/// The conditions of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Ring format of both ports.
    pub ring: RingFormat,
    /// Bytes of a frame.
    pub size: u16,
    /// How much of it the load touches.
    pub touch: TouchLevel,
    /// Functions of the load that frames pass from end to end, its ends included: two are joined directly.
    pub functions: u16,
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} B {}", self.ring, self.size, self.touch)?;
        if self.functions > 2 { write!(f, " {} functions", self.functions) } else { Ok(()) }
    }
}

impl Scenario {
    /// Returns all requested scenarios, those that touch less of a frame first. By default, payloads are touched at the longest size,
    /// where copies cost most.
    pub fn all(compare: &Compare) -> Vec<Scenario> {
        let sizes = compare.sizes();
        let longest = sizes.iter().max();
        let mut all = Vec::new();
        for &ring in &compare.ring {
            for &size in &sizes {
                let mut touches = match (&compare.touch[..], compare.load) {
                    (_, LoadKind::Testpmd) => vec![TouchLevel::None],
                    ([], _) if Some(&size) == longest && size >= LONG => vec![TouchLevel::Header, TouchLevel::Payload],
                    ([], _) => vec![TouchLevel::Header],
                    (given, _) => given.to_vec(),
                };
                touches.sort_by_key(|touch| *touch as u8);
                for touch in touches {
                    let chains = compare.functions.iter();
                    all.extend(chains.map(|&functions| Scenario { ring, size, touch, functions }));
                }
            }
        }
        all
    }
}

/// Frame size from which a payload is worth touching.
const LONG: u16 = 1500;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        compare: Compare,
    }

    fn scenarios(line: &[&str]) -> Vec<String> {
        let line = Line::try_parse_from([&["testbed"], line].concat()).unwrap();
        Scenario::all(&line.compare).iter().map(Scenario::to_string).collect()
    }

    #[test]
    fn the_product_is_complete() {
        assert_eq!(scenarios(&[]).len(), 8);
        assert_eq!(scenarios(&["--quick"]).len(), 6);
        let given = scenarios(&["--ring", "packed", "--size", "64,512", "--touch", "payload,none"]);
        assert_eq!(given, ["packed 64 B none", "packed 64 B payload", "packed 512 B none", "packed 512 B payload"]);
        let testpmd = scenarios(&["--load", "testpmd", "--ring", "split", "--size", "1518"]);
        assert_eq!(testpmd, ["split 1518 B none"]);
        let chains = scenarios(&["--ring", "split", "--size", "64", "--functions", "2,8"]);
        assert_eq!(chains, ["split 64 B header", "split 64 B header 8 functions"]);
    }

    #[test]
    fn millrace_runs_against_a_peer_or_itself() {
        let names = |forward: &[Forward], peer| Contestant::pair(forward, peer).unwrap().map(|c| c.to_string());
        assert_eq!(names(&[Forward::Patch], None), ["Millrace patch", "testpmd"]);
        assert_eq!(names(&[Forward::Bridge], Some(Peer::Testpmd)), ["Millrace bridge", "testpmd"]);
        assert_eq!(names(&[Forward::Map], Some(Peer::Ovs)), ["Millrace mapped", "OVS"]);
        assert_eq!(names(&[Forward::Bridge, Forward::Patch], None), ["Millrace bridge", "Millrace patch"]);
        assert_eq!(Contestant::Millrace(Forward::BridgeMap).key(), "millrace bridge-map");
        assert_eq!(Contestant::Against(Forward::Map).key(), "millrace map, other build");
        let builds = ["Millrace patch", "Millrace patch, other build"];
        assert_eq!(names(&[Forward::Patch], Some(Peer::Millrace)), builds);
        assert_eq!(Contestant::pair(&[Forward::Patch; 2], Some(Peer::Ovs)), None);
        assert_eq!(Contestant::pair(&[Forward::Patch; 3], None), None);
    }
}
