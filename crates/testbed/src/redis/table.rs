//! Results as a table in Markdown.

use super::benchmark::Command;
use super::figures::Row;
use crate::record::Record;

/// Writes the table, with the rig below it.
pub fn markdown(record: &Record<Row>) -> String {
    let mut text = "| MTU | command | bytes | line | requests/s | ratio | average ms | p50 ms | p95 ms | p99 ms |\n\
                    |--:|---|--:|---|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for row in &record.figures {
        let command = match row.command {
            Command::Get => "GET",
            Command::Set => "SET",
        };
        let ratio = row.ratio.map_or_else(|| "1".to_owned(), |ratio| with_range(ratio, 2));
        let [average, p50, p95, p99] =
            [row.average_ms, row.p50_ms, row.p95_ms, row.p99_ms].map(|[median, ..]| format!("{median:.3}"));
        text += &format!(
            "| {} | {command} | {} | {} | {} | {ratio} | {average} | {p50} | {p95} | {p99} |\n",
            row.mtu,
            row.bytes,
            row.line,
            with_range(row.requests_per_s, 0)
        );
    }
    let note = record.note.as_deref().unwrap_or_default();
    format!("{text}\nMedians, with least and greatest of the rounds. {note}.\n\n{}\n", record.foot().join("  \n"))
}

fn with_range([median, least, greatest]: [f64; 3], places: usize) -> String {
    format!("{median:.places$} ({least:.places$}..{greatest:.places$})")
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::rows;
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn a_row_has_all_figures() {
        let machine = Machine::detect(std::path::Path::new("/"));
        let text = markdown(&Record::new(&machine, &["a note".to_owned()], rows()));
        let row = "| 1500 | GET | 64 | nf-proxy, exchange | 400 (200..600) | 2.00 (2.00..2.00) | 0.500 | 0.400 | 0.900 | 1.250 |";
        assert!(text.contains(row) && text.contains("a note."), "{text}");
    }
}
