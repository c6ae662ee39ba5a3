//! Text tables of the results, one for each test, as RFC 2544 §26 and RFC 9004 §7 ask for them.

use super::Tested;
use crate::search::record::Ended;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

/// Formats a report of all tests.
pub fn report(tested: &[Tested]) -> String {
    [throughput(tested), latency(tested), frame_loss(tested), back_to_back(tested)].join("\n\n") + "\n"
}

fn throughput(tested: &[Tested]) -> String {
    let header = ["FRAME SIZE", "MAXIMUM frames/s", "THROUGHPUT frames/s", "LEAST WITH LOSS frames/s", "% OF MAXIMUM"];
    let rows = tested.iter().map(|tested| {
        let [lower, upper] = tested.throughput.bounds;
        let (mark, upper) = match tested.throughput.ended {
            Ended::Found => ("", whole(upper)),
            Ended::LoadLimit => (" or more", "-".to_owned()),
            Ended::AlwaysLost => (" (lost at every rate)", whole(upper)),
            Ended::Effort => (" (not narrowed)", whole(upper)),
        };
        let percent = format!("{:.1}", 100.0 * lower / tested.max);
        vec![tested.size.to_string(), whole(tested.max), whole(lower) + mark, upper, percent]
    });
    section("Throughput (RFC 2544 §26.1)", &header, rows, "The throughput is the greatest rate without loss.")
}

fn latency(tested: &[Tested]) -> String {
    let header = ["FRAME SIZE", "RATE frames/s", "TRIALS", "LATENCY us", "DEVIATION us", "99 % us", "LOSS %"];
    let rows = tested.iter().map(|tested| {
        let size = tested.size.to_string();
        let Some(figures) = tested.latency else { return absent(size, header.len()) };
        let micro = |nanoseconds: f64| format!("{:.1}", nanoseconds / 1000.0);
        let [mean, deviation, p99] = [figures.mean, figures.deviation, figures.p99].map(micro);
        let loss = format!("{:.4}", 100.0 * figures.loss);
        vec![size, whole(figures.rate), figures.trials.to_string(), mean, deviation, p99, loss]
    });
    let note = "From sending a frame to receiving it, by one clock; RFC 1242 §3.8 leaves out the time that the frame itself takes. \
                Average, and standard deviation, of the trials' means.";
    section("Latency at the throughput (RFC 2544 §26.2)", &header, rows, note)
}

fn frame_loss(tested: &[Tested]) -> String {
    let header = ["FRAME SIZE", "% OF MAXIMUM", "RATE frames/s", "SENT frames/s", "LOSS %"];
    let rows = tested.iter().flat_map(|tested| {
        tested.frame_loss.iter().map(move |trial| {
            let percent = format!("{:.0}", 100.0 * trial.rate / tested.max);
            let loss = format!("{:.3}", 100.0 * trial.loss);
            vec![tested.size.to_string(), percent, whole(trial.rate), whole(trial.offered), loss]
        })
    });
    section("Frame loss rate (RFC 2544 §26.3)", &header, rows, "Each rate until two in a row lose nothing.")
}

fn back_to_back(tested: &[Tested]) -> String {
    let header = ["FRAME SIZE", "FRAMES", "MIN", "MAX", "DEVIATION", "CORRECTED BUFFER TIME s", "N", "STEP", "LIMIT"];
    let rows = tested.iter().map(|tested| {
        let size = tested.size.to_string();
        let (Some(figures), Some(buffer)) = (&tested.bursts, tested.buffer_seconds()) else {
            return absent(size, header.len());
        };
        vec![
            size,
            format!("{:.1}", figures.average),
            whole(figures.spread.min),
            whole(figures.spread.max),
            format!("{:.1}", figures.deviation),
            format!("{buffer:.6}"),
            figures.repetitions.to_string(),
            figures.bursts.step.to_string(),
            figures.bursts.limit.to_string(),
        ]
    });
    let note = "The longest burst without loss: the average of N searches, to within STEP frames, and with bursts of at most LIMIT \
                frames. Not measured where the throughput is the greatest rate.";
    section("Back-to-back frames (RFC 2544 §26.4, RFC 9004)", &header, rows, note)
}

fn section(title: &str, header: &[&str], rows: impl Iterator<Item = Vec<String>>, note: &str) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{title}\n\n{}\n\n{note}", table.trim_fmt())
}

/// Returns a row without figures.
fn absent(size: String, columns: usize) -> Vec<String> {
    std::iter::once(size).chain(std::iter::repeat_n("-".to_owned(), columns - 1)).collect()
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}
