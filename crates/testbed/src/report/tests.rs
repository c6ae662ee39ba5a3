//! Reports of runs that a formula made up.

use super::contents::Report;
use super::figures::{DataPoint, Figure, Panel};
use super::read::{self, Set};
use super::verdict::{Metric, Outcome};
use super::{ReportError, WriteReport, markdown, page, sample};
use serde_json::Value;
use std::fs;
use tempfile::TempDir;

fn written() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    sample::write(directory.path());
    directory
}

fn report() -> Report {
    Report::of(vec![read::read(written().path()).unwrap()])
}

fn set(runs: &[Value]) -> Set {
    let directory = written();
    let lines: Vec<String> = runs.iter().map(|run| format!("{run}\n")).collect();
    fs::write(directory.path().join("runs.jsonl"), lines.concat()).unwrap();
    read::read(directory.path()).unwrap()
}

fn figure<'r>(report: &'r Report, id: &str) -> &'r Figure {
    report.figures.iter().find(|figure| figure.id == id).unwrap()
}

fn spots<'p>(panel: &'p Panel, switch: &str) -> &'p [DataPoint] {
    &panel.series.iter().find(|series| series.contestant.switch == switch).unwrap().spots
}

#[test]
fn a_figure_has_a_panel_for_all_that_is_held_fixed() {
    let report = report();
    let panels: Vec<_> = report.figures.iter().map(|figure| (figure.id, figure.panels.len())).collect();
    let expected = [
        ("offered", 2),
        ("sizes", 1),
        ("bits", 1),
        ("remote", 1),
        ("pairs", 2),
        ("fairness", 2),
        ("rates", 2),
        ("round-trips", 3),
        ("load", 3),
    ];
    assert_eq!(panels[..expected.len()], expected);
    let names: Vec<_> = report.figures[expected.len()..].iter().map(|figure| figure.id).collect();
    assert_eq!(names, ["processors", "techniques"]);
    let offered = figure(&report, "offered");
    let titles: Vec<_> = offered.panels.iter().map(|panel| panel.title.as_str()).collect();
    assert_eq!(titles, ["64-byte frames", "1500-byte frames"]);
    assert_eq!(offered.panels[0].tuple, "(D = throughput, L = local, S = 1vs1, P = 64, B = 32)");
    assert!(offered.common.contains(&"bursts of 32".to_owned()), "{:?}", offered.common);
}

#[test]
fn a_data_point_is_the_median_of_its_rounds() {
    let report = report();
    let sizes = &figure(&report, "sizes").panels[0];
    let [smallest, .., largest] = spots(sizes, "millrace") else { panic!("six sizes") };
    assert_eq!((smallest.x, largest.x), (64.0, 1500.0));
    let expected = 1000.0 / (24.0 + 0.062 * 64.0);
    assert!((smallest.y.median / expected - 1.0).abs() < 0.05, "{smallest:?}");
    assert!(smallest.y.low < smallest.y.high && smallest.y.rounds == 4, "{smallest:?}");
    let fair = &figure(&report, "fairness").panels[0];
    assert!(spots(fair, "ovs-dpdk").iter().all(|spot| (0.99..=1.0).contains(&spot.y.median)), "{fair:?}");
    let used = &figure(&report, "processors").panels[0];
    assert!(spots(used, "millrace").iter().all(|spot| spot.x == 2.0), "{used:?}");
}

#[test]
fn runs_of_other_distances_are_left_out_and_counted() {
    let report = report();
    let sizes = &figure(&report, "sizes").panels[0];
    assert_eq!(sizes.distance, "Processors near. Runs left out: 1 with far processors, 1 whose processors moved.");
    assert_eq!(figure(&report, "remote").panels[0].distance, "Processors near.");
}

#[test]
fn a_switch_that_is_reached_in_several_ways_has_a_bar_for_each() {
    let report = report();
    let ways = &figure(&report, "techniques").panels[0];
    let names: Vec<_> = ways.series.iter().map(|series| report.study.cast.name(&series.contestant)).collect();
    let expected = ["udp", "udp-mmsg", "raw", "raw-mmsg"].map(|way| format!("linux-bridge ({way})"));
    assert_eq!(names, expected);
    let table = figure(&report, "techniques").table(ways, &report.study.cast);
    assert_eq!((table.heads.len(), table.rows.len(), table.rows[0][0].as_str()), (5, 1, "received"));
}

#[test]
fn losses_and_failures_of_millrace_come_first() {
    let report = report();
    let behind = report.verdict.behind();
    assert!(!behind.is_empty());
    for finding in &behind {
        assert!(finding.rival.switch == "vpp" && finding.conditions.tuple().contains("P = 1"), "{}", finding.name());
    }
    let long =
        behind.iter().find(|f| f.name() == "throughput local 1vs1 1500B rate-max burst-32 against vpp virtio-user");
    let long = long.unwrap();
    assert_eq!(long.notes, ["VPP copies long frames with wider instructions."]);
    assert!((0.8..0.99).contains(&long.ratio.median) && long.outcome == Outcome::Behind, "{long:?}");
    let [missing] = &report.verdict.missing[..] else { panic!("{:?}", report.verdict.missing) };
    assert!(missing.contains("4vs4") && missing.contains("1500 B") && missing.contains("within 20 s"), "{missing}");
    let sentences = report.verdict.sentences(&report.study.cast).join(" ");
    assert!(sentences.contains("In 1 test more, Millrace failed"), "{sentences}");
    let markdown = markdown::text(&report);
    let place = |text: &str| markdown.find(text).unwrap_or_else(|| panic!("{text} is missing"));
    assert!(place("## Where Millrace is not first") < place("## Millrace compared with each"));
    assert!(place("wider instructions") < place("## Rig"));
}

#[test]
fn a_rate_that_all_switches_carry_is_no_lead() {
    let report = report();
    let delivered = report.verdict.findings.iter().filter(|finding| finding.metric == Metric::Delivered);
    let slow: Vec<_> = delivered.filter(|finding| finding.conditions.tuple().contains("R = 1000000,")).collect();
    assert_eq!(slow.len(), 6);
    assert!(slow.iter().all(|finding| finding.outcome == Outcome::Even), "{slow:?}");
}

#[test]
fn a_load_without_idle_time_is_named() {
    let report = report();
    let limited: Vec<_> = report.verdict.findings.iter().filter(|finding| finding.load_limited).collect();
    assert!(!limited.is_empty());
    assert!(limited.iter().all(|finding| finding.name().contains(" 64B ")), "{limited:?}");
}

#[test]
fn each_switch_is_compared_with_the_mode_that_forwards_as_it_does() {
    let report = report();
    for finding in &report.verdict.findings {
        let mode = if finding.rival.switch == "testpmd" { "millrace-patch" } else { "millrace" };
        assert_eq!(finding.millrace.switch, mode, "{}", finding.name());
        assert!(!finding.rival.is_millrace(), "{}", finding.name());
    }
}

#[test]
fn a_report_without_comparisons_says_so() {
    let of = |keep: fn(&Value) -> bool| {
        let runs: Vec<_> = sample::runs().into_iter().filter(keep).collect();
        let report = Report::of(vec![set(&runs)]);
        assert!(page::html(&report).contains("Nothing is compared"));
        report.verdict.sentences(&report.study.cast).join(" ")
    };
    assert!(of(|_| false).contains("no run has a result"));
    assert!(of(|run| run["point"]["switch"] == "millrace").contains("no other switch has results"));
    assert!(
        of(|run| !run["point"]["switch"].as_str().unwrap().starts_with("millrace")).contains("Millrace has no results")
    );
}

#[test]
fn a_run_that_failed_and_was_repeated_has_its_result() {
    let mut runs: Vec<_> = sample::runs().into_iter().take(3).collect();
    let mut failed = runs[2].clone();
    failed["error"] = "the first try".into();
    failed["reports"] = Value::Array(Vec::new());
    runs.insert(0, failed);
    let set = set(&runs);
    assert_eq!((set.runs.len(), set.failed.len()), (3, 0));
}

#[test]
fn texts_of_runs_are_no_markup() {
    let report = report();
    let page = page::html(&report);
    assert!(page.contains("# A scenario &lt;/script&gt;") && page.contains("&lt;out of buffers&gt; &amp;"));
    assert!(!page.contains("<out of") && !page.contains(" src=") && !page.contains("href=\"http"));
    // The data, uPlot and our own.
    assert_eq!(page.matches("</script>").count(), 3);
    assert!(markdown::text(&report).contains("\\<out of buffers\\> \\& \"gone\""));
}

#[test]
fn directories_are_never_compared_with_each_other() {
    let [one, two] = [0, 1].map(|_| read::read(written().path()).unwrap());
    let alone = report();
    let both = Report::of(vec![one, two]);
    assert_eq!(both.verdict.findings.len(), 2 * alone.verdict.findings.len());
    assert_eq!(figure(&both, "sizes").panels.len(), 2);
}

#[test]
fn unreadable_runs_are_named_with_their_line() {
    let directory = written();
    let options = WriteReport { directories: vec![directory.path().to_owned()], out: None };
    let change = |name: &str, text: &str| {
        fs::write(directory.path().join(name), text).unwrap();
        super::run(&options).unwrap_err()
    };
    let error = change("notes.toml", "[[note]]\nfinding = \"snabb 64B\"\ntext = \"none\"\n");
    assert!(matches!(error, ReportError::NoFinding { .. }) && error.to_string().contains("\"snabb 64B\""), "{error}");
    let error = change("notes.toml", "[[note]]\nfindings = \"vpp\"\ntext = \"none\"\n").to_string();
    assert!(error.contains("findings") && error.contains("notes.toml"), "{error}");
    let error = change("runs.jsonl", "{}\n").to_string();
    assert!(error.contains("runs.jsonl, line 1"), "{error}");
}
