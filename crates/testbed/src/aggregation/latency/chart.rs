//! Histograms of times, one panel per rate: shares of packets over time, on a logarithmic axis.

use crate::aggregation::single_node::{Results, Row};
use crate::draw::{Scale, Svg};
use hdrhistogram::Histogram;

const HEIGHT: f64 = 300.0;
const WIDTH: f64 = 460.0;
const LEFT: f64 = 52.0;
const TOP: f64 = 140.0;
const BOTTOM: f64 = 64.0;

const COLOURS: [&str; 4] = ["#404040", "#1f6fb0", "#e08a1e", "#2f9a48"];

/// Classes of the chart per power of two.
const STEPS: f64 = 16.0;

/// Shares of packets in percent, by classes of equal factors from the first one on.
struct Shares {
    first: i32,
    percent: Vec<f64>,
}

/// Returns the class of a time in microseconds.
fn class(microseconds: f64) -> i32 {
    (microseconds.log2() * STEPS).floor() as i32
}

impl Shares {
    /// Computes the shares of times from `from` to `to` microseconds, counted in cycles; `cycles` is their number per
    /// microsecond.
    fn of(histogram: &Histogram<u64>, (from, to): (f64, f64), cycles: f64) -> Shares {
        let first = class(from);
        let mut percent = vec![0.0; (class(to) - first + 1) as usize];
        for recorded in histogram.iter_recorded() {
            let time = histogram.median_equivalent(recorded.value_iterated_to());
            let at = class(time as f64 / cycles) - first;
            if let Some(share) = usize::try_from(at).ok().and_then(|at| percent.get_mut(at)) {
                *share += 100.0 * recorded.count_since_last_iteration() as f64 / histogram.len() as f64;
            }
        }
        Shares { first, percent }
    }
}

/// Draws the chart.
pub fn svg(results: &Results, rates: &[f64]) -> String {
    let cycles = results.rig.tsc_ghz * 1e3;
    let mut svg = Svg::new((LEFT + WIDTH) * rates.len().max(1) as f64 + 24.0, TOP + HEIGHT + BOTTOM);
    svg.label((LEFT, 24.0), "start", 16, "Time of a packet through node and network function");
    for (number, rate) in rates.iter().enumerate() {
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.rate == *rate).collect();
        panel(&mut svg, LEFT + number as f64 * (LEFT + WIDTH), &rows, cycles);
    }
    svg.label((LEFT, TOP + HEIGHT + BOTTOM - 8.0), "start", 9, &results.rig.to_string());
    svg.end()
}

fn panel(svg: &mut Svg, left: f64, rows: &[&Row], cycles: f64) {
    let Some(first) = rows.first() else { return };
    let histograms: Vec<Histogram<u64>> = rows.iter().map(|row| row.histogram()).collect();
    // Of a median round: in some the machine stood still for milliseconds.
    let most = |row: &Row| row.spread(|sample| sample.times.p999).median;
    let from = histograms.iter().map(|histogram| histogram.value_at_quantile(0.0005) as f64 / cycles);
    let from = from.fold(f64::INFINITY, f64::min).max(0.01);
    let to = rows.iter().map(|row| most(row)).fold(from, f64::max) * 1.15;
    let shares: Vec<Shares> = histograms.iter().map(|histogram| Shares::of(histogram, (from, to), cycles)).collect();
    let scale = Scale::up_to(shares.iter().flat_map(|shares| &shares.percent).copied().fold(0.1, f64::max));
    let classes = shares.iter().map(|shares| shares.percent.len()).max().unwrap_or(1).max(1) as f64;
    let x = |class: f64| left + (class - f64::from(shares[0].first)) / classes * (WIDTH - 24.0);
    let y = |percent: f64| TOP + HEIGHT * (1.0 - percent / scale.top());
    svg.label((left, 48.0), "start", 13, &format!("{} Mpps: % of packets, by time", first.rate));
    for value in scale.marks() {
        svg.line(&[(left, y(value)), (x(f64::from(shares[0].first) + classes), y(value))], "#d8d8d8", "");
        svg.label((left - 6.0, y(value) + 4.0), "end", 12, &format!("{value}"));
    }
    marks(from, to)
        .for_each(|time| svg.label((x(time.log2() * STEPS), TOP + HEIGHT + 16.0), "middle", 12, &format!("{time}")));
    svg.label(
        (left + WIDTH / 2.0, TOP + HEIGHT + 34.0),
        "middle",
        12,
        "microseconds; dotted: 99.9 % of packets took less",
    );
    for (index, (row, shares)) in rows.iter().zip(&shares).enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let steps =
            shares.percent.iter().zip(shares.first..).flat_map(|(&percent, class)| {
                [(x(f64::from(class)), y(percent)), (x(f64::from(class + 1)), y(percent))]
            });
        svg.line(&steps.collect::<Vec<_>>(), colour, "stroke-width=\"1.5\"");
        let (half, most) = (row.spread(|sample| sample.times.p50).median, most(row));
        let at = x(most.log2() * STEPS);
        svg.line(&[(at, TOP), (at, TOP + HEIGHT)], colour, "stroke-dasharray=\"2 4\"");
        let place = (left, 68.0 + 17.0 * index as f64);
        svg.rectangle((place.0, place.1 - 9.0), (10.0, 10.0), colour);
        let text = format!("{}: median {half:.2}, 99.9 % {most:.2}", row.case.placement);
        svg.label((place.0 + 16.0, place.1), "start", 12, &text);
    }
}

/// Returns the round times between two times.
fn marks(from: f64, to: f64) -> impl Iterator<Item = f64> {
    let powers = (-3..7).map(|power| 10f64.powi(power));
    let all = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|factor| (factor * power * 1e3).round() / 1e3));
    all.filter(move |time| (from..=to).contains(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_has_its_share() {
        let mut histogram = loadgen::traffic::times();
        (0..1000).for_each(|n| histogram.saturating_record(2_000 + n));
        let shares = Shares::of(&histogram, (1.0, 4.0), 1000.0);
        assert_eq!((shares.first, shares.percent.len()), (0, 33));
        assert!((shares.percent.iter().sum::<f64>() - 100.0).abs() < 1e-6);
        // Nothing below two microseconds.
        assert!(shares.percent[..15].iter().all(|share| *share == 0.0), "{:?}", shares.percent);
    }
}
