//! Cost of each copy: all patterns in turn, over frame sizes.

use super::bench::Measuring;
use super::error::AnalyseError;
use super::findings::{Findings, Point};
use super::measure::{self, Plan};
use super::pattern::Pattern;
use super::setup::Setup;
use crate::draw::{self, Line, Lines};
use crate::ring_format::RingFormat;
use clap::Args;
use loadgen::load::{MAX_SIZE, MIN_SIZE, TouchLevel};
use loadgen::wire::queue_sizes;
use vhost_user::frontend::QueueSizes;

/// Which patterns, under which conditions.
#[derive(Clone, Debug, Args)]
pub struct Patterns {
    /// Copies that the switch makes: (a) to (f) are the patterns of the paper's table III, (g) and (h) also send in place
    #[arg(long, value_enum, value_delimiter = ',', default_value = "a,b,c,d,e,f,g")]
    pub pattern: Vec<Pattern>,
    /// Ring formats
    #[arg(long, value_enum, value_delimiter = ',', default_value = "split,packed")]
    pub ring: Vec<RingFormat>,
    /// Bytes of a frame, without its checksum
    #[arg(long, value_delimiter = ',', default_value = "64,128,256,512,1024,1280,1514",
          value_parser = clap::value_parser!(u16).range(i64::from(MIN_SIZE)..=i64::from(MAX_SIZE)))]
    pub size: Vec<u16>,
    /// Part of every frame that the network function touches, and the NIC reads. It does not compare returned frames
    /// by a pattern with fakes
    #[arg(long, value_enum, default_value_t = TouchLevel::Header)]
    pub touch: TouchLevel,
    /// Descriptors of the rings between NIC and switch
    #[arg(long, value_name = "RX[:TX]", default_value = "256", value_parser = queue_sizes)]
    pub physical: QueueSizes,
    /// Descriptors of the rings between switch and network function
    #[arg(long, value_name = "RX[:TX]", default_value = "256", value_parser = queue_sizes)]
    pub r#virtual: QueueSizes,
    #[command(flatten)]
    pub measuring: Measuring,
}

/// Measures, and writes the findings.
pub fn run(patterns: &Patterns) -> Result<(), AnalyseError> {
    let columns = patterns.pattern.iter().map(Pattern::to_string).collect();
    let mut findings = measure::begin("Copy patterns, as RX/TX", &patterns.measuring, columns)?;
    let outcome = measure::measure(&mut findings, &plans(patterns), &patterns.measuring);
    let pictures = [("chart.svg", chart(&findings, patterns)), ("formats.svg", formats(&findings, patterns))];
    measure::end(&findings, &patterns.measuring, "patterns", &pictures)?;
    outcome
}

/// Returns the rows, sizes first, then formats: those shown side by side are measured close together in time.
fn plans(patterns: &Patterns) -> Vec<Plan> {
    let Patterns { touch, physical, r#virtual: guest, .. } = *patterns;
    let mut plans = Vec::new();
    for &size in &patterns.size {
        for &ring in &patterns.ring {
            let setup = |&pattern: &Pattern| Setup { pattern, ring, size, touch, physical, guest };
            plans.push((format!("{size} B {ring}"), patterns.pattern.iter().map(setup).collect()));
        }
    }
    plans
}

/// Returns the rates of one pattern and format, for every measured size.
fn line(findings: &Findings, patterns: &Patterns, pattern: Pattern, ring: RingFormat, name: String) -> Line {
    let median = |size: u16| {
        let mut points = findings.rows.iter().flat_map(|row| &row.points);
        let setup = |point: &&Point| {
            let setup = &point.setup;
            (setup.pattern, setup.ring, setup.size) == (pattern, ring, size)
        };
        points.find(setup).map(|point| point.median(|sample| sample.mpps))
    };
    Line { name, values: patterns.size.iter().map(|&size| median(size)).collect() }
}

/// Draws all patterns, a panel per format.
fn chart(findings: &Findings, patterns: &Patterns) -> String {
    let panel = |&ring: &RingFormat| {
        let lines = patterns.pattern.iter().map(|p| line(findings, patterns, *p, ring, p.to_string()));
        (format!("{ring} rings"), lines.collect())
    };
    draw::svg(&Lines {
        title: "The cost of copies: frames through the switch and back, Mpps".into(),
        axis: "bytes of a frame".into(),
        marks: patterns.size.iter().map(u16::to_string).collect(),
        panels: patterns.ring.iter().map(panel).collect(),
        limits: Vec::new(),
        foot: findings.rig.to_string(),
    })
}

/// Draws the paper's figure 12: the formats side by side, with and without mapping, and the limits of links.
fn formats(findings: &Findings, patterns: &Patterns) -> String {
    let shown = [(Pattern::A, "copied"), (Pattern::E, "received in place"), (Pattern::G, "and sent in place")];
    let known = shown.into_iter().filter(|(pattern, _)| patterns.pattern.contains(pattern));
    let lines = known.flat_map(|(pattern, name)| {
        patterns.ring.iter().map(move |&ring| line(findings, patterns, pattern, ring, format!("{name}, {ring}")))
    });
    let limit = |gigabits: f64| {
        let rate = |&size: &u16| Some(gigabits * 1e3 / (8.0 * (f64::from(size.max(MIN_SIZE)) + ON_THE_LINE)));
        Line { name: format!("{gigabits} GbE"), values: patterns.size.iter().map(rate).collect() }
    };
    draw::svg(&Lines {
        title: "Ring formats: frames through the switch and back, Mpps".into(),
        axis: "bytes of a frame".into(),
        marks: patterns.size.iter().map(u16::to_string).collect(),
        panels: vec![(String::new(), lines.collect())],
        limits: [10.0, 40.0, 100.0].map(limit).into(),
        foot: findings.rig.to_string(),
    })
}

/// Bytes that a frame takes on a link beyond those counted here: preamble, gap and checksum (802.3 §3.1.1, §4.4.2).
const ON_THE_LINE: f64 = 24.0;
