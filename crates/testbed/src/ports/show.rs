//! Figures as tables, and times of calls as a chart.

use super::figure::{Calls, Figure, Guests, Rounds};
use crate::draw::{Line, Lines, svg};
use crate::record::Record;
use crate::statistics::median;

/// Returns a table for each subject that was measured.
pub fn table(record: &Record<Figure>) -> String {
    let mut text = String::new();
    let mut last = None;
    for figure in &record.figures {
        let (head, row) = match figure {
            Figure::Calls(calls) => (
                "| calls | ports | add, ms: p50 | p99 | del, ms: p50 | p99 | frames lost beside |\n|---|---|---|---|---|---|---|",
                of_calls(calls),
            ),
            Figure::Guests(guests) => (
                "| switch | guests | start, ms | MiB: 2 ports | all ports | all guests | KiB a guest |\n|---|---|---|---|---|---|---|",
                of_guests(guests),
            ),
            Figure::Rounds(rounds) => (
                "| switch | idle ports | a round without them, ns | a port that is down, ns | a silent guest, ns |\n|---|---|---|---|---|",
                of_rounds(rounds),
            ),
        };
        if last.replace(head) != Some(head) {
            text += if text.is_empty() { "" } else { "\n" };
            text += &format!("{head}\n");
        }
        text += &format!("{row}\n");
    }
    format!("{text}\n{}\n", record.foot().join("\n"))
}

fn middle(values: &[f64]) -> f64 {
    median(values.iter().copied()).unwrap_or(f64::NAN)
}

fn of_calls(calls: &Calls) -> String {
    let [p50, p99, del, del_p99] =
        [&calls.add_p50_ms, &calls.add_p99_ms, &calls.del_p50_ms, &calls.del_p99_ms].map(|values| middle(values));
    let (lost, frames) = (calls.lost.iter().sum::<u64>(), calls.frames.iter().sum::<u64>());
    let Calls { by, ports, .. } = calls;
    format!("| {by} | {ports} | {p50:.2} | {p99:.2} | {del:.2} | {del_p99:.2} | {lost} of {} |", frames + lost)
}

fn of_guests(guests: &Guests) -> String {
    let [start, two, started, connected] =
        [&guests.start_ms, &guests.two_mib, &guests.started_mib, &guests.connected_mib].map(|values| middle(values));
    let each = (connected - two) * 1024.0 / f64::from(guests.guests);
    let Guests { switch, guests, .. } = guests;
    format!("| {switch} | {guests} | {start:.0} | {two:.0} | {started:.0} | {connected:.0} | {each:.0} |")
}

fn of_rounds(rounds: &Rounds) -> String {
    let [alone, down, silent] = [&rounds.alone_ns, &rounds.down_ns, &rounds.silent_ns].map(|values| middle(values));
    format!("| {} | {} | {alone:.0} | {down:.2} | {silent:.2} |", rounds.switch, rounds.ports)
}

/// Draws the times of additions by the number of ports that are there, if they were measured.
pub fn chart(record: &Record<Figure>) -> Option<String> {
    let calls: Vec<&Calls> = record
        .figures
        .iter()
        .filter_map(|figure| if let Figure::Calls(calls) = figure { Some(calls) } else { None })
        .collect();
    let ports = calls.first()?.ports;
    let line = |calls: &&Calls| Line {
        name: calls.by.clone(),
        values: calls.add_by_tenth_ms.iter().map(|&ms| Some(ms)).collect(),
    };
    Some(svg(&Lines {
        title: "Adding a port: milliseconds, medians".into(),
        axis: "ports added so far, up to".into(),
        marks: (1..=10).map(|tenth| (ports * tenth / 10).to_string()).collect(),
        panels: vec![(
            format!("{ports} vhost-user ports, while two guests exchange frames"),
            calls.iter().map(line).collect(),
        )],
        limits: Vec::new(),
        foot: record.foot().join("; "),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn each_subject_has_a_table() {
        let calls = |by: &str, ms: f64| {
            let values = || vec![ms, ms * 2.0, ms];
            Figure::Calls(Calls {
                by: by.to_owned(),
                ports: 1000,
                add_p50_ms: values(),
                add_p99_ms: values(),
                del_p50_ms: values(),
                del_p99_ms: values(),
                add_by_tenth_ms: vec![ms; 10],
                frames: vec![100],
                lost: vec![1],
            })
        };
        let rounds = Rounds {
            switch: "one".into(),
            ports: 256,
            alone_ns: vec![900.0],
            down_ns: vec![0.0],
            silent_ns: vec![12.5],
        };
        let machine = Machine::detect(std::path::Path::new("/"));
        let all = vec![calls("one", 1.25), calls("other", 20.0), Figure::Rounds(rounds)];
        let record = Record::new(&machine, &[], all);
        let text = table(&record);
        assert_eq!(text.matches("| calls |").count(), 1, "{text}");
        assert!(text.contains("| one | 1000 | 1.25 | 1.25 | 1.25 | 1.25 | 1 of 101 |"), "{text}");
        assert!(text.contains("| one | 256 | 900 | 0.00 | 12.50 |"), "{text}");
        assert!(chart(&record).is_some_and(|chart| chart.contains("other")));
        let record = Record::new(&machine, &[], record.figures.into_iter().skip(2).collect());
        assert!(chart(&record).is_none());
    }
}
