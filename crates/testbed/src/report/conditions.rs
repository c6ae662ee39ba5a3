//! The conditions of runs that a figure or a comparison holds fixed, in words and as the paper's tuple.

use crate::run::AppPlacement;
use crate::scenario::{Dimension, Location, OfferedRate, Point};
use loadgen::app::{Arrivals, Size, Touch};

/// The condition that varies along a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Millions of packets per second that each sender offers.
    Rate,
    /// Share of each switch's rate without loss, in percent.
    Share,
    /// Bytes of a frame.
    Size,
    /// Number of pairs.
    Pairs,
    /// Packets sent at once.
    Burst,
}

/// All parts of the tuple but the switch. A part that varies is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    dimension: Dimension,
    location: Location,
    pairs: Option<u8>,
    size: Option<Size>,
    /// The rate.
    pub rate: Option<OfferedRate>,
    burst: Option<u16>,
    arrivals: Arrivals,
    touch: Touch,
    placement: AppPlacement,
}

impl Axis {
    /// Returns where a point is along the axis.
    pub fn of(self, point: &Point) -> Option<f64> {
        match (self, point.rate, point.size) {
            (Axis::Rate, OfferedRate::PerSecond(rate), _) => Some(rate / 1e6),
            (Axis::Share, OfferedRate::OfNdr(percent), _) => Some(f64::from(percent)),
            (Axis::Size, _, Size::Bytes(bytes)) => Some(f64::from(bytes)),
            (Axis::Pairs, ..) => Some(f64::from(point.pairs)),
            (Axis::Burst, ..) => Some(f64::from(point.burst)),
            (Axis::Rate | Axis::Share | Axis::Size, ..) => None,
        }
    }
}

impl Conditions {
    /// Returns all conditions of a run.
    pub fn of(point: &Point, placement: AppPlacement) -> Conditions {
        Conditions {
            dimension: point.dimension,
            location: point.location,
            pairs: Some(point.pairs),
            size: Some(point.size),
            rate: Some(point.rate),
            burst: Some(point.burst),
            arrivals: point.arrivals,
            touch: point.touch,
            placement,
        }
    }

    /// Lets the condition along an axis vary.
    pub fn without(mut self, axis: Axis) -> Conditions {
        match axis {
            Axis::Rate | Axis::Share => self.rate = None,
            Axis::Size => self.size = None,
            Axis::Pairs => self.pairs = None,
            Axis::Burst => self.burst = None,
        }
        self
    }

    /// Returns them in words, one part after the other. The same part of different conditions has the same place.
    pub fn words(&self) -> [Option<String>; 8] {
        let traffic = match self.dimension {
            Dimension::Throughput => "sender and receiver",
            Dimension::Latency => "client and server",
        };
        let location = match self.location {
            Location::Local => "on one host",
            Location::Remote => "between two hosts",
        };
        let touch = match self.touch {
            Touch::None => "payload not touched",
            Touch::Header => "headers written and checked",
            Touch::Full => "every byte written and checked",
        };
        let placement = match self.placement {
            AppPlacement::Separate => "applications on processors of their own",
            AppPlacement::Crowded => "applications share processors",
            AppPlacement::Joined => "both ends in one thread",
        };
        // As fast as possible, there are no times at which packets are due.
        let arrivals = match self.arrivals {
            _ if self.rate == Some(OfferedRate::Max) => None,
            Arrivals::Constant => Some("bursts at equal intervals".to_owned()),
            Arrivals::Poisson => Some("bursts at random (Poisson)".to_owned()),
            Arrivals::OnOff { on, off } => Some(format!("{on} ms of bursts, then {off} ms of silence")),
        };
        [
            self.pairs.map(|pairs| match pairs {
                1 => format!("one {traffic}"),
                pairs => format!("{pairs} pairs of {traffic}"),
            }),
            Some(location.to_owned()),
            self.size.map(size_in_words),
            self.rate.map(rate_in_words),
            self.burst
                .map(|burst| if burst == 1 { "packets one by one".to_owned() } else { format!("bursts of {burst}") }),
            arrivals,
            Some(touch.to_owned()),
            Some(placement.to_owned()),
        ]
    }

    /// Returns them as the paper writes them.
    pub fn tuple(&self) -> String {
        let parts = [
            Some(format!("D = {}", dimension(self.dimension))),
            Some(format!("L = {}", location(self.location))),
            self.pairs.map(|pairs| format!("S = {pairs}vs{pairs}")),
            self.size.map(|size| format!("P = {size}")),
            self.rate.map(|rate| format!("R = {rate}")),
            self.burst.map(|burst| format!("B = {burst}")),
        ];
        format!("({})", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }

    /// Returns them as words without spaces, which notes refer to.
    pub fn name(&self) -> String {
        let parts = [
            Some(location(self.location).to_owned()),
            self.pairs.map(|pairs| format!("{pairs}vs{pairs}")),
            self.size.map(|size| if let Size::Bytes(bytes) = size { format!("{bytes}B") } else { size.to_string() }),
            self.rate.map(|rate| format!("rate-{}", rate.to_string().replace(' ', "-"))),
            self.burst.map(|burst| format!("burst-{burst}")),
            (self.arrivals != Arrivals::Constant).then(|| self.arrivals.to_string()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

/// Returns the words that all of these have, and the others of each.
pub fn common_words(all: &[Conditions]) -> (Vec<String>, Vec<Vec<String>>) {
    let words: Vec<_> = all.iter().map(Conditions::words).collect();
    let is_common = |part: usize| words.iter().all(|each| each[part] == words[0][part]);
    let of = |each: &[Option<String>; 8], common: bool| -> Vec<String> {
        let parts = each.iter().enumerate().filter(|&(part, _)| is_common(part) == common);
        parts.filter_map(|(_, word)| word.clone()).collect()
    };
    (words.first().map(|first| of(first, true)).unwrap_or_default(), words.iter().map(|each| of(each, false)).collect())
}

fn size_in_words(size: Size) -> String {
    match size {
        Size::Bytes(bytes) => format!("{bytes}-byte frames"),
        Size::Imix => "frames of 64, 594 and 1518 bytes (IMIX)".to_owned(),
    }
}

fn rate_in_words(rate: OfferedRate) -> String {
    match rate {
        OfferedRate::Max => "as fast as possible".to_owned(),
        OfferedRate::PerSecond(rate) if rate >= 1e6 => format!("{} Mpps offered by each sender", rate / 1e6),
        OfferedRate::PerSecond(rate) => format!("{} kpps offered by each sender", rate / 1e3),
        OfferedRate::Search => "rates searched for".to_owned(),
        OfferedRate::OfNdr(percent) => format!("{percent} % of each switch's own rate without loss"),
    }
}

fn dimension(dimension: Dimension) -> &'static str {
    match dimension {
        Dimension::Throughput => "throughput",
        Dimension::Latency => "latency",
    }
}

fn location(location: Location) -> &'static str {
    match location {
        Location::Local => "local",
        Location::Remote => "remote",
    }
}
