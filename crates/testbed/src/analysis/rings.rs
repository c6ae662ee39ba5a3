//! Effect of ring sizes: the grid of the paper's table II, and its figure 9.

use super::bench::Measuring;
use super::error::AnalyseError;
use super::findings::Findings;
use super::heat::{self, Heat, Panel};
use super::measure::{self, Plan};
use super::pattern::Pattern;
use super::setup::Setup;
use crate::ring_format::RingFormat;
use clap::Args;
use loadgen::load::{MAX_SIZE, MIN_SIZE, TouchLevel, power_of_two};
use loadgen::wire::queue_sizes;
use vhost_user::frontend::QueueSizes;

/// Which rings, under which conditions. The paper's table II has 64 to 8192 descriptors for physical and 64 to 16384 for
/// virtual receive rings, and 256, 1024 and 4096 for either transmit ring.
#[derive(Clone, Debug, Args)]
pub struct Rings {
    /// Descriptors of the ring that the NIC fills
    #[arg(long, value_delimiter = ',', default_value = "64,256,1024,4096", value_parser = power_of_two)]
    pub physical: Vec<u16>,
    /// Descriptors of the ring that the network function receives from
    #[arg(long, value_delimiter = ',', default_value = "64,256,1024,4096,16384", value_parser = power_of_two)]
    pub r#virtual: Vec<u16>,
    /// Descriptors of the transmit rings: of the one to the NIC, and of the one that the network function sends to
    #[arg(long, value_name = "PHYSICAL:VIRTUAL", value_delimiter = ',', default_value = "256:256,256:1024,1024:256",
          value_parser = queue_sizes)]
    pub transmit: Vec<QueueSizes>,
    /// Copy patterns that are compared
    #[arg(long, value_enum, value_delimiter = ',', default_value = "a,e")]
    pub pattern: Vec<Pattern>,
    /// Ring format
    #[arg(long, value_enum, default_value_t = RingFormat::Split)]
    pub ring: RingFormat,
    /// Bytes of a frame, without its checksum
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(i64::from(MIN_SIZE)..=i64::from(MAX_SIZE)))]
    pub size: u16,
    /// Part of every frame that the network function touches, and the NIC reads
    #[arg(long, value_enum, default_value_t = TouchLevel::Header)]
    pub touch: TouchLevel,
    #[command(flatten)]
    pub measuring: Measuring,
}

/// Measures, and writes the findings.
pub fn run(rings: &Rings) -> Result<(), AnalyseError> {
    let columns = columns(rings).map(|(pattern, physical)| format!("({}) {physical}", pattern.letter())).collect();
    let title = format!("Receive rings: physical across, virtual down, {} B, {}", rings.size, rings.ring);
    let mut findings = measure::begin(&title, &rings.measuring, columns)?;
    let outcome = measure::measure(&mut findings, &plans(rings), &rings.measuring);
    measure::end(&findings, &rings.measuring, "rings", &[("chart.svg", chart(&findings, rings))])?;
    outcome
}

fn columns(rings: &Rings) -> impl Iterator<Item = (Pattern, u16)> {
    rings.physical.iter().flat_map(|&physical| rings.pattern.iter().map(move |&pattern| (pattern, physical)))
}

fn plans(rings: &Rings) -> Vec<Plan> {
    let &Rings { ring, size, touch, .. } = rings;
    let mut plans = Vec::new();
    for transmit in &rings.transmit {
        for &receive in &rings.r#virtual {
            let setup = |(pattern, physical)| Setup {
                pattern,
                ring,
                size,
                touch,
                // Named as in the option: "receive" is the physical one.
                physical: QueueSizes { receive: physical, transmit: transmit.receive },
                guest: QueueSizes { receive, transmit: transmit.transmit },
            };
            let label = format!("tx {} {receive}", super::setup::sizes(*transmit));
            plans.push((label, columns(rings).map(setup).collect()));
        }
    }
    plans
}

/// Draws the paper's figure 9: a panel for each pattern and each pair of transmit rings.
fn chart(findings: &Findings, rings: &Rings) -> String {
    let value = |setup: Setup| {
        let mut points = findings.rows.iter().flat_map(|row| &row.points);
        points.find(|point| point.setup == setup).map(|point| point.median(|sample| sample.mpps))
    };
    let all: Vec<Setup> = plans(rings).into_iter().flat_map(|(_, setups)| setups).collect();
    let panel = |transmit: &QueueSizes, pattern: Pattern| {
        let of = |setup: &&Setup| {
            setup.pattern == pattern
                && (setup.physical.transmit, setup.guest.transmit) == (transmit.receive, transmit.transmit)
        };
        let row = |receive: u16| {
            let row = all.iter().filter(of).filter(move |setup| setup.guest.receive == receive);
            row.map(|&setup| value(setup)).collect()
        };
        Panel {
            title: format!("{pattern}, transmit rings {}", super::setup::sizes(*transmit)),
            fields: rings.r#virtual.iter().map(|&receive| row(receive)).collect(),
        }
    };
    heat::svg(&Heat {
        title: format!("Receive rings, frames of {} B, {}: Mpps through the switch and back", rings.size, rings.ring),
        axes: ["physical receive ring".into(), "virtual receive ring".into()],
        columns: rings.physical.iter().map(u16::to_string).collect(),
        rows: rings.r#virtual.iter().map(u16::to_string).collect(),
        panels: rings.transmit.iter().map(|tx| rings.pattern.iter().map(|&p| panel(tx, p)).collect()).collect(),
        foot: findings.rig.to_string(),
    })
}
