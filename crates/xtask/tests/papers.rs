//! docs/papers.md names files, pages and sections that exist, and every figure and table of the papers.

use std::fs;
use std::path::Path;

/// A paper: the beginning of its section's heading, and the numbers of its figures and tables.
struct Paper {
    heading: &'static str,
    figures: usize,
    tables: &'static [&'static str],
}

const PAPERS: &[Paper] = &[
    Paper { heading: "IOVTee", figures: 12, tables: &["I", "II", "III", "IV", "V", "VI"] },
    Paper { heading: "ZCopy-Vhost", figures: 10, tables: &["1", "2"] },
    Paper { heading: "PA-Flow", figures: 14, tables: &["1", "2", "3", "4", "5"] },
    // Slides, without numbers.
    Paper { heading: "Static role assignment", figures: 0, tables: &[] },
    Paper { heading: "nfv-testperf", figures: 6, tables: &["1", "2"] },
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

fn page() -> String {
    fs::read_to_string(root().join("docs/papers.md")).unwrap()
}

/// Returns the cells of each row of the table in a paper's section.
fn rows<'a>(page: &'a str, paper: &Paper) -> Vec<Vec<&'a str>> {
    let section = page.split("\n## ").find(|section| section.starts_with(paper.heading));
    let section = section.unwrap_or_else(|| panic!("no section begins with {}", paper.heading));
    let lines = section.lines().filter(|line| line.starts_with('|')).skip(2);
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Reports whether a text names this figure or table, and not only one whose number begins alike. `Fig. 4a` names figure 4.
fn names(text: &str, item: &str) -> bool {
    let longer = |rest: &str| rest.starts_with(|next: char| next.is_ascii_digit() || next.is_ascii_uppercase());
    text.match_indices(item).any(|(at, _)| !longer(&text[at + item.len()..]))
}

/// Returns the anchors of a page's headings, as they are made for its readers.
fn anchors(page: &str) -> Vec<String> {
    let mut in_code = false;
    let headings = page.lines().filter(|line| {
        in_code ^= line.starts_with("```");
        !in_code && line.starts_with('#')
    });
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        text.chars().filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter)).collect()
    };
    headings.map(anchor).collect()
}

/// Returns why a link of the page leads nowhere.
fn broken(page: &str, link: &str) -> Option<String> {
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let path = root().join("docs").join(file);
    let there = if file.is_empty() { Ok(page.to_owned()) } else { fs::read_to_string(&path) };
    match (there, anchor) {
        (Err(error), _) => Some(format!("{link}: {error}")),
        (Ok(text), Some(anchor)) if !anchors(&text).iter().any(|one| one == anchor) => {
            Some(format!("{link}: the page has no such heading"))
        }
        _ => None,
    }
}

/// Reports whether a word of code is meant as a path of the repository.
fn is_path(word: &str) -> bool {
    let in_paths = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
    word.contains('/') && !word.starts_with('/') && word.chars().all(in_paths)
}

#[test]
fn links_lead_somewhere() {
    let page = page();
    let links = page.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
    let wrong: Vec<_> = links.filter_map(|link| broken(&page, link)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn named_files_exist() {
    let page = page();
    let words = page.split('`').skip(1).step_by(2).flat_map(str::split_whitespace).filter(|word| is_path(word));
    let exists = |path: &str| root().join(path).exists() || root().join("crates").join(path).exists();
    let missing: Vec<_> = words.filter(|path| !exists(path)).collect();
    assert!(missing.is_empty(), "neither in the repository nor in crates: {missing:?}");
}

#[test]
fn every_figure_and_table_has_a_row() {
    let page = page();
    for paper in PAPERS {
        let rows = rows(&page, paper);
        let figures = (1..=paper.figures).map(|number| format!("Fig. {number}"));
        for item in figures.chain(paper.tables.iter().map(|number| format!("Table {number}"))) {
            assert!(rows.iter().any(|row| names(row[0], &item)), "{}: no row for {item}", paper.heading);
        }
    }
}

#[test]
fn absent_items_have_a_reason() {
    let page = page();
    for row in PAPERS.iter().flat_map(|paper| rows(&page, paper)) {
        // A paper may have a column for another way to do the same.
        let ([item, code, _, ours, remark] | [item, code, _, ours, _, remark]) = row[..] else {
            panic!("not five cells, nor six: {row:?}")
        };
        assert!(!item.is_empty() && !code.is_empty() && !ours.is_empty(), "an empty cell: {row:?}");
        assert!((code != "-" && ours != "-") || !remark.is_empty(), "absent without a reason: {item}");
    }
}

#[test]
fn mistakes_are_found() {
    assert!(names("Fig. 4a", "Fig. 4") && !names("Fig. 10", "Fig. 1") && !names("Table IV", "Table I"));
    let page = "# A page, and (more)\n";
    assert_eq!(broken(page, "#a-page-and-more"), None);
    assert!(broken(page, "#another").is_some() && broken(page, "nowhere.md").is_some());
    assert!(is_path("nf/src/nowhere.rs") && !is_path("/dev/zcopy") && !is_path("copy-break"));
}
