//! A report as text.

use super::figures::{Rates, stopped};
use super::report::{Question, Report, Verdict};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

/// Writes the report.
pub fn text(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["QUESTION", "ANSWER", "SEEN"]);
    for answer in report.answers.iter() {
        let is_fault = answer.question.is_serious() && answer.answer == Verdict::No;
        let verdict = if is_fault { "NO".to_owned() } else { answer.answer.to_string() };
        table.add_row([answer.question.to_string(), verdict, answer.seen.clone()]);
    }
    let card = report.card.as_ref().map_or(String::new(), |card| format!(" ({card})"));
    let mut text = format!("{}{card}\nother end: {}\n\n{}\n", report.device, report.other_end, table.trim_fmt());
    if let Some(rates) = &report.rates {
        text += &format!("\n{}", self::rates(rates));
    }
    text += &format!("\n{}\n", report.machine);
    for (warning, times) in &report.warnings {
        let times = if *times > 1 { format!(" ({times} times)") } else { String::new() };
        text += &format!("The switch warned: {warning}{times}\n");
    }
    if let Some(row) = row(report) {
        text += &format!("\nFor the table of drivers in docs/dpdk.md:\n{row}\n");
    }
    text
}

/// Writes the table of rates.
fn rates(rates: &Rates) -> String {
    let mut table = Table::new();
    let header = [
        "BYTES",
        "MAPPED Mpps",
        "COPIED Mpps",
        "RATIO (MIN..MAX)",
        "IN PLACE",
        "CYCLES/FRAME",
        "SWITCH IDLE",
        "ERRORS",
    ];
    table.load_style(NOTHING).set_header(header);
    for index in 0..header.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for rate in &rates.rows {
        let (mapped, copied, [ratio, least, greatest]) = (&rate.mapped, &rate.copied, rate.ratio);
        table.add_row([
            rate.bytes.to_string(),
            format!("{:.3}", mapped.mpps),
            format!("{:.3}", copied.mpps),
            format!("{ratio:.2} ({least:.2}..{greatest:.2})"),
            format!("{:.0} %", 100.0 * mapped.in_place),
            format!("{:.0} / {:.0}", mapped.cycles, copied.cycles),
            format!("{:.0} / {:.0} %", 100.0 * mapped.idle, 100.0 * copied.idle),
            format!("{} / {}", mapped.errors, copied.errors),
        ]);
    }
    let shared = if rates.shared {
        " There are fewer than four processors, which parts shared: these rates say little."
    } else {
        ""
    };
    format!(
        "{}\nFrames that went there and back: medians of {} rounds of {} s; mapped and copied take turns, and ratios are taken round by \
         round.{shared}\n",
        table.trim_fmt(),
        rates.rounds,
        rates.seconds
    )
}

/// Returns the row that the documentation's table of drivers gets, if frames were seen.
fn row(report: &Report) -> Option<String> {
    let of = |question| report.answers.get(question).map(|answer| answer.answer);
    let place = |question| match of(question)? {
        Verdict::Yes => Some("yes"),
        Verdict::Partly => Some("partly"),
        Verdict::No => Some("copied"),
        Verdict::Open | Verdict::NotApplicable => None,
    };
    let (receives, sends) = (place(Question::ReceivesInPlace)?, place(Question::SendsInPlace)?);
    let card = report.card.as_ref().map_or(String::new(), |card| format!(" ({})", card.id));
    let driver = report.driver.as_deref()?.trim_start_matches("net_");
    let dpdk = report.machine.dpdk.as_deref().unwrap_or("DPDK");
    let ended = if report.drains.is_empty() { "not seen".to_owned() } else { stopped(&report.drains) };
    let faults = if report.answers.has_faults() { ", **with faults**" } else { "" };
    Some(format!(
        "| {driver}{card} | {receives} | {sends} | {ended} | report, {dpdk}, {}{faults} |",
        report.machine.day()
    ))
}

#[cfg(test)]
mod tests {
    use super::super::card::Card;
    use super::super::rates::tests::rates;
    use super::super::report::Answers;
    use super::*;
    use crate::machine::Machine;

    fn report(bytes: Verdict) -> Report {
        let mut answers = Answers::default();
        answers.set(Question::ReceivesInPlace, Verdict::Yes, "9 of 9 frames received");
        answers.set(Question::SendsInPlace, Verdict::No, "0 of 9 frames sent");
        answers.set(Question::BytesRight, bytes, "18 of 18 frames");
        answers.finish("the reason");
        let mut machine = Machine::detect(std::path::Path::new("/"));
        machine.dpdk = Some("DPDK 22.11.11".to_owned());
        machine.date = "2030-01-02T03:04:05Z".to_owned();
        Report {
            device: "0000:3b:00.0".to_owned(),
            driver: Some("net_e1000_em".to_owned()),
            card: Some(Card { id: "8086:100e".to_owned(), kernel_driver: None, iommu_group: Some("7".to_owned()) }),
            other_end: "the interface eth1".to_owned(),
            answers,
            drains: Vec::new(),
            rates: Some(rates()),
            warnings: [("a warning".to_owned(), 2)].into(),
            machine,
        }
    }

    #[test]
    fn a_report_has_all_answers_and_a_row_for_the_documentation() {
        let text = text(&report(Verdict::Yes));
        for expected in [
            "0000:3b:00.0 (PCI 8086:100e, no driver of the kernel, IOMMU group 7)",
            "other end: the interface eth1",
            "1.50 (1.00..2.00)",
            "The switch warned: a warning (2 times)",
            "| e1000_em (8086:100e) | yes | copied | not seen | report, DPDK 22.11.11, 2030-01-02 |",
        ] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
        let line = |begin: &str| text.lines().find(|line| line.trim_start().starts_with(begin)).map(str::to_owned);
        assert!(line("every byte is right").unwrap().contains("yes"));
        assert!(line("buffers come back").unwrap().contains("open") && line("buffers").unwrap().contains("the reason"));
    }

    #[test]
    fn faults_are_in_the_row_too() {
        assert!(row(&report(Verdict::No)).unwrap().ends_with("2030-01-02, **with faults** |"));
        let mut unseen = report(Verdict::Open);
        unseen.answers = Answers::default();
        assert_eq!(row(&unseen), None);
    }
}
