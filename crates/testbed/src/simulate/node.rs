//! Kinds of nodes and their parameters: those of the paper, and those of Millrace as this project has measured them.

use clap::ValueEnum;
use serde::Serialize;
use std::fmt;

/// A kind of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Node {
    /// The paper's: the input rate decides how many packets are joined
    Paper,
    /// Millrace with shared rings between the nodes
    Rings,
    /// Millrace with AF_PACKET over cables of the kernel
    AfPacket,
    /// Millrace with AF_XDP, copy mode, over cables of the kernel
    AfXdp,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Node::Paper => "paper",
            Node::Rings => "rings",
            Node::AfPacket => "af_packet",
            Node::AfXdp => "af_xdp",
        })
    }
}

/// Packets a second, and frames in percent of packets: PA-Flow Table 2, traffic at equal distances.
const RATIOS: [(f64, f64); 6] = [(1e5, 48.2), (1e6, 27.2), (2e6, 25.6), (4e6, 16.4), (6e6, 6.5), (8e6, 6.2)];

/// Greatest output of the paper's node without aggregation: what PA-Flow Table 3 has left of 5 M packets a second in 30 s.
const OUTPUT: f64 = (150e6 - 3450e3) / 30.0;

/// How much more its node with aggregation gets through (PA-Flow Section 6.1.1, PA-Flow-vhost at 64 bytes).
const GAIN: f64 = 2.5;

/// Cycles that were measured at 2.6 GHz with packets of 64 bytes (docs/measured/aggregation.md).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    /// Of a packet that comes alone: `aggregation ratio`, 0.1 M a second, smooth.
    alone: f64,
    /// Of a packet of 32 in a row, which leave in two frames: `aggregation ratio`, 2 M a second.
    train: f64,
    /// Of a frame that is sent, with 32 in a round: `aggregation throughput`, node A, placement `none`.
    sent: f64,
    /// Of a packet that node B receives alone, and of one of 16 in a frame: `aggregation throughput`.
    received: [f64; 2],
}

const RINGS: Measured = Measured { alone: 1843.0, train: 219.0, sent: 89.0, received: [534.0, 331.0] };
const AF_PACKET: Measured = Measured { alone: 4597.0, train: 383.0, sent: 1866.0, received: [678.0, 349.0] };
const AF_XDP: Measured = Measured { alone: 4026.0, train: 376.0, sent: 1548.0, received: [1525.0, 356.0] };
const GHZ: f64 = 2.6;

/// Packets that a worker takes at once.
const BURST: f64 = packet::MAX_BURST as f64;

/// Cycles of a worker, by their purpose.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Terms {
    round: f64,
    packet: f64,
    /// A frame that is sent.
    frame: f64,
    /// A frame that is received, beyond what it takes over rings, by which the measured packets came.
    received: f64,
}

impl Measured {
    /// Solves: alone = round + frame + packet; 32 train = round + 2 frame + 32 packet; sent = round / 32 + frame.
    fn terms(self) -> Terms {
        let Measured { alone, train, sent, .. } = self;
        let round = (BURST * (alone - train) - (BURST - 2.0) * sent) / (BURST - 2.0 + 2.0 / BURST);
        let frame = sent - round / BURST;
        let of_frame = |[one, joined]: [f64; 2]| (one - joined) * 16.0 / 15.0;
        let received = (of_frame(self.received) - of_frame(RINGS.received)).max(0.0);
        Terms { round, frame, packet: alone - round - frame, received }
    }
}

impl Node {
    /// Returns the lines of a scenario with its parameters.
    pub fn lines(self, aggregate: bool) -> String {
        let measured = match self {
            Node::Paper => return paper(aggregate),
            Node::Rings => RINGS,
            Node::AfPacket => AF_PACKET,
            Node::AfXdp => AF_XDP,
        };
        let Terms { round, packet, frame, received } = measured.terms();
        let outer = packet::header_len::ETHERNET + packet::header_len::IPV4 + packet::header_len::UDP;
        format!(
            "model millrace\nghz {GHZ}\ncycles-round {round:.0}\ncycles-packet {packet:.0}\ncycles-frame {frame:.0}\n\
             cycles-received {received:.0}\nburst {BURST}\noverhead {}\nentry {}\nalign 2\nlargest {}\n",
            outer + paflow::header::HEADER_LEN,
            paflow::header::LENGTH_LEN,
            MTU + packet::header_len::ETHERNET,
        )
    }
}

/// The paper's MTU, and this project's default.
const MTU: usize = 1500;

/// The format is the one whose means tables 4 and 5 have: 46 bytes, and 60 a packet, which is 64 without its checksum.
fn paper(aggregate: bool) -> String {
    let ratios: String = RATIOS.iter().map(|(pps, percent)| format!("ratio {pps} {}\n", percent / 100.0)).collect();
    let output = if aggregate { GAIN * OUTPUT } else { OUTPUT };
    format!(
        "model paper\noverhead 46\nentry 0\nalign 1\ntrailer 4\nlargest {}\nwindow-us 10000\noutput-pps {output}\n{ratios}",
        MTU + packet::header_len::ETHERNET
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::path::Path;

    fn figures(of: &str) -> Vec<Value> {
        let path = format!("../../bench/results/2026-11-21-aggregation-{of}/results.json");
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["figures"].as_array().unwrap().clone()
    }

    #[test]
    fn parameters_are_those_that_were_measured() {
        for (path, measured) in [("rings", RINGS), ("af_packet", AF_PACKET), ("af_xdp", AF_XDP)] {
            let ratio = figures("ratio");
            let cycles = |train: u64, rate: f64| {
                let is = |row: &&Value| row["path"] == path && row["in_a_row"] == train && row["sent_mpps"] == rate;
                ratio.iter().find(is).unwrap()["cycles"].as_f64().unwrap()
            };
            let throughput = figures("throughput");
            let row = throughput.iter().find(|row| row["path"] == path && row["bytes"] == 64).unwrap();
            let of = |node: &str, placement: &str| row[node][placement].as_f64().unwrap();
            let found = Measured {
                alone: cycles(1, 0.1),
                train: cycles(32, 2.0),
                sent: of("cycles_a", "none"),
                received: [of("cycles_b", "none"), of("cycles_b", "vhost")],
            };
            assert_eq!(measured, found, "{path}");
        }
    }

    #[test]
    fn terms_add_up_to_the_measurement() {
        for measured in [RINGS, AF_PACKET, AF_XDP] {
            let Terms { round, packet, frame, .. } = measured.terms();
            let near = |a: f64, b: f64| assert!((a - b).abs() < 0.01, "{a} {b}");
            near(round + frame + packet, measured.alone);
            near((round + 2.0 * frame) / 32.0 + packet, measured.train);
            near(round / 32.0 + frame, measured.sent);
            assert!(round > 0.0 && packet > 0.0 && frame > 0.0);
        }
    }

    #[test]
    fn a_frame_holds_as_many_packets_as_the_switch_puts_into_one() {
        let lines = Node::Rings.lines(true);
        assert!(lines.contains("overhead 46\nentry 2\nalign 2\nlargest 1514\n"), "{lines}");
        assert_eq!(paflow::header::entry_size(64), 66);
        assert!(Node::Paper.lines(false).contains("output-pps 4885000\n"));
    }
}
